// Package netboot is what rackd's DHCP, TFTP and boot web server have in common:
// the question "what is this machine to do?", and the answer.
//
// It may import protocol only; so may the packages below it, and this one. Nothing
// is written per node: every answer is made from the node's state at the moment of
// the request, so any rackd of a group can boot any of its nodes. None of the
// listeners can authenticate its clients, because firmware has no credentials:
// nothing that they serve is secret, and they only read.
package netboot

import "github.com/ironyard/ironyard/protocol/provision"

// Directory says who a machine is and what it is to do. It answers from memory and
// is safe for concurrent use.
type Directory interface {
	// ByMAC takes a lower-case address with colons; ok is false for a stranger.
	ByMAC(mac string) (m Machine, ok bool)
	ByUUID(uuid string) (m Machine, ok bool)
}

// Order is what a machine that asks is to do.
type Order int

// The orders.
const (
	// Refuse: print Reason on the console.
	Refuse Order = iota
	// Ramdisk: boot the agent.
	Ramdisk
	// LocalDisk: boot what is installed.
	LocalDisk
)

// Machine is a machine at this moment.
type Machine struct {
	UUID, Name string
	State      provision.State
	Order      Order
	Reason     string // for Refuse
	BootMode   string // uefi or bios
	// OverTFTP: kernel and ramdisk come by TFTP (boot interface pxe), not HTTP.
	OverTFTP bool
}

// Journal is told what machines do. It must not block. Phases are the constants
// below; detail is for people.
type Journal interface {
	Seen(mac, phase, detail string)
}

// Phases of a boot.
const (
	PhaseDHCP   = "dhcp"
	PhaseTFTP   = "tftp"
	PhaseScript = "script"
	PhaseKernel = "kernel"
)
