// Package membership is a member's folder: what a server or a rackd made for itself
// when it joined the fleet, and what central granted it.
//
//	identity.pem   private key and certificate for mutual TLS
//	fleet.pem      certificate of the fleet's authority
//	bus.creds      NATS credentials: JWT and private key
//	group.keys     keys of the conductor groups (rackds)
//	route.pem      key and certificate that a server shows to the others of its cluster
//	trust.json     what a NATS server must know (hub, bus)
//	member.json    who it is, and where central and the servers are
//	joining.json   keys of a joining that has not been answered yet
//
// It may import protocol. Invariants: files are for their owner's eyes and replaced
// whole, so a reader sees the old or the new one; member.json is written last, so a
// folder that has it is complete. Reading is safe beside a renewal.
package membership
