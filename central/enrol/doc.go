// Package enrol is the fleet's authority: it makes tokens, takes in the servers and
// rackds that show them, and signs what they prove themselves with: certificates for
// mutual TLS, and NATS credentials that say what each may do.
//
// It may import central/store, central/groupkeys and protocol. Invariants:
//   - Its keys lie in the database's vault, sealed with the fleet's key: every replica
//     can do everything, none has files of its own.
//   - A token works once, whatever comes at once; only with the same keys again, so that
//     a joiner whose answer got lost can ask again.
//   - A member's scope is its token's. Subjects and names in certificate requests are
//     not read.
//   - A rackd that is revoked or replaced gets no later key of its groups, and all of them get one.
package enrol
