// Package netns owns the network of a virtual rack: one Linux network namespace
// with one bridge and a tap device per machine.
//
// It may import nothing of the project. Invariants: creating and deleting are
// idempotent, and any process may delete what another created, because all state
// is the kernel's; interfaces exist only inside the namespace, so racks with
// different names never meet; nothing on the host's own network changes.
package netns
