// Package netboot is what rackd's DHCP, TFTP and boot web server have in common:
// the question "what is this machine to do?", the answer, and what is counted.
//
// It may import protocol only; the packages below it may import protocol and each
// other. Nothing is written per node: every answer is made from the node's state at
// the moment of the request, so any rackd of a group can boot any of its nodes.
//
// None of the listeners can authenticate its clients, because firmware has no
// credentials: nothing that they serve is secret, and they only read. A forged
// request can learn which MAC addresses are enrolled and what state they are in;
// keep the provisioning network to the rack.
package netboot

import (
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Directory says who a machine is and what it is to do. That of DHCP answers from memory; that of scripts may
// take some seconds. Safe for concurrent use.
type Directory interface {
	// ByMAC takes a lower-case address with colons; ok is false for a stranger.
	ByMAC(mac string) (m Machine, ok bool)
	// ByUUID takes a lower-case UUID.
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
	// Later: print Reason, and ask again, another rackd first; this one may not know the newest.
	Later
)

// String names the order in logs and metrics.
func (o Order) String() string {
	switch o {
	case Ramdisk:
		return "ramdisk"
	case LocalDisk:
		return "local-disk"
	case Later:
		return "later"
	}
	return "refuse"
}

// Machine is a machine at this moment.
type Machine struct {
	UUID, Name string
	Group      string // conductor group
	State      provision.State
	Order      Order
	Reason     string // for Refuse
	BootMode   string // uefi or bios
	// OverTFTP: script, kernel and ramdisk come by TFTP (boot interface pxe) and
	// not by HTTP, for networks that filter HTTP.
	OverTFTP bool
	// Kernel and Initramfs, when set, are http, https or tftp URLs that replace the
	// rack's own.
	Kernel, Initramfs string
	// KernelParams follow the rack's own.
	KernelParams []string
}

// Journal is told what machines do. It must not block and is safe for concurrent
// use. Phases are the constants below; detail is for people.
type Journal interface {
	Seen(mac, phase, detail string)
}

// Phases of a boot.
const (
	PhaseDHCP    = "dhcp"
	PhaseTFTP    = "tftp"
	PhaseScript  = "script"
	PhaseKernel  = "kernel"
	PhaseRamdisk = "ramdisk"
)

// Where scripts are found, over HTTP and over TFTP.
const (
	ScriptPath     = "/boot/script" // ?mac= or ?uuid=
	TFTPScriptPath = "boot/script/" // + MAC with dashes: old iPXE reads a colon as a port
)

// ScriptURL returns where the machine with that MAC finds its script; base is an
// http URL without a slash at the end.
func ScriptURL(base, mac string) string {
	return base + ScriptPath + "?mac=" + url.QueryEscape(mac)
}

// TFTPScriptURL is ScriptURL for a tftp base.
func TFTPScriptURL(base, mac string) string {
	return base + "/" + TFTPScriptPath + strings.ReplaceAll(mac, ":", "-")
}
