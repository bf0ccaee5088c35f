package machine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// The firmware's boot options, by the names that its variables have.
const (
	diskOption    = "Boot0000"
	networkOption = "Boot0001"
	volumeOption  = "Boot0002"
)

// volumeDevice is the boot option of a volume. Its BMC has no boot override of that name.
const volumeDevice = "volume"

// errNoVolumes is the answer of firmware that attaches no volumes.
var errNoVolumes = fmt.Errorf("this machine's firmware attaches no volumes: %w", errors.ErrUnsupported)

// san is the firmware's iSCSI: what it logs in with, and its boot options, which have the volume once it has logged in.
type san struct {
	now     vbmc.ISCSIBoot
	next    *vbmc.ISCSIBoot
	logged  bool
	options []string // in the order of the next start
}

// start is a start of the machine: what was set counts from now on. The caller holds the machine's mu.
func (s *san) start() {
	if s.next != nil {
		s.now, s.next = *s.next, nil
	}
	if len(s.now.Targets) == 0 {
		s.logged = false
		s.options = slices.DeleteFunc(s.options, func(o string) bool { return o == volumeOption })
	}
}

// first reports whether the volume is what the machine boots.
func (s *san) first() bool { return s.logged && len(s.options) > 0 && s.options[0] == volumeOption }

// logIn is the firmware's login: each target lets it in. A new option comes after the others.
func (m *Machine) logIn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.san.now.Targets) == 0 {
		return
	}
	m.san.logged = true
	if m.san.options == nil {
		m.san.options = []string{diskOption, networkOption}
	}
	if !slices.Contains(m.san.options, volumeOption) {
		m.san.options = append(m.san.options, volumeOption)
	}
}

var (
	_ vbmc.ISCSIBooter = (*Machine)(nil)
	_ vbmc.BootOrderer = (*Machine)(nil)
)

// ISCSIBoot implements vbmc.ISCSIBooter.
func (m *Machine) ISCSIBoot() (now vbmc.ISCSIBoot, next *vbmc.ISCSIBoot, problem string, err error) {
	if !m.cfg.Volumes {
		return now, nil, "", errNoVolumes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.san.now, m.san.next, "", nil
}

// SetISCSIBoot implements vbmc.ISCSIBooter.
func (m *Machine) SetISCSIBoot(b vbmc.ISCSIBoot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.san.next = &b
	return nil
}

// BootOptions implements vbmc.BootOrderer.
func (m *Machine) BootOptions() (options []vbmc.BootOption, ordered int, err error) {
	if !m.cfg.Volumes {
		return nil, 0, errNoVolumes
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.san.options
	if names == nil {
		names = []string{diskOption, networkOption}
	}
	for _, name := range names {
		o := vbmc.BootOption{Name: name, Description: "Disk", Path: "PciRoot(0x0)/Pci(0x4,0x0)", Active: true}
		switch name {
		case networkOption:
			o.Description, o.Path = "Network", "PciRoot(0x0)/Pci(0x3,0x0)/MAC()/IPv4()"
		case volumeOption:
			if len(m.san.now.Targets) == 0 {
				continue
			}
			t := m.san.now.Targets[0]
			o.Description, o.Path = "Volume", fmt.Sprintf("PciRoot(0x0)/Pci(0x3,0x0)/MAC()/IPv4()/iSCSI(%s,0x1,0x%x,None,None,None,TCP)", t.Name, t.LUN)
		}
		options = append(options, o)
	}
	return options, len(options), nil
}

// OrderBoot implements vbmc.BootOrderer.
func (m *Machine) OrderBoot(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.san.options = slices.Clone(names)
	return nil
}

// Attaches are the names of the targets that the firmware logs in to at its next start.
func (m *Machine) Attaches() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	boot := m.san.now
	if m.san.next != nil {
		boot = *m.san.next
	}
	for _, t := range boot.Targets {
		names = append(names, t.Name)
	}
	return names
}
