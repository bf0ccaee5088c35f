package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/uefivars"
)

// What a machine cannot do is errors.ErrUnsupported too, and so is each setting that it
// does not take.
var (
	// ErrNoVariables is returned for firmware that has no UEFI variables.
	ErrNoVariables error = refused{errors.New("the firmware is not UEFI")}
	// ErrNoInterrupt is returned for a machine whose board has no non-maskable interrupt.
	ErrNoInterrupt error = refused{errors.New("the machine's board has no non-maskable interrupt")}
	// ErrOrderByQEMU is returned where a boot order in the variables would not hold.
	ErrOrderByQEMU error = refused{errors.New("QEMU decides the boot order; the machine has to boot by variables")}
	// ErrNoSecureBoot is returned for firmware that does not know secure boot.
	ErrNoSecureBoot error = refused{errors.New("the firmware has no secure boot")}
	// ErrNoDisk is returned for a machine without a disk.
	ErrNoDisk error = refused{errors.New("the machine has no disk")}
	// ErrNoCard is returned for a machine without a network.
	ErrNoCard error = refused{errors.New("the machine has no network card")}
)

// refused is why a machine does not take a setting.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// Is makes a refusal errors.ErrUnsupported.
func (refused) Is(target error) bool { return target == errors.ErrUnsupported }

// Descriptions of the boot options that management makes.
const (
	networkDescription = "Management Network"
	diskDescription    = "Management Disk"
	httpDescription    = "Management HTTP"
	mediaDescription   = "Management Media"
)

// NetworkOption is the boot option for PXE by the network card.
func (m *Machine) NetworkOption() uefivars.LoadOption {
	return m.cfg.option(networkDescription, m.cfg.card(m.cfg.stack())...)
}

// DiskOption is the boot option for the disk.
func (m *Machine) DiskOption() uefivars.LoadOption {
	return m.cfg.option(diskDescription, uefivars.PCIRoot(0), uefivars.PCI(diskSlot, 0))
}

// HTTPOption is the boot option for UEFI HTTP boot of a URI: the firmware asks DHCP
// for its address only, and fetches the URI (UEFI 2.10, section 24.7).
func (m *Machine) HTTPOption(uri string) uefivars.LoadOption {
	return m.cfg.option(httpDescription, m.cfg.card(m.cfg.stack(), uefivars.URI(uri))...)
}

// MediaOption is the boot option for the CD drive.
func (m *Machine) MediaOption() uefivars.LoadOption {
	if m.cfg.Arch == AArch64 {
		return m.cfg.option(mediaDescription, uefivars.PCIRoot(0), uefivars.PCI(usbSlot, 0), uefivars.USB(0, 0))
	}
	return m.cfg.option(mediaDescription, uefivars.PCIRoot(0), uefivars.PCI(sataSlot, sataFunction), uefivars.SATA(drivePort))
}

func (c Config) option(description string, path ...uefivars.Node) uefivars.LoadOption {
	return uefivars.LoadOption{Attributes: uefivars.Active, Description: description, Path: path}
}

// stack is the version of IP by which management has the firmware boot.
func (c Config) stack() uefivars.Node {
	if c.IPv6 {
		return uefivars.IPv6()
	}
	return uefivars.IPv4()
}

// card is a path by way of the network card.
func (c Config) card(further ...uefivars.Node) uefivars.DevicePath {
	address, _ := net.ParseMAC(c.MAC) // withDefaults has checked it
	return append(uefivars.DevicePath{uefivars.PCIRoot(0), uefivars.PCI(cardSlot, 0), uefivars.MAC(address)}, further...)
}

// SetBootNext has the next start of the firmware boot the option, whatever the
// order. It takes the place of a boot override for one boot.
func (m *Machine) SetBootNext(o uefivars.LoadOption) error {
	return m.do("setting the next boot of", func() error {
		if err := m.editBoot(func(s *uefivars.Store) error { return bootNext(s, o) }); err != nil {
			return err
		}
		m.state.Next = nil
		if m.state.Once {
			m.state.Override, m.state.Once = "", false
		}
		return m.saveState()
	})
}

// SetBootOrder puts options at the front of the boot order; what else is in it
// comes after them.
func (m *Machine) SetBootOrder(options ...uefivars.LoadOption) error {
	return m.do("setting the boot order of", func() error {
		return m.editBoot(func(s *uefivars.Store) error { return bootOrder(s, options) })
	})
}

// SetKeys sets the keys of secure boot, and thereby turns it on; without a platform
// key it clears them. It is in place of what was set for the next start. The error is
// ErrOn while the machine is on.
func (m *Machine) SetKeys(k uefivars.Keys) error {
	return m.do("setting the keys of", func() error {
		if !m.cfg.SecureBoot {
			return ErrNoSecureBoot
		}
		err := m.edit(context.Background(), func(s *uefivars.Store) error {
			if len(k.PK) == 0 {
				return s.ClearKeys()
			}
			if err := s.SetKeys(k, time.Now()); err != nil {
				return err
			}
			return s.SetSecureBoot(true)
		})
		if err != nil {
			return err
		}
		m.state.Staged.Keys, m.state.Staged.Certificates, m.state.Staged.SecureBoot = "", nil, nil
		return m.saveState()
	})
}

// Variables returns a copy of the machine's UEFI variables. The error is ErrOn while
// it is on: the firmware may be writing.
func (m *Machine) Variables() (s *uefivars.Store, err error) {
	err = m.do("reading the UEFI variables of", func() error {
		return m.edit(context.Background(), func(now *uefivars.Store) (err error) {
			s, err = uefivars.Parse(now.Bytes())
			return err
		})
	})
	return s, err
}

// EditVariables hands the machine's UEFI variables to f, and keeps what f changed
// unless it fails. The error is ErrOn while the machine is on. f must not call m.
func (m *Machine) EditVariables(f func(*uefivars.Store) error) error {
	return m.do("changing the UEFI variables of", func() error { return m.edit(context.Background(), f) })
}

func (m *Machine) editBoot(f func(*uefivars.Store) error) error {
	if m.cfg.Firmware == UEFI && !m.cfg.BootByVariables {
		return ErrOrderByQEMU
	}
	return m.edit(context.Background(), f)
}

// edit changes the variables; the caller holds mu. The folder's lock keeps a QEMU
// away that is still on its way out.
func (m *Machine) edit(ctx context.Context, f func(*uefivars.Store) error) error {
	switch {
	case m.cfg.Firmware != UEFI:
		return ErrNoVariables
	case m.proc != nil:
		return ErrOn
	}
	lock, err := takeLock(ctx, m.cfg.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	path := filepath.Join(m.cfg.Dir, varsFile)
	s, err := uefivars.ReadFile(path)
	if err != nil {
		return err
	}
	before := s.Bytes()
	if err := f(s); err != nil {
		return err
	}
	if bytes.Equal(before, s.Bytes()) {
		return nil
	}
	return s.WriteFile(path)
}

// glances is how often glance looks at variables that the firmware is writing.
const glances = 20

// glance reads a copy of the variables, also while the firmware runs: QEMU writes each
// change to the file at once. The caller holds mu.
func (m *Machine) glance() (s *uefivars.Store, err error) {
	if m.cfg.Firmware != UEFI {
		return nil, ErrNoVariables
	}
	for range glances {
		s, err = uefivars.ReadFile(filepath.Join(m.cfg.Dir, varsFile))
		if err == nil || m.proc == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return s, err
}

// override makes a boot override the next boot. One for good leaves a next boot in
// place that was asked for by itself. That of an earlier override, which a machine had
// that was switched off before its firmware came to it, is taken back.
func (m *Machine) override(ctx context.Context) error {
	if m.state.Override == "" && !m.state.Withdrawn {
		return nil
	}
	return m.edit(ctx, func(s *uefivars.Store) error {
		next, set, err := s.BootNext()
		left := set && m.state.Next != nil && *m.state.Next == next
		switch {
		case err != nil || set && !left && !m.state.Once:
			return err
		case m.state.Override != "":
			if err = bootNext(s, m.device(m.state.Override)); err == nil {
				next, _, err = s.BootNext()
				m.state.Next = &next
			}
			return err
		case left:
			return s.ClearBootNext()
		}
		return nil
	})
}

func (m *Machine) device(name string) uefivars.LoadOption {
	switch name {
	case Network:
		return m.NetworkOption()
	case Media:
		return m.MediaOption()
	case HTTP:
		return m.HTTPOption(m.state.HTTPBootURI)
	}
	return m.DiskOption()
}

func bootNext(s *uefivars.Store, o uefivars.LoadOption) error {
	if err := forget(s, o); err != nil {
		return err
	}
	number, err := s.AddBootOption(o)
	if err != nil {
		return err
	}
	return s.SetBootNext(number)
}

func bootOrder(s *uefivars.Store, options []uefivars.LoadOption) error {
	for _, o := range slices.Backward(options) {
		number, err := s.AddBootOption(o)
		if err != nil {
			return err
		}
		if err := s.BootFirst(number); err != nil {
			return err
		}
	}
	return nil
}

// forget removes options that management made for an earlier next boot of the same
// kind: a machine would gather one for each URI.
func forget(s *uefivars.Store, o uefivars.LoadOption) error {
	order, err := s.BootOrder()
	if err != nil {
		return err
	}
	options, _ := s.BootOptions() // the firmware passes by those that cannot be read
	for number, old := range options {
		if old.Description != o.Description || slices.Contains(order, number) || old.Path.Equal(o.Path) {
			continue
		}
		if err := s.RemoveBootOption(number); err != nil {
			return err
		}
	}
	return nil
}

// makeVariables makes the variable store if there is none. Where the variables
// decide, it has the default order.
func (m *Machine) makeVariables() error {
	path := filepath.Join(m.cfg.Dir, varsFile)
	if !m.cfg.BootByVariables && m.cfg.VariablesFrom != "" {
		return copyOnce(m.cfg.VariablesFrom, path)
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	s, err := m.cfg.newVariables()
	if err != nil {
		return err
	}
	if !m.cfg.BootByVariables {
		return s.WriteFile(path)
	}
	options := []uefivars.LoadOption{m.device(m.cfg.DefaultBoot)}
	switch {
	case m.cfg.Diskless:
	case m.cfg.DefaultBoot == Network:
		options = append(options, m.DiskOption())
	case m.cfg.Tap != "":
		options = append(options, m.NetworkOption())
	}
	if err := bootOrder(s, options); err != nil {
		return fmt.Errorf("the default boot order: %w", err)
	}
	return s.WriteFile(path)
}

// newVariables is the store of a new machine.
func (c Config) newVariables() (*uefivars.Store, error) {
	if c.VariablesFrom == "" {
		return uefivars.Flash(aavmfFlashSize)
	}
	return uefivars.ReadFile(c.VariablesFrom)
}
