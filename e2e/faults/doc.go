// Package faults proves that nothing that breaks stops the work, loses it or does it
// twice: tests that break one thing at a time in a small fleet (topology), and a run
// that breaks everything at random while operators send requests, with a check of all
// records afterwards.
//
// They run with IRONYARD_E2E=1, as root (make e2e, make chaos). They may import
// everything. What is left of a failed run stays in a folder whose name is printed.
package faults
