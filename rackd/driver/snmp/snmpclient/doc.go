// Package snmpclient speaks SNMP 1, 2c and 3 to the agents of PDUs and BMCs: it reads objects and columns of tables, and writes
// integers.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/outbound, protocol and gosnmp. Invariants:
//   - A read is repeated some times at most. A write is one datagram, and each datagram of it asks the fence.
//   - A column ends after so many rows and octets, whatever the agent answers. A Reader ends each call after Options.Within.
//   - Keys that an agent has refused are sent once. No error holds a community or a key.
//
// A Session belongs to the holder of the agent's turn. A Reader is safe for concurrent use.
package snmpclient
