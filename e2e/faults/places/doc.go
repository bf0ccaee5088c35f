// Package places kills a rackd at every named place of every flow: the program that
// ships, by SIGKILL, in the middle of real work; another rackd ends what it had begun.
//
// It may import everything. A first run, undisturbed, prints which places each flow
// passes; so a flow that gets a new step is tested at that step too. One test does it to
// many machines at once, whose BMCs answer late, twice, in halves or not at all.
package places
