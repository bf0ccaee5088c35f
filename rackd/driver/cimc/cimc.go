// Package cimc is the power and management interfaces of Cisco's rack servers without a UCS Manager, over the XML API of their IMC.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/cisco and protocol. Sessions, turns, courtesy, the fence and errors are
// those of rackd/driver/bmc. Invariants:
//   - A boot device lasts. Where the IMC has a precise boot order, that is the one read and written, else the order by kinds.
//   - One request writes the whole order, and it is read back.
//
// Newer IMCs speak Redfish, too: the interfaces redfish of the same hardware type serve it. Everything exported is safe for concurrent use.
package cimc

import (
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/cisco"
)

// unit is the server of an IMC.
const unit = "sys/rack-unit-1"

// Fields of driver_info, with Ironic's names, but for the port and the certificate.
const (
	fieldAddress  = "cimc_address"
	fieldUser     = "cimc_username"
	fieldPassword = "cimc_password"
	fieldPort     = "cimc_port"
	fieldVerifyCA = "cimc_verify_ca"
)

func fields() cisco.Fields {
	return cisco.Fields{Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}, Port: fieldPort}
}

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[*cisco.Session]
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{o.Filled(), bmc.NewPool[*cisco.Session](o.Pool("cimc"))}
}

// Close logs out, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string { return fields().Properties("IMC") }

func parse(n *node.Document) (bmc.Web, error) { return fields().Parse(n) }

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	at, err := parse(n)
	if err != nil {
		return err
	}
	return at.Validate(n, d.opts)
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	at, err := parse(n)
	if err != nil {
		return ""
	}
	return at.AccountName()
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// with runs do when it is the caller's turn at the IMC, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(*cisco.Session) error) error {
	at, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, at.Account(), func(ctx context.Context) (*cisco.Session, error) { return cisco.Login(ctx, at, d.opts) }, do)
	return at.Attempt(n, "IMC", doing).Explain(err)
}

// server reads the server.
func server(ctx context.Context, s *cisco.Session) (cisco.Object, error) {
	o, found, err := s.Resolve(ctx, unit, false)
	if err == nil && !found {
		err = &bmc.Failure{Class: bmc.Unsupported, Said: "that there is no " + unit + ": it is not the IMC of a rack server"}
	}
	return o, err
}

var orders = map[driver.PowerState]string{driver.PowerOn: "up", driver.PowerOff: "down", driver.Rebooting: "hard-reset-immediate", driver.SoftPowerOff: "soft-shut-down"}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads the power state.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(s *cisco.Session) error {
		o, err := server(ctx, s)
		state = cisco.Powered(o)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower gives a power order, if the server is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: an IMC knows no power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", target), func(s *cisco.Session) error {
		o, err := server(ctx, s)
		if err != nil {
			return err
		}
		return cisco.Switch(ctx, cisco.Powered(o), target, orders, func(ctx context.Context, word string) error { return order(ctx, s, f, word) })
	})
}

func order(ctx context.Context, s *cisco.Session, f driver.Fence, word string) error {
	return s.Configure(ctx, f, cisco.New("computeRackUnit", "dn", unit, "adminPower", word))
}

// InjectNMI sends a diagnostic interrupt.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, n, "inject an NMI", func(s *cisco.Session) error { return order(ctx, s, f, "diagnostic-interrupt") })
}

// Identity reads what the server is.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.with(ctx, n, "read the identity", func(s *cisco.Session) error {
		o, err := server(ctx, s)
		id = driver.Identity{UUID: o.Get("uuid"), Manufacturer: o.Get("vendor"), Model: o.Get("model"), Serial: o.Get("serial")}
		return err
	})
	return id, err
}

// DetectVendor implements driver.VendorDetector.
func (d *Driver) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = d.with(ctx, n, "detect the vendor", func(s *cisco.Session) error {
		o, err := server(ctx, s)
		vendor = cisco.Maker(o)
		return err
	})
	return vendor, err
}
