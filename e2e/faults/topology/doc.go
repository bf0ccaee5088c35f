// Package topology is a fleet in small, as it runs in production: three replicas of
// central on one PostgreSQL, a hub of three NATS servers, and sites, each with three
// NATS servers of its own and its rackds, joined to the hub by a WAN cable. Every
// daemon is an unchanged program on a host of its own.
//
// It owns addresses, configuration files and the order of starting. It may import
// e2e/faults/network, e2e/faults/process, protocol and clients of what it runs. All
// state is in one folder, which is what remains for people to read when a test fails.
package topology
