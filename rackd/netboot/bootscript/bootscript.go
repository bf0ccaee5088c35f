// Package bootscript answers a machine's request for its boot script: who it is,
// what it is to do now, and a line in its journal. The boot web and TFTP both ask it.
//
// It may import rackd/bootorder, rackd/netboot and rackd/netboot/ipxescript.
package bootscript

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// ErrBadName means that what was given is neither a MAC address nor a UUID.
var ErrBadName = errors.New("name the machine by ?mac= (six bytes) or ?uuid=")

// Scripts generates scripts, one for each request. Safe for concurrent use.
type Scripts struct {
	Directory netboot.Directory
	Journal   netboot.Journal
	Metrics   *netboot.Metrics // nil: nothing is counted
	// Ramdisk is asked for each script, by the machine's conductor group: who else
	// serves it changes.
	Ramdisk func(group string) ipxescript.Ramdisk
	// Discovery: strangers boot the ramdisk, as machines of Group; else their script
	// says that they are no node.
	Discovery bool
	Group     string
	Log       *slog.Logger

	once sync.Once
	loud *rate.Sometimes
}

// ForMAC returns the script of the machine with that MAC, in any usual notation.
// via says how it is sent, for people; from is the peer.
func (s *Scripts) ForMAC(mac, via string, from netip.Addr) (string, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	return s.write(m, ok, hw.String(), via, from)
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
		s.warn("boot script refused: unknown UUID", "uuid", u.String(), "via", via, "from", from)
		return ipxescript.WriteUnknown("the UUID " + u.String()), nil
	}
	return s.write(m, ok, "", via, from)
}

// ForCentral is the script of a node whose machine asked central, by MAC address or, where
// that is empty, by UUID. Its peer may be anybody: only an address that the machine
// was given gets more than the way to the rack.
func (s *Scripts) ForCentral(id, mac string, from netip.Addr) (string, error) {
	m, ok := s.Directory.ByUUID(id)
	switch {
	case ok && m.Judge(from) == netboot.Proven:
		return s.write(m, true, mac, "http", from)
	case mac == "":
		return ipxescript.WriteElsewhere(id, "", s.Ramdisk(m.Group)), nil
	}
	return ipxescript.WriteElsewhere("", mac, s.Ramdisk(m.Group)), nil
}

func (s *Scripts) write(m netboot.Machine, known bool, mac, via string, from netip.Addr) (string, error) {
	if !known {
		s.Metrics.Script("unknown")
		s.warn("boot script for an unknown machine", "mac", mac, "via", via, "from", from, "discovery", s.Discovery)
		if !s.Discovery {
			return ipxescript.WriteUnknown("the address " + mac), nil
		}
		m = netboot.Machine{State: "unknown", Order: bootorder.Ramdisk(bootorder.Load{}), Group: s.Group}
		s.Journal.Seen(mac, netboot.PhaseScript, said(m, via))
		return ipxescript.Write(m, mac, s.Ramdisk(m.Group)), nil
	}
	switch m.Judge(from) {
	case netboot.Foreign:
		s.Metrics.Script("foreign")
		s.warn("boot script refused: the caller has another address than the machine was given", "node", m.UUID, "mac", mac, "via", via, "from", from, "given", m.Addresses,
			"todo", "if this is the node's machine: let it ask DHCP again, or look for a second DHCP server")
		return ipxescript.WriteForeign(), nil
	case netboot.Unheard:
		switch {
		case m.Order.Disk, m.Order.Refuses():
			m.Name, m.UUID, m.Order.Reason = "", "", "there is nothing to boot now"
		default:
			s.Metrics.Script("unheard")
			s.warn("boot script held back: this rackd has not heard which address the machine was given", "node", m.UUID, "mac", mac, "via", via, "from", from,
				"todo", "see that the machine's DHCP requests reach this rackd, or start it with --dhcp off")
			return ipxescript.WriteUnheard(m, mac, s.Ramdisk(m.Group)), nil
		}
	}
	s.Metrics.Script(m.Order.Name)
	if m.Order.Refuses() {
		s.warn("machine has nothing to boot", "node", m.UUID, "mac", mac, "state", string(m.State), "reason", m.Order.Reason)
	}
	s.Journal.Seen(mac, netboot.PhaseScript, said(m, via))
	return ipxescript.Write(m, mac, s.Ramdisk(m.Group)), nil
}

func said(m netboot.Machine, via string) string {
	return fmt.Sprintf("%s, state %s, by %s", m.Order.Name, m.State, strings.ToUpper(via))
}

// Scripts that are refused cost so many log lines and no more: strangers may ask as often as they like.
const (
	warnAtFirst = 20
	warnEvery   = 10 * time.Second
)

func (s *Scripts) warn(text string, details ...any) {
	s.once.Do(func() { s.loud = &rate.Sometimes{First: warnAtFirst, Interval: warnEvery} })
	s.loud.Do(func() { s.Log.Warn(text, details...) })
}
