// Package chaos breaks a topology at random and repairs it, by a plan that follows from
// a seed alone.
//
// It may import e2e/faults/topology, e2e/faults/wallclock, ops/virtual/fleet/control and
// protocol/bus. A plan is made of lanes, such as one site's rackds or the database:
// within a lane one fault follows another, each repaired before the next; lanes overlap
// as they like. So the fleet meets any mix of troubles, and never one that no design
// survives, such as two of three disks wiped at once.
package chaos
