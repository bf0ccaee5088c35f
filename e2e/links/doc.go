// Package links runs tests of the agent's bonds and VLANs on a kernel that has them. The kernel under the tests may have none.
//
// It builds the test program of agent/netup, which it boots in a virtual machine with Debian's kernel, iproute2 and what else those tests
// run. Invariant: it judges nothing itself; the tests' own verdict is its.
package links
