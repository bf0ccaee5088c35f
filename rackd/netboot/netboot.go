// Package netboot is what rackd's DHCP, TFTP and boot web server have in common:
// the question "what is this machine to do?", the answer, and what is counted.
//
// It may import protocol, rackd/bootorder, rackd/strangers and rackd/netboot/bootfiles; the packages below it may import those and
// each other. Nothing is written per node: every answer is made from the node's state at
// the moment of the request, so any rackd of a group can boot any of its nodes.
//
// None of the listeners can authenticate its clients, because firmware has no
// credentials, and they only read. A script is given to the address that DHCP gave the machine,
// where that is known (Machine.Judge): it holds the id of the boot, with which
// an agent is told its token. docs/agent-trust.md says what a stranger can still do.
package netboot

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// Directory says who a machine is and what it is to do. That of DHCP answers from memory; that of scripts may
// take some seconds. Safe for concurrent use.
type Directory interface {
	// ByMAC takes a lower-case address with colons; ok is false for a stranger.
	ByMAC(mac string) (m Machine, ok bool)
	// ByUUID takes a lower-case UUID.
	ByUUID(uuid string) (m Machine, ok bool)
}

// Machine is a machine at this moment.
type Machine struct {
	UUID, Name string
	Group      string // conductor group
	State      provision.State
	Order      bootorder.Order
	BootMode   string // uefi or bios
	// Class and Arch are the node's resource class and cpu_arch, by which a rack may have ramdisks; empty: not known.
	Class, Arch string
	// Program and ProgramARM64 are the numbers (bootfiles.Numbered) of the rack's ramdisks that firmware starts without a boot program,
	// on x86_64 and on arm64.
	Program, ProgramARM64 int
	// BootID is the id of the boot, which goes into the URL that the agent calls. It shows
	// that a caller was given the machine's script.
	BootID string
	// Addresses are those that DHCP is known to have given the machine. Hears: a machine that boots by
	// the version of IP at hand has spoken DHCP with this rackd, so that its address is known.
	Addresses []netip.Addr
	Hears     bool
}

// ProgramFile is the name of the boot file that the machine's firmware starts for its ramdisk without a boot program before it.
func (m Machine) ProgramFile(arm64 bool) string {
	number := m.Program
	if arm64 {
		number = m.ProgramARM64
	}
	return bootfiles.Numbered(bootfiles.Program(m.Order.Load != nil && m.Order.Load.Rescue, arm64), number)
}

// Trust is what the address of a peer says about it.
type Trust int

// The kinds of trust.
const (
	// Unjudged: nobody knows what address the machine was given, and no DHCP here is to know.
	Unjudged Trust = iota
	// Proven: it is an address that the machine was given.
	Proven
	// Unheard: the machine has not yet spoken DHCP, as far as is known.
	Unheard
	// Foreign: the machine was given other addresses.
	Foreign
)

// Judge says whether a peer is the machine, by its address. An address says nothing of one of the other version of IP:
// another server may give those.
func (m Machine) Judge(peer netip.Addr) Trust {
	peer = peer.Unmap()
	switch {
	case slices.Contains(m.Addresses, peer):
		return Proven
	case slices.ContainsFunc(m.Addresses, func(a netip.Addr) bool { return a.Is4() == peer.Is4() }):
		return Foreign
	case m.Hears:
		return Unheard
	}
	return Unjudged
}

// Journal is told what machines do. It must not block and is safe for concurrent
// use. Phases are the constants below; detail is for people.
type Journal interface {
	Seen(mac, phase, detail string)
	// Leased is Seen for an address that DHCP has given; phase is empty for one that another server gave.
	Leased(mac string, at netip.Addr, phase, detail string)
}

// Phases of a boot.
const (
	PhaseDHCP    = "dhcp"
	PhaseTFTP    = "tftp"
	PhaseScript  = "script"
	PhaseKernel  = "kernel"
	PhaseRamdisk = "ramdisk"
	PhaseMedium  = "medium"
	PhaseProgram = "program" // kernel, ramdisk and command line in one
	PhaseAsked   = "parameters"
	PhaseVolume  = ask.SignVolume // which did not boot
)

// Where scripts are found, over HTTP and over TFTP.
const (
	ScriptPath     = "/boot/script" // ?mac= or ?uuid=
	TFTPScriptPath = "boot/script/" // + MAC with dashes: old iPXE reads a colon as a port
	// AfterVolume and TFTPAfterVolume follow in the request of a machine that could not boot its volume.
	AfterVolume     = "after"
	TFTPAfterVolume = "/" + AfterVolume + "-volume"
)

// What boot loaders of the interface pxe ask for by TFTP, where they are not iPXE. GRUB reads TFTPGRUBMain first, by either name, and
// both go on with the MAC address: GRUB writes it with colons, pxelinux with dashes.
const (
	TFTPGRUBMain    = "grub/grub.cfg"
	TFTPGRUBMainX64 = "grub/x86_64-efi/grub.cfg"
	TFTPGRUBPath    = "grub/grub.cfg-01-"
	PXELinuxPath    = "pxelinux.cfg/01-"
	// OwnFilePath is where they find files that a node brings itself: + MAC with dashes, + OwnKernel or OwnRamdisk.
	OwnFilePath = "boot/own/"
	OwnKernel   = "kernel"
	OwnRamdisk  = "ramdisk"
)

// Dashed is a MAC address as names of files have it.
func Dashed(mac string) string { return strings.ReplaceAll(mac, ":", "-") }

// ProgramPath is where firmware finds the program that its machine is to start, over HTTP: + MAC with dashes + a name.
// The name ends like that of a program, and there is no query: some firmware looks at the first and drops the second.
const ProgramPath = "/boot/program/"

// ProgramName is the name of the program in its URL.
func ProgramName(arm64 bool) string {
	if arm64 {
		return "ramdisk-arm64.efi"
	}
	return "ramdisk.efi"
}

// InstallerPath is where an installer finds its files, over HTTP: + node/id of the boot/file.
const InstallerPath = "/boot/installer/"

// Names of an installer's files. Below InstallerStage2 its system has the names under which installers look for it.
const (
	InstallerKickstart = "ks.cfg"
	InstallerStage2    = "stage2"
	InstallerImage     = "image" // + an ending by which installers tell an archive from a disk
)

// InstallerURL returns where an installer finds one of its files; base is an http URL without a slash at the end.
func InstallerURL(base string, m Machine, file string) string {
	return base + InstallerPath + m.UUID + "/" + url.PathEscape(m.BootID) + "/" + file
}

// ProgramURL returns where the firmware of the machine with that MAC finds its program; base is an http URL without a slash at the end.
func ProgramURL(base, mac string, arm64 bool) string {
	return base + ProgramPath + Dashed(mac) + "/" + ProgramName(arm64)
}

// ParametersURL returns where the agent of the machine with that MAC is told what a boot script would have told its kernel.
func ParametersURL(base, mac string) string {
	return base + agentapi.ParametersPath + "?" + agentapi.ParametersMAC + "=" + url.QueryEscape(mac)
}

// ScriptURL returns where the machine with that MAC finds its script; base is an
// http URL without a slash at the end.
func ScriptURL(base, mac string) string {
	return base + ScriptPath + "?mac=" + url.QueryEscape(mac)
}

// AfterVolumeURL is the URL of a script for a machine that could not boot its volume.
func AfterVolumeURL(script string) string {
	if strings.HasPrefix(script, "tftp:") {
		return script + TFTPAfterVolume
	}
	return script + "&" + AfterVolume + "=" + PhaseVolume
}

// TFTPScriptURL is ScriptURL for a tftp base.
func TFTPScriptURL(base, mac string) string {
	return base + "/" + TFTPScriptPath + Dashed(mac)
}
