// Package bootscript answers a machine's request for its boot script: who it is,
// what it is to do now, and a line in its journal. The boot web and TFTP both ask it.
//
// Machines whose firmware starts the ramdisk as one program have no script: they ask which program, and its agent asks for the
// parameters of its boot.
//
// It may import rackd/bootorder, rackd/strangers, rackd/netboot, rackd/netboot/ipxescript
// and rackd/netboot/loaderconfig. Invariant: lines about callers that are no node's machine keep no line about one out of the log.
package bootscript

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
	"github.com/ironyard/ironyard/rackd/strangers"
)

// Errors of Scripts.
var (
	// ErrUnknown: no node has that address, and discovery is off.
	ErrUnknown = errors.New("no node has this address: enrol the machine and create its port first")
	// ErrBadName: what was given is neither a MAC address nor a UUID.
	ErrBadName = errors.New("name the machine by ?mac= (six bytes) or ?uuid=")
	// ErrForeign: the caller is not the machine.
	ErrForeign = errors.New("this is not the address that DHCP gave the machine; rackd's log says more")
	// ErrLater: ask again, or another rackd.
	ErrLater = errors.New("not known now: ask again in a while")
	// ErrNothing: the machine has nothing to load.
	ErrNothing = errors.New("the machine has nothing to load now")
)

// Scripts generates scripts, one for each request. Safe for concurrent use.
type Scripts struct {
	Directory netboot.Directory
	Journal   netboot.Journal
	Metrics   *netboot.Metrics // nil: nothing is counted
	// Ramdisk is asked for each script, by the machine's conductor group, class and architecture: who else
	// serves it changes.
	Ramdisk func(m netboot.Machine) ipxescript.Ramdisk
	// Discovery: strangers boot the ramdisk, as machines of Group; else their script
	// says that they are no node.
	Discovery bool
	Group     string
	Log       *slog.Logger
	// Lines counts the lines about callers, together with others that have the same; nil: with none, by the default numbers.
	Lines *strangers.LineCount

	once sync.Once
}

// ForMAC returns the script of the machine with that MAC, in any usual notation.
// via says how it is sent, for people; from is the peer.
func (s *Scripts) ForMAC(mac, via string, from netip.Addr) (string, error) {
	return s.forMAC(mac, via, from, false)
}

// AfterVolume is ForMAC for a machine that says that it could not boot its volume. The journal is told, for nothing else here sees that.
func (s *Scripts) AfterVolume(mac, via string, from netip.Addr) (string, error) {
	return s.forMAC(mac, via, from, true)
}

func (s *Scripts) forMAC(mac, via string, from netip.Addr, afterVolume bool) (string, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	if trust := m.Judge(from); afterVolume && ok && m.Order.Volumes != nil && (trust == netboot.Proven || trust == netboot.Unjudged) {
		why := unbooted(m)
		s.warn(m, from, "a machine has not booted its volume", "mac", hw.String(), "state", string(m.State), "why", why)
		s.Journal.Seen(hw.String(), netboot.PhaseVolume, why)
	}
	return s.write(ipxe, m, ok, hw.String(), via, from)
}

// unbooted says what to look at where a machine has not booted its volumes. No URI holds a secret.
func unbooted(m netboot.Machine) string {
	var ways []string
	for _, v := range m.Order.Volumes.List {
		ways = append(ways, v.URIs...)
	}
	name := "the name that its firmware has"
	if m.Order.Volumes.Initiator != "" {
		name = m.Order.Volumes.Initiator
	}
	return fmt.Sprintf("the machine has not booted its volume, and tries again every %d s. Its console says why. Look whether the targets run at %s, and let in the initiator %s with the account of the volume target",
		ipxescript.VolumeSeconds, strings.Join(ways, " "), name)
}

// ForLoader is ForMAC in the language of another boot loader, by TFTP.
func (s *Scripts) ForLoader(l Language, mac string, from netip.Addr) (string, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	return s.write(l, m, ok, hw.String(), "tftp", from)
}

// OwnFile returns a file of the node's own that a boot loader asks for by TFTP: netboot.OwnKernel or OwnRamdisk. Callers are judged
// as those who ask for a script.
func (s *Scripts) OwnFile(mac, kind string, from netip.Addr) (f bootorder.File, err error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return f, ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	if !ok {
		return f, ErrUnknown
	}
	switch trust := m.Judge(from); {
	case trust == netboot.Foreign:
		s.warn(m, from, "a node's own file refused: the caller has another address than the machine was given", "mac", hw.String(), "given", m.Addresses)
		return f, ErrForeign
	case trust == netboot.Unheard || m.Order.Again:
		return f, ErrLater
	case m.Order.Load == nil:
		return f, ErrNothing
	}
	switch kind {
	case netboot.OwnKernel:
		f = m.Order.Load.Kernel
	case netboot.OwnRamdisk:
		f = m.Order.Load.Initramfs
	}
	if f.URL == "" {
		return f, ErrNothing
	}
	return f, nil
}

// ForUUID is ForMAC for a node's UUID. Discovery does not apply: a UUID is not what
// an unknown machine would have been told.
func (s *Scripts) ForUUID(id, via string, from netip.Addr) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByUUID(u.String())
	if !ok {
		s.Metrics.Script("unknown")
		s.warnOfStranger(from, "boot script refused: unknown UUID", "uuid", u.String(), "via", via)
		return ipxescript.WriteUnknown("the UUID " + u.String()), nil
	}
	return s.write(ipxe, m, ok, "", via, from)
}

// ForCentral is the script of a node whose machine asked central, by MAC address or, where
// that is empty, by UUID. Its peer may be anybody: only an address that the machine
// was given gets more than the way to the rack.
func (s *Scripts) ForCentral(id, mac string, from netip.Addr) (string, error) {
	m, ok := s.Directory.ByUUID(id)
	switch {
	case ok && m.Judge(from) == netboot.Proven:
		return s.write(ipxe, m, true, mac, "http", from)
	case mac == "":
		return ipxescript.WriteElsewhere(id, "", s.Ramdisk(m)), nil
	}
	return ipxescript.WriteElsewhere("", mac, s.Ramdisk(m)), nil
}

func (s *Scripts) write(l Language, m netboot.Machine, known bool, mac, via string, from netip.Addr) (string, error) {
	if !known {
		s.Metrics.Script("unknown")
		s.warnOfStranger(from, "boot script for an unknown machine", "mac", mac, "via", via, "discovery", s.Discovery)
		if !s.Discovery {
			return l.unknown("the address " + mac), nil
		}
		m = netboot.Machine{State: "unknown", Order: bootorder.Ramdisk(bootorder.Load{}), Group: s.Group}
		s.Journal.Seen(mac, netboot.PhaseScript, said(m, via))
		return l.write(m, mac, s.Ramdisk(m)), nil
	}
	told := m // without what a caller that was not heard of may not know
	switch m.Judge(from) {
	case netboot.Foreign:
		s.Metrics.Script("foreign")
		s.warn(m, from, "boot script refused: the caller has another address than the machine was given", "mac", mac, "via", via, "given", m.Addresses,
			"todo", "if this is the node's machine: let it ask DHCP again, or look for a second DHCP server")
		return l.foreign(), nil
	case netboot.Unheard:
		switch {
		case m.Order.Disk, m.Order.Refuses():
			told.Name, told.UUID, told.Order.Reason = "", "", "there is nothing to boot now"
		default:
			s.Metrics.Script("unheard")
			s.warn(m, from, "boot script held back: this rackd has not heard which address the machine was given", "mac", mac, "via", via,
				"todo", "see that the machine's DHCP requests reach this rackd, or start it with --dhcp off")
			return l.unheard(m, mac, s.Ramdisk(m)), nil
		}
	}
	s.Metrics.Script(m.Order.Name)
	if m.Order.Again && via == "tftp" {
		told.Order.OverTFTP = true // by which it certainly can ask again
	}
	s.warnOfNothing(m, mac, via, from)
	s.Journal.Seen(mac, netboot.PhaseScript, said(m, via))
	return l.write(told, mac, s.Ramdisk(told)), nil
}

// warnOfNothing says that a machine was started for which there is nothing to boot.
func (s *Scripts) warnOfNothing(m netboot.Machine, mac, via string, from netip.Addr) {
	if m.Order.Refuses() {
		s.warn(m, from, "machine has nothing to boot", "mac", mac, "via", via, "state", string(m.State), "reason", m.Order.Reason)
	}
}

// Program returns the name of the boot file that a machine's firmware is to start without a boot program before it. It is no secret,
// so the caller is not judged.
func (s *Scripts) Program(mac string, arm64 bool, from netip.Addr) (file string, err error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	switch {
	case !ok:
		s.warnOfStranger(from, "program for an unknown machine", "mac", hw.String())
		return "", ErrUnknown
	case m.Order.Again && m.UUID == "": // a node's perhaps, which this rackd cannot know now
		return "", ErrLater
	case !m.Order.Direct || m.Order.Load == nil:
		s.warnOfNothing(m, hw.String(), "http", from)
		s.Journal.Seen(hw.String(), netboot.PhaseProgram, fmt.Sprintf("none, state %s: %s", m.State, m.Order.Name))
		return "", ErrNothing
	}
	return m.ProgramFile(arm64), nil
}

// Parameters returns what the agent of a ramdisk without a boot script is told, as words of a command line. Callers are judged as
// those who ask for a script: the words hold the id of the boot.
func (s *Scripts) Parameters(mac string, from netip.Addr) (string, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	mac = hw.String()
	m, ok := s.Directory.ByMAC(mac)
	if !ok {
		s.Metrics.Script("unknown")
		s.warnOfStranger(from, "parameters for an unknown machine", "mac", mac, "discovery", s.Discovery)
		if !s.Discovery {
			return "", ErrUnknown
		}
		m = netboot.Machine{State: "unknown", Order: bootorder.Ramdisk(bootorder.Load{}), Group: s.Group}
	}
	switch trust := m.Judge(from); {
	case trust == netboot.Foreign:
		s.Metrics.Script("foreign")
		s.warn(m, from, "parameters refused: the caller has another address than the machine was given", "mac", mac, "given", m.Addresses,
			"todo", "if this is the node's machine: let it ask DHCP again, or look for a second DHCP server")
		return "", ErrForeign
	case trust == netboot.Unheard:
		s.Metrics.Script("unheard")
		s.warn(m, from, "parameters held back: this rackd has not heard which address the machine was given", "mac", mac,
			"todo", "see that the machine's DHCP requests reach this rackd, or start it with --dhcp off")
		return "", ErrLater
	case m.Order.Again:
		s.Metrics.Script(m.Order.Name)
		return "", ErrLater
	case m.Order.Load == nil:
		s.Metrics.Script(m.Order.Name)
		s.warn(m, from, "the machine runs a ramdisk that nothing waits for", "mac", mac, "state", string(m.State), "reason", m.Order.Reason)
		return "", ErrNothing
	}
	s.Metrics.Script(m.Order.Name)
	s.Journal.Seen(mac, netboot.PhaseAsked, said(m, "http"))
	return ipxescript.Words(m, mac, s.Ramdisk(m)), nil
}

// Installer returns the machine of a node that boots an installer now, and this rackd's servers. Callers are judged as those who ask for a
// script, and show the id of the boot, which that told them.
func (s *Scripts) Installer(id, bootID string, from netip.Addr) (netboot.Machine, ipxescript.Ramdisk, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return netboot.Machine{}, ipxescript.Ramdisk{}, ErrBadName
	}
	m, ok := s.Directory.ByUUID(u.String())
	if !ok {
		return m, ipxescript.Ramdisk{}, ErrUnknown
	}
	refuse := func(why error, todo string) (netboot.Machine, ipxescript.Ramdisk, error) {
		s.warn(m, from, "file of an installer refused", "given", m.Addresses, "error", why, "todo", todo)
		return netboot.Machine{}, ipxescript.Ramdisk{}, why
	}
	switch trust := m.Judge(from); {
	case trust == netboot.Foreign:
		return refuse(ErrForeign, "if this is the node's machine: let it ask DHCP again, or look for a second DHCP server")
	case trust == netboot.Unheard || m.Order.Again:
		return refuse(ErrLater, "see that the machine's DHCP requests reach this rackd, or start it with --dhcp off")
	case m.Order.Load == nil || m.Order.Load.Installer == nil || m.BootID == "" || subtle.ConstantTimeCompare([]byte(m.BootID), []byte(bootID)) != 1:
		return refuse(ErrNothing, "this boot of the installer is over: if the machine still runs it, switch it off")
	}
	return m, s.Ramdisk(m), nil
}

func said(m netboot.Machine, via string) string {
	return fmt.Sprintf("%s, state %s, by %s", m.Order.Name, m.State, strings.ToUpper(via))
}

// lines counts the lines about callers: they may ask as often as they like.
func (s *Scripts) lines() *strangers.LineCount {
	s.once.Do(func() {
		if s.Lines == nil {
			s.Lines = strangers.New(strangers.Budget{}, nil, s.Log).Lines(Door)
		}
	})
	return s.Lines
}

// Door is the name under which the log tells of lines that were left out.
const Door = "boot scripts"

// warnOfStranger logs a line about a caller that named no node.
func (s *Scripts) warnOfStranger(from netip.Addr, text string, details ...any) {
	if s.lines().OfStranger() {
		s.Log.Warn(text, append([]any{"from", from}, details...)...)
	}
}

// warn logs a line about a node's machine. Callers that have not shown that they are the machine have a count of their own for each node:
// they keep no line about the machine itself out of the log.
func (s *Scripts) warn(m netboot.Machine, from netip.Addr, text string, details ...any) {
	name := m.UUID
	if trust := m.Judge(from); trust == netboot.Foreign || trust == netboot.Unheard {
		name += " by others"
	}
	if s.lines().OfMachine(name) {
		s.Log.Warn(text, append([]any{"node", m.UUID, "from", from}, details...)...)
	}
}
