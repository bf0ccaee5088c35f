// Package verdict judges a fault test by what is left of it: what operators were
// answered, central's database, the sites' event streams and buckets, and the versions
// of work documents that a witness saw.
//
// It may import protocol, e2e/faults/operators, e2e/faults/witness and clients of the
// database and the bus. It reads the records and nothing else; it knows the tables, the
// event fields and the state machine, not central's code, so that a mistake there does
// not excuse itself. Each violation names the node, the work and what was expected.
package verdict
