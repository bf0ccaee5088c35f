// Package attack attacks the built programs as an outsider would: a stranger on the
// provisioning network, a stranger at the API, a tenant, a stolen rackd, a stolen
// site's server. At the end it prints who tried what, what was reached, and the most
// that may be reached; a line over that fails.
//
// It may import everything, but attacks through what the programs serve: HTTP, TLS,
// TFTP, DHCP and NATS, from hosts of their own. Invariants: each attempt is one line of
// the table; a line that was refused has also shown that the way to it was open.
package attack
