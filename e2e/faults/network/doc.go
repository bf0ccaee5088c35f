// Package network is the network of a fault test: hosts, each a network namespace of
// its own, on switches that cables join. Any part of it can be cut, slowed or made
// lossy while programs talk over it.
//
// It may import nothing of the project. Everything is one Ethernet, so that a cable
// between switches is a WAN link and no routes are needed. Invariants: namespaces have
// no names and live as long as this process or a program in them, so nothing is left
// behind however the test ends, and any number of networks exist side by side; nothing
// on the machine's own network changes.
package network
