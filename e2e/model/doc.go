// Package model holds the ownership protocol as a Promela model, and tests that have
// spin look at all its runs: that no two rackds act on a machine at once, that no
// accepted work is left undone or done twice, and that each rule of the protocol is
// needed for that.
//
// It imports nothing of the project: README.md says which code makes which move of
// the model, and who changes one changes the other. It needs spin and a C compiler.
package model
