// Package amt is the power and management interfaces of machines with Intel's AMT, over WS-Management.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/nextboot and protocol. Turns, courtesy, the fence and errors are those
// of rackd/driver/bmc. Invariants:
//   - AMT takes a boot device for the next start alone, and tells none. So a device that is set is kept with the node.
//   - AMT is told the device before each order that starts the machine. One for a single start is then used up.
//   - The disk is what firmware boots by itself: AMT is not told.
//   - Which request leads to a power state is chosen among those that AMT says it takes now.
//   - The password never leaves: requests carry digests. Over http all else is in the clear.
//
// Everything exported is safe for concurrent use. Sources: Intel's reference guide of AMT, DMTF's profiles of power and boot control,
// and Ironic's driver of before 2017.
package amt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/nextboot"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress  = "amt_address"
	fieldUser     = "amt_username"
	fieldPassword = "amt_password"
	fieldProtocol = "amt_protocol"
	fieldPort     = "amt_port"
	fieldVerifyCA = "amt_verify_ca"
)

// Driver implements driver.Power, driver.Management and driver.Keeper.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[*session]
	// boots are told to AMT by SetPower.
	boots nextboot.Devices
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{opts: o.Filled(), pool: bmc.NewPool[*session](o.Pool("amt"))}
}

// Close ends the sessions, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldAddress:  "Host name or address of the machine's AMT. Required.",
		fieldUser:     "User of AMT. Required.",
		fieldPassword: "Password of that user. Required.",
		fieldProtocol: "http or https. Default http.",
		fieldPort:     "TCP port of AMT. Default 16992 for http, 16993 for https.",
		fieldVerifyCA: "How to check the certificate for https: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

var ports = map[string]string{"http": "16992", "https": "16993"}

func parse(n *node.Document) (w bmc.Web, err error) {
	refuse := func(err error) (bmc.Web, error) { return bmc.Web{}, fmt.Errorf("node %s: %w", n.Label(), err) }
	if missing := bmc.Missing(n, fieldAddress, fieldPassword, fieldUser); missing != "" {
		return refuse(driver.Refuse("AMT driver requires the following to be set in node's driver_info: %s.", missing))
	}
	w = bmc.Web{Node: n, Scheme: n.DriverString(fieldProtocol), User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword), VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)),
		Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}
	if w.Scheme == "" {
		w.Scheme = "http"
	}
	if ports[w.Scheme] == "" {
		return refuse(driver.Refuse("Invalid protocol %s.", w.Scheme))
	}
	if w.Host, err = bmc.Host(n, fieldAddress, fieldPort); err != nil {
		return refuse(err)
	}
	if w.Port, err = bmc.Port(n, fieldPort, ports[w.Scheme]); err != nil {
		return refuse(err)
	}
	return w, nil
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	w, err := parse(n)
	if err != nil {
		return err
	}
	return w.Validate(n, d.opts)
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	w, err := parse(n)
	if err != nil {
		return ""
	}
	return w.AccountName()
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// with runs do when it is the caller's turn at the machine's AMT, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(*session) error) error {
	w, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, w.Account(), func(ctx context.Context) (*session, error) { return login(ctx, w, d.opts) }, do)
	return w.Attempt(n, "AMT", doing).Explain(err)
}

// PowerTargets lists the supported targets. A soft power off needs Intel's service in the system; AMT says whether it runs.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(s *session) error {
		p, err := s.power(ctx)
		state = p.state()
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// requests are the states of DMTF's power profile that lead to a target, the best first.
var requests = map[driver.PowerState][]string{driver.PowerOn: {"2"}, driver.PowerOff: {"8", "6"}, driver.Rebooting: {"10", "5", "9"}, driver.SoftPowerOff: {"12", "13"}}

// SetPower asks for a power state, if the machine is not there. Before each start AMT is told the boot device.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, goal driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), goal) {
		return fmt.Errorf("node %s: AMT knows no power target %q: %w", n.Label(), goal, driver.ErrUnsupported)
	}
	starts, ordered := goal == driver.PowerOn || goal == driver.Rebooting, false
	next := d.boots.Of(n)
	err := d.with(ctx, n, fmt.Sprintf("set the power to %q", goal), func(s *session) error {
		p, err := s.power(ctx)
		if err != nil {
			return err
		}
		is, wanted := p.state(), goal
		if is == wanted || is == driver.PowerOff && wanted == driver.SoftPowerOff {
			starts = false
			if is == driver.PowerOn {
				d.boots.Runs(n)
			}
			return nil
		}
		if is == driver.PowerOff {
			wanted = driver.PowerOn
		}
		request, err := p.choose(requests[wanted])
		if err != nil {
			return err
		}
		if source := sources[next.Device]; starts && source != "" {
			if err := s.bootOnce(ctx, f, source); err != nil {
				return err
			}
		}
		ordered = true
		return s.request(ctx, f, request)
	})
	switch {
	case err == nil && starts && next.Once:
		d.boots.Keep(n, "", false) // used up
	case starts && ordered && errors.Is(err, driver.ErrUnknown):
		d.boots.Told(n)
	}
	return err
}

// sources are AMT's names of what it has a machine boot from. The disk has none here: it is what a machine boots from anyway.
var sources = map[driver.BootDevice]string{driver.BootPXE: "Intel(r) AMT: Force PXE Boot", "cdrom": "Intel(r) AMT: Force CD/DVD Boot"}

// Kept implements driver.Keeper.
func (d *Driver) Kept(n *node.Document) json.RawMessage { return d.boots.Kept(n) }

// SupportedBootDevices are the same for all machines.
func (*Driver) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE, driver.BootDisk, "cdrom"}, nil
}

// BootDevice is the one that was set last. Without one it is the disk, as in Ironic.
func (d *Driver) BootDevice(ctx context.Context, n *node.Document) (ask.BootDevice, error) {
	// Nothing is read: AMT tells no boot device. A caller that has given up gets no answer all the same.
	if err := d.reaches(ctx, n, "read the boot device"); err != nil {
		return ask.BootDevice{}, err
	}
	b := d.boots.Of(n)
	if b.Device == "" {
		b.Device = driver.BootDisk
	}
	lasts := !b.Once
	return ask.BootDevice{Device: string(b.Device), Persistent: &lasts}, nil
}

// reaches makes sure that AMT answers, so that no boot device is promised to a machine that cannot be told.
func (d *Driver) reaches(ctx context.Context, n *node.Document, doing string) error {
	return d.with(ctx, n, doing, func(s *session) error {
		_, err := s.power(ctx)
		return err
	})
}

// SetBootDevice keeps the device for the next start, or for all. AMT is told by SetPower.
func (d *Driver) SetBootDevice(ctx context.Context, f driver.Fence, n *node.Document, device driver.BootDevice, persistent bool) error {
	if device != driver.BootDisk && sources[device] == "" {
		return fmt.Errorf("node %s: set_boot_device called with invalid device %s: AMT has pxe, disk and cdrom: %w", n.Label(), device, driver.ErrUnsupported)
	}
	if err := d.reaches(ctx, n, fmt.Sprintf("set the boot device to %s", device)); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	d.boots.Keep(n, device, !persistent)
	return nil
}

func without(n *node.Document, what string) error {
	return fmt.Errorf("node %s: AMT tells and takes no %s: %w", n.Label(), what, driver.ErrUnsupported)
}

// BootMode is not known.
func (*Driver) BootMode(_ context.Context, n *node.Document) (string, error) {
	return "", without(n, "boot mode")
}

// SetBootMode is refused.
func (*Driver) SetBootMode(_ context.Context, _ driver.Fence, n *node.Document, _ string) error {
	return without(n, "boot mode")
}

// Identity is not known.
func (*Driver) Identity(_ context.Context, n *node.Document) (driver.Identity, error) {
	return driver.Identity{}, without(n, "identity here")
}

// InjectNMI asks for a diagnostic interrupt, where AMT takes that.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, n, "inject an NMI", func(s *session) error {
		p, err := s.power(ctx)
		if err != nil {
			return err
		}
		request, err := p.choose([]string{"11"})
		if err != nil {
			return err
		}
		return s.request(ctx, f, request)
	})
}
