package redfish

import (
	"context"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Observe reads boot mode, health and secure boot with as few questions as it takes.
func (d *Driver) Observe(ctx context.Context, n *node.Document) (o hardware.Observation, err error) {
	err = d.read(ctx, n, "read the boot mode, health and secure boot", func(s *redfish.ComputerSystem) error {
		for mode, m := range modes {
			if m == s.Boot.BootSourceOverrideMode {
				o.BootMode = &mode
			}
		}
		health := healthOf(s)
		o.Health = &health
		on, err := secureBoot(s)
		switch {
		case err == nil:
			o.SecureBoot = &on.SecureBootEnable
		case !errors.Is(err, driver.ErrUnsupported):
			return err
		}
		return nil
	})
	return o, err
}

// healthOf prefers the health of the whole to that of the system itself.
func healthOf(s *redfish.ComputerSystem) string {
	for _, h := range []common.Health{s.Status.HealthRollup, s.Status.Health} {
		switch h {
		case common.OKHealth, common.WarningHealth, common.CriticalHealth:
			return string(h)
		}
	}
	return ""
}

// Health reads the machine's health.
func (d *Driver) Health(ctx context.Context, n *node.Document) (health string, err error) {
	err = d.read(ctx, n, "read the health", func(s *redfish.ComputerSystem) error {
		health = healthOf(s)
		return nil
	})
	return health, err
}

func secureBoot(s *redfish.ComputerSystem) (*redfish.SecureBoot, error) {
	on, err := s.SecureBoot()
	if err == nil && on == nil {
		err = fmt.Errorf("it has no secure boot: %w", driver.ErrUnsupported)
	}
	return on, err
}

// SecureBoot reads whether secure boot is on at the next boot.
func (d *Driver) SecureBoot(ctx context.Context, n *node.Document) (on bool, err error) {
	err = d.read(ctx, n, "read secure boot", func(s *redfish.ComputerSystem) error {
		state, err := secureBoot(s)
		if err == nil {
			on = state.SecureBootEnable
		}
		return err
	})
	return on, err
}

// SetSecureBoot switches secure boot from the next boot on. What is already so is not
// written.
func (d *Driver) SetSecureBoot(ctx context.Context, f driver.Fence, n *node.Document, on bool) error {
	return d.change(ctx, f, n, fmt.Sprintf("set secure boot to %t", on), func(s *redfish.ComputerSystem, c *gofish.APIClient) error {
		state, err := secureBoot(s)
		if err != nil || state.SecureBootEnable == on {
			return err
		}
		if _, err := patch(c, makerOf(c, s), state.ODataID, map[string]any{"SecureBootEnable": on}); err != nil {
			return err
		}
		return awaitSetting(ctx, fmt.Sprintf("secure boot %t", on), func() (bool, error) {
			now, err := secureBoot(s)
			return err == nil && now.SecureBootEnable == on, err
		})
	})
}

// change runs do on the node's system behind the fence.
func (d *Driver) change(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*redfish.ComputerSystem, *gofish.APIClient) error) error {
	return d.pool.with(ctx, f, n, doing, func(b *session, a account, c *gofish.APIClient) error {
		s, err := b.system(c, a)
		if err != nil {
			return err
		}
		return do(s, c)
	})
}

// awaitSetting waits until the BMC shows what it has accepted, for as long as a boot override is given.
func awaitSetting(ctx context.Context, what string, shows func() (bool, error)) error {
	for look := 1; ; look++ {
		is, err := shows()
		switch {
		case err != nil:
			return fmt.Errorf("read back whether it has %s: %w", what, err)
		case is:
			return nil
		case look == looksAtBoot:
			return fmt.Errorf("it accepted %s, and %s later it does not show it", what, (looksAtBoot-1)*bootLook)
		}
		if err := driver.Pause(ctx, bootLook); err != nil {
			return err
		}
	}
}
