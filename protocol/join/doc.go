// Package join is how a server or a rackd becomes a member of the fleet: the token
// that an operator pastes, what is asked of central and what it grants, and the
// client that asks.
//
// It may import protocol/permit. Invariants:
//   - Private keys stay where they were made: a request carries a certificate request
//     and the public half of a NATS key.
//   - The secret is sent only to a server that has proven to be the one whose
//     fingerprint the token names; redirects are not followed.
//   - What a member may do is what its token says, kept by central: nothing that a
//     joiner writes into its request widens it.
package join
