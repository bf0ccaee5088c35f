// Package clients drives a fleet of fake machines with the clients that people have,
// unchanged: Debian's `baremetal` command; and repeats what was asked of a running Ironic. It may import ops; it runs with
// IRONYARD_E2E=1, like the other tests that need Debian packages.
package clients
