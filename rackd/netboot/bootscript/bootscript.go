// Package bootscript answers a machine's request for its boot script: who it is,
// what it is to do now, and a line in its journal. The boot web and TFTP both ask it.
//
// It may import rackd/netboot and rackd/netboot/ipxescript.
package bootscript

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// Errors of Scripts.
var (
	// ErrUnknown: no node has that address, and discovery is off.
	ErrUnknown = errors.New("no node has this address: enrol the machine and create its port first")
	// ErrBadName: what was given is neither a MAC address nor a UUID.
	ErrBadName = errors.New("name the machine by ?mac= (six bytes) or ?uuid=")
)

// Scripts generates scripts, one for each request. Safe for concurrent use.
type Scripts struct {
	Directory netboot.Directory
	Journal   netboot.Journal
	Metrics   *netboot.Metrics // nil: nothing is counted
	// Ramdisk is asked for each script, by the machine's conductor group: who else
	// serves it changes.
	Ramdisk func(group string) ipxescript.Ramdisk
	// Discovery: strangers boot the ramdisk, as machines of Group; else they get
	// ErrUnknown.
	Discovery bool
	Group     string
	Log       *slog.Logger
}

// ForMAC returns the script of the machine with that MAC, in any usual notation.
// via says how it is sent, from is the peer; both are for people.
func (s *Scripts) ForMAC(mac, via, from string) (string, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByMAC(hw.String())
	return s.write(m, ok, hw.String(), via, from)
}

// ForUUID is ForMAC for a node's UUID. Discovery does not apply: a UUID is not what
// an unknown machine would have been told.
func (s *Scripts) ForUUID(id, via, from string) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return "", ErrBadName
	}
	m, ok := s.Directory.ByUUID(u.String())
	if !ok {
		s.Metrics.Script("unknown")
		s.Log.Warn("boot script refused: unknown UUID", "uuid", u.String(), "via", via, "from", from)
		return "", ErrUnknown
	}
	return s.write(m, ok, "", via, from)
}

func (s *Scripts) write(m netboot.Machine, known bool, mac, via, from string) (string, error) {
	if !known {
		s.Metrics.Script("unknown")
		s.Log.Warn("boot script for an unknown machine", "mac", mac, "via", via, "from", from, "discovery", s.Discovery)
		if !s.Discovery {
			return "", ErrUnknown
		}
		m = netboot.Machine{State: "unknown", Order: netboot.Ramdisk, Group: s.Group}
	} else {
		s.Metrics.Script(m.Order.String())
	}
	if m.Order == netboot.Refuse {
		s.Log.Warn("machine has nothing to boot", "node", m.UUID, "mac", mac, "state", string(m.State), "reason", m.Reason)
	}
	s.Journal.Seen(mac, netboot.PhaseScript, fmt.Sprintf("%s, state %s, by %s", m.Order, m.State, strings.ToUpper(via)))
	return ipxescript.Write(m, mac, s.Ramdisk(m.Group)), nil
}
