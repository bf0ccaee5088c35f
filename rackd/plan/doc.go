// Package plan decides which named steps a flow runs and in which order: those that a
// node's interfaces contribute, those that the agent in its ramdisk offers, and those
// that somebody asked for.
//
// It may import rackd/driver and protocol. Invariants: a list is made once, from its
// Request, and kept in the work's checkpoint; from then on it is read back (Fixed), whatever
// the flags and the version of the program that reads it. It grows once, by the steps that
// the agent offers (Grow), behind the step that has discovered them.
package plan
