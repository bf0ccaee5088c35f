package redfish

import (
	"context"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Observe reads boot mode, health and secure boot with as few questions as it takes.
func (d *Driver) Observe(ctx context.Context, n *node.Document) (o hardware.Observation, err error) {
	err = d.read(ctx, n, "read the boot mode, health and secure boot", func(s *System) error {
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
func healthOf(s *System) string {
	for _, h := range []schemas.Health{s.Status.HealthRollup, s.Status.Health} {
		switch h {
		case schemas.OKHealth, schemas.WarningHealth, schemas.CriticalHealth:
			return string(h)
		}
	}
	return ""
}

// Health reads the machine's health.
func (d *Driver) Health(ctx context.Context, n *node.Document) (health string, err error) {
	err = d.read(ctx, n, "read the health", func(s *System) error {
		health = healthOf(s)
		return nil
	})
	return health, err
}

// securityState is a system's secure boot, as far as it is on.
type securityState struct {
	ref
	SecureBootEnable bool
}

func secureBoot(s *System) (on securityState, err error) {
	if s.SecureBoot.Path == "" {
		return on, fmt.Errorf("it has no secure boot: %w", driver.ErrUnsupported)
	}
	on.ref = s.SecureBoot
	return on, fetch(s.c, s.SecureBoot.Path, &on)
}

// SecureBoot reads whether secure boot is on at the next boot.
func (d *Driver) SecureBoot(ctx context.Context, n *node.Document) (on bool, err error) {
	err = d.read(ctx, n, "read secure boot", func(s *System) error {
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
	return d.change(ctx, f, n, fmt.Sprintf("set secure boot to %t", on), func(s *System, c *gofish.APIClient) error {
		state, err := secureBoot(s)
		if err != nil || state.SecureBootEnable == on {
			return err
		}
		if _, err := patch(c, makerOf(c, s), state.Path, map[string]any{"SecureBootEnable": on}); err != nil {
			return err
		}
		return awaitSetting(ctx, fmt.Sprintf("secure boot %t", on), func() (bool, error) {
			now, err := secureBoot(s)
			return err == nil && now.SecureBootEnable == on, err
		})
	})
}

// change runs do on the node's system behind the fence.
func (d *Driver) change(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*System, *gofish.APIClient) error) error {
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
