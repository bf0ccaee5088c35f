// Package scenario holds the end-to-end tests: the whole product on a virtual rack
// with real firmware, driven through the API as an operator does.
//
// They run with IRONYARD_E2E=1, as root, with the programs built into bin/ (make
// e2e does all of that). It may import everything.
package scenario
