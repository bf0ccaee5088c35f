package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// adjustFlow changes one thing about the machine and reports how it is then. What the
// change needs is validated again: the node may have changed since it was accepted.
func adjustFlow(c *Catalog, d *work.Document, t *driver.Task) ([]Step, error) {
	if d.Args.Change == nil {
		return nil, fmt.Errorf("node %s: the request does not say what to change", t.Node.Label())
	}
	a, err := c.adjustment(d, d.Args.Change, t.Node, t.Hardware)
	if err != nil {
		return nil, err
	}
	step := driver.Step{Interface: a.kind, Name: a.name, Kind: driver.Repeatable,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			o, err := a.make(ctx, t.Fence, t.Node)
			if err == nil {
				t.Hardware.Remember(t.Node, &o)
			}
			t.Record.Observe(o) // what the machine shows, also where that is not what was asked for
			return driver.Done(), err
		}}
	if a.once {
		step.Kind = driver.Neither
	}
	return []Step{{Step: step, Own: true}}, nil
}

// adjustment is a change as the node's hardware can make it.
type adjustment struct {
	kind, name string // of the step
	once       bool   // it must not be made twice
	make       func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error)
}

// adjustment returns how ch is made, or why it cannot be; nothing is asked of the
// machine. d is the work that makes it, nil for none yet.
func (c *Catalog) adjustment(d *work.Document, ch *work.Change, n *node.Document, hw *driver.Hardware) (adjustment, error) {
	switch {
	case ch.BootMode != "":
		return setBootMode(c, hw, ch.BootMode), hw.Management().Validate(n)
	case ch.SecureBoot != nil:
		s, can := hw.Management().(driver.SecureBooter)
		if !can {
			return adjustment{}, driver.Unsupported(n, "management", "set_secure_boot_state")
		}
		return setSecureBoot(s, *ch.SecureBoot), hw.Management().Validate(n)
	case ch.Console != nil:
		console := hw.Console()
		if console == nil {
			return adjustment{}, driver.Unsupported(n, "console", "console")
		}
		return setConsole(console, *ch.Console), console.Validate(n)
	case ch.Vendor != nil:
		return c.vendorAdjustment(d, ch.Vendor, n, hw)
	case ch.Media != nil:
		media, can := hw.Management().(driver.VirtualMedia)
		if !can {
			return adjustment{}, driver.Unsupported(n, "management", "attach_virtual_media")
		}
		return c.mediaAdjustment(d, ch.Media, media), hw.Management().Validate(n)
	}
	return adjustment{}, fmt.Errorf("node %s: this rackd does not know the change that is asked for: is it older than central?", n.Label())
}

func setBootMode(c *Catalog, hw *driver.Hardware, mode string) adjustment {
	return adjustment{kind: "management", name: "set_boot_mode",
		make: func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
			if err := hw.Management().SetBootMode(ctx, f, n, mode); err != nil {
				return hardware.Observation{}, err
			}
			err := shows(ctx, "boot mode", mode, func() (string, error) { return hw.Management().BootMode(ctx, n) })
			if errors.Is(err, driver.ErrUnsupported) { // a BMC that sets the mode and does not tell it
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("node %s: %w", n.Label(), err)
			}
			return c.ReadBoot(ctx, hw, n), err
		}}
}

// How long, and how often, a change is looked for that a BMC has accepted.
const (
	showsWithin = 10 * time.Second
	showsEvery  = time.Second
)

// shows waits until read returns want. A BMC may answer well and do nothing, or keep the change for the next restart: that
// is an error, for the rack cannot tell yet which of them it is.
func shows[T comparable](ctx context.Context, what string, want T, read func() (T, error)) error {
	for end := time.Now().Add(showsWithin); ; {
		is, err := read()
		switch {
		case err == nil && is == want:
			return nil
		case errors.Is(err, driver.ErrUnsupported):
			return err
		case err != nil && time.Now().After(end):
			return fmt.Errorf("the BMC accepted %s %v, but it cannot be read back: %w", what, want, err)
		case time.Now().After(end):
			return fmt.Errorf("the BMC accepted %s %v and reports %v: some BMCs make such a change at the next restart of the machine. Restart the machine and look again; if it reports the same then, look at the BMC's log", what, want, is)
		}
		if err := driver.Pause(ctx, showsEvery); err != nil {
			return err
		}
	}
}

func setSecureBoot(s driver.SecureBooter, on bool) adjustment {
	return adjustment{kind: "management", name: "set_secure_boot",
		make: func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
			if err := s.SetSecureBoot(ctx, f, n, on); err != nil {
				return hardware.Observation{}, err
			}
			var is *bool
			err := shows(ctx, "secure boot", on, func() (bool, error) {
				now, err := s.SecureBoot(ctx, n)
				if err == nil {
					is = &now
				}
				return now, err
			})
			if err != nil {
				err = fmt.Errorf("node %s: %w", n.Label(), err)
			}
			return hardware.Observation{SecureBoot: is}, err
		}}
}

func setConsole(k driver.Console, on bool) adjustment {
	a := adjustment{kind: "console", name: "stop_console"}
	do := k.StopConsole
	if on {
		a.name, do = "start_console", k.StartConsole
	}
	a.make = func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
		return hardware.Observation{ConsoleEnabled: &on}, do(ctx, f, n)
	}
	return a
}

// mediaAdjustment puts an image into a drive, in place of what is there, or empties
// drives: both may be done twice.
func (c *Catalog) mediaAdjustment(d *work.Document, m *work.Media, media driver.VirtualMedia) adjustment {
	if m.Image == "" {
		return adjustment{kind: "management", name: "detach_virtual_media",
			make: func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
				if err := media.DetachMedia(ctx, f, n, m.Types); err != nil {
					return hardware.Observation{}, fmt.Errorf("could not detach %s from node %s: %w", drivesOf(m.Types), n.Label(), driver.Unnamed(n, err))
				}
				return hardware.Observation{}, nil
			}}
	}
	return adjustment{kind: "management", name: "attach_virtual_media",
		make: func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
			if len(m.Types) != 1 {
				return hardware.Observation{}, fmt.Errorf("node %s: an image goes into one virtual drive, but the request names %d: %w", n.Label(), len(m.Types), driver.ErrInvalid)
			}
			image, err := c.cfg.Secrets.Unseal(d, seal.Label{Kind: seal.MediaImage, Of: n.UUID, Work: d.ID}, m.Image)
			if err != nil {
				return hardware.Observation{}, fmt.Errorf("node %s: the image's URL: %w", n.Label(), err)
			}
			if c.cfg.Reach != nil {
				if err := c.cfg.Reach(ctx, image); err != nil {
					return hardware.Observation{}, fmt.Errorf("could not attach %s to node %s: the BMC is not told to read the image: its %w: %w", drivesOf(m.Types), n.Label(), err, driver.ErrInvalid)
				}
			}
			if err := media.AttachMedia(ctx, f, n, m.Types[0], image); err != nil {
				return hardware.Observation{}, fmt.Errorf("could not attach %s to node %s: %w", drivesOf(m.Types), n.Label(), driver.Unnamed(n, err))
			}
			return hardware.Observation{}, nil
		}}
}

func drivesOf(types []string) string {
	if len(types) == 0 {
		return "all virtual drives"
	}
	return "virtual drive " + strings.Join(types, ", ")
}

func (c *Catalog) vendorAdjustment(d *work.Document, call *work.VendorCall, n *node.Document, hw *driver.Hardware) (adjustment, error) {
	if d == nil {
		return adjustment{}, fmt.Errorf("node %s: the arguments of %s belong to a work that this rackd does not have", n.Label(), call.Method)
	}
	plain, err := c.cfg.Secrets.Unseal(d, seal.Label{Kind: seal.VendorData, Of: n.UUID, Work: d.ID}, call.Data)
	if err != nil {
		return adjustment{}, fmt.Errorf("node %s: arguments of %s: %w", n.Label(), call.Method, err)
	}
	var args map[string]any
	if err := json.Unmarshal([]byte(plain), &args); err != nil {
		return adjustment{}, fmt.Errorf("node %s: arguments of %s: %w", n.Label(), call.Method, err)
	}
	m, err := hw.VendorMethod(n, call.Method, call.HTTPMethod, args)
	if err != nil {
		return adjustment{}, err
	}
	return adjustment{kind: "vendor", name: m.Name, once: m.Once,
		make: func(ctx context.Context, f driver.Fence, n *node.Document) (hardware.Observation, error) {
			result, err := m.Call(ctx, f, n, args)
			if err == nil && result != nil {
				c.cfg.Log.Info("vendor method done", "node", n.UUID, "method", m.Name, "result", result)
			}
			return hardware.Observation{}, err
		}}, nil
}
