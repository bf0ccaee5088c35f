// Package metal3 makes the requests that Metal3's baremetal-operator makes, in its
// order and with its reactions, against a whole fleet: register, inspect, prepare,
// provision, service, power, deprovision, delete, and what lies between.
//
// The operator itself is a module that is not to be had where these tests run; what
// it asks and how it reads the answers was taken from its documented behaviour and
// public source. The requests go through gophercloud, as the operator's do. The
// package may import ops and ops/virtual/vbmc. Invariant: a host is driven by what the API
// answers alone, and a pass of its reconciliation keeps nothing but the node's UUID.
package metal3
