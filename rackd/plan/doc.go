// Package plan decides which named steps a flow runs and in which order: those that a
// node's interfaces contribute, those that the agent in its ramdisk offers, and those
// that somebody asked for.
//
// It may import rackd/driver and protocol. Invariants: a plan is a function of its
// Request alone, so that a successor gets the same one; what comes before the step
// that discovers the agent's steps, and that step, are the same before and after it.
package plan
