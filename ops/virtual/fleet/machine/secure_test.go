package machine

import (
	"errors"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
)

// With secure boot on firmware starts neither iPXE nor a ramdisk as a program. It goes on with the disk, whose instance is signed.
func TestSecureBootRefusesWhatNoKeyHasSigned(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		if _, err := b.SecureBoot(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("firmware without it: %v", err)
		}
		b.cfg.SecureBoot = true
		b.install(t)
		for _, program := range []func() (string, error){nil, func() (string, error) { return "ironyard-boot-server=dhcp", nil }} {
			r.program = program
			for _, c := range []struct {
				on   bool
				want State
			}{{false, InRamdisk}, {true, Instance}, {false, InRamdisk}} {
				if err := b.SetSecureBoot(c.on); err != nil {
					t.Error(err)
				}
				b.SetBootOverride("network", true)
				b.on(t)
				b.at(t, 25*time.Second, c.want)
				if s, err := b.SecureBoot(); err != nil || s.Now != c.on || s.Next != c.on {
					t.Errorf("set to %t: %+v, %v", c.on, s, err)
				}
				if err := b.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// Firmware starts the program that DHCP names. Its ramdisk is told its parameters by a rackd, and asks until it is. Where the program does
// not load, the firmware goes on with the disk.
func TestProgram(t *testing.T) {
	r := &rack{agent: stays, program: func() (string, error) { return "ironyard-boot-server=dhcp", nil }}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 25*time.Second, InRamdisk)
		if r.told != 2 {
			t.Errorf("it asked %d times for its parameters", r.told)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.program = func() (string, error) { return "", errors.New("not found") }
		b.on(t)
		b.at(t, 25*time.Second, Booting)
		b.install(t)
		b.at(t, 25*time.Second, Instance)
	})
}
