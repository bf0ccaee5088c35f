package machine

import (
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// secure is the firmware's secure boot: whether it was enforced at the last start, and whether it is from the next one on.
type secure struct{ now, next bool }

// errUnsigned is why firmware starts neither iPXE nor a ramdisk: no key of its own has signed them. Instances are signed.
var errUnsigned = errors.New("security violation: secure boot is on, and no key of the firmware's has signed this program")

// errNoSecureBoot is the answer of firmware without it.
var errNoSecureBoot = fmt.Errorf("this machine's firmware has no secure boot: %w", errors.ErrUnsupported)

// refuses is why the firmware does not start the kernel with a command line, or a boot program; nil: it does.
func (m *Machine) refuses(commandLine string) error {
	if ramdisk.Starts(commandLine) {
		return m.refusesUnsigned()
	}
	return nil
}

// refusesUnsigned is why the firmware does not start what no key has signed; nil: it does.
func (m *Machine) refusesUnsigned() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.secure.now {
		return errUnsigned
	}
	return nil
}

var _ vbmc.SecureBooter = (*Machine)(nil)

// SecureBoot implements vbmc.SecureBooter. There is always a platform key.
func (m *Machine) SecureBoot() (vbmc.SecureBoot, error) {
	if !m.cfg.SecureBoot {
		return vbmc.SecureBoot{}, errNoSecureBoot
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return vbmc.SecureBoot{Next: m.secure.next, Now: m.secure.now, PlatformKey: true}, nil
}

// SetSecureBoot implements vbmc.SecureBooter.
func (m *Machine) SetSecureBoot(on bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.secure.next = on
	return nil
}

// ResetKeys implements vbmc.SecureBooter.
func (m *Machine) ResetKeys(vbmc.KeyReset) error {
	return fmt.Errorf("the keys of a simulated machine are as they are: %w", errors.ErrUnsupported)
}
