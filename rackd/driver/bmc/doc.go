// Package bmc is what all drivers of BMCs share, over whatever transport they talk.
//
// It owns the sessions on BMCs, turns, courtesy, the sorting of failures and their texts, the fence before
// each write, and the certificates and requests of BMCs that speak HTTP. A driver of IPMI, SNMP or telnet
// uses all of it but http.go and tls.go.
//
// It may import rackd/driver, rackd/driver/namedfile, rackd/outbound and protocol. Invariants:
//   - A BMC has at most one session, and one call at a time. Nodes that share a BMC share both.
//   - Credentials that a BMC has refused are not tried again until they change, or until a pause that grows is over.
//   - A BMC is asked some times a second at most, and not at all while it restarts because rackd told it to (Pool.Rest).
//   - Each write asks the fence at the last moment before it leaves.
//   - A write that left and got no answer is a driver.ErrUnknown.
//   - What only reads is sent once more where a connection that was kept is dead. A login never is.
//   - What a BMC sends ends a call at worst: no panic leaves the pool, and what one call reads is bounded.
//   - An error names its node once, and holds no secret. What a BMC says in it is bounded, and on one line.
//
// Everything exported is safe for concurrent use, except where it says otherwise.
package bmc
