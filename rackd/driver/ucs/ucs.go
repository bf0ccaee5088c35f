// Package ucs is the power and management interfaces of servers under Cisco's UCS Manager, over its XML API.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/cisco and protocol. Sessions, turns, courtesy, the fence and errors are
// those of rackd/driver/bmc: a manager serves many nodes, which share its turn and a login. Invariants:
//   - A node is a service profile. Without a server that the profile is associated with, everything is refused.
//   - The power state is that of the server itself, not what the profile wants it to be.
//   - A boot device lasts, and is a boot policy of the profile's own: a policy that profiles share is copied, never written.
//   - One request writes the whole policy, and it is read back.
//
// Everything exported is safe for concurrent use.
package ucs

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/cisco"
)

// Fields of driver_info, with Ironic's names, but for the port and the certificate.
const (
	fieldAddress  = "ucs_address"
	fieldUser     = "ucs_username"
	fieldPassword = "ucs_password"
	fieldPort     = "ucs_port"
	fieldVerifyCA = "ucs_verify_ca"
	fieldProfile  = "ucs_service_profile"
)

func fields() cisco.Fields {
	return cisco.Fields{Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}, Port: fieldPort}
}

var profileName = regexp.MustCompile(`^org-root(/org-[^/]+)*/ls-[^/]+$`)

// Driver implements driver.Power and driver.Management.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[*cisco.Session]
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{o.Filled(), bmc.NewPool[*cisco.Session](o.Pool("ucs"))}
}

// Close logs out, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	p := fields().Properties("UCS Manager")
	p[fieldProfile] = "Distinguished name of the service profile, such as org-root/ls-web1. Required."
	return p
}

func parse(n *node.Document) (at bmc.Web, profile string, err error) {
	if at, err = fields().Parse(n, fieldProfile); err != nil {
		return at, "", err
	}
	if profile = n.DriverString(fieldProfile); !profileName.MatchString(profile) {
		return at, "", fmt.Errorf("node %s: %w", n.Label(), driver.Refuse("%s is %q: give a distinguished name such as org-root/ls-web1", fieldProfile, profile))
	}
	return at, profile, nil
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	at, _, err := parse(n)
	if err != nil {
		return err
	}
	return at.Validate(n, d.opts)
}

// Account implements driver.Accounted.
func (*Driver) Account(n *node.Document) string {
	at, _, err := parse(n)
	if err != nil {
		return ""
	}
	return at.AccountName()
}

// LocatesBMC implements driver.Located.
func (*Driver) LocatesBMC() {}

// profile is a service profile with the server that it is associated with.
type profile struct {
	*cisco.Session
	self cisco.Object
	dn   string
	at   string // of the server
}

// with runs do on the node's profile when it is the caller's turn at the manager, and explains what went wrong.
func (d *Driver) with(ctx context.Context, n *node.Document, doing string, do func(profile) error) error {
	at, dn, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, at.Account(),
		func(ctx context.Context) (*cisco.Session, error) { return cisco.Login(ctx, at, d.opts) },
		func(s *cisco.Session) error {
			self, found, err := s.Resolve(ctx, dn, false)
			switch {
			case err != nil:
				return err
			case !found || self.Class() != "lsServer":
				return &bmc.Failure{Class: bmc.Invalid, Said: "that there is no service profile " + dn + "; check " + fieldProfile}
			case self.Get("pnDn") == "" || self.Get("assocState") != "associated":
				return &bmc.Failure{Class: bmc.Invalid, Said: fmt.Sprintf("that the service profile %s is %s; associate it with a server", dn, self.Get("assocState"))}
			}
			return do(profile{s, self, dn, self.Get("pnDn")})
		})
	return at.Attempt(n, "UCS Manager", doing).Explain(err)
}

// server reads the server.
func (p profile) server(ctx context.Context) (cisco.Object, error) {
	server, found, err := p.Resolve(ctx, p.at, false)
	if err == nil && !found {
		err = &bmc.Failure{Said: "that there is no " + p.at + ", which it has associated with the service profile"}
	}
	return server, err
}

// orders are the API's words for power targets. A soft power off becomes a hard one when the profile's soft shutdown timer ends.
var orders = map[driver.PowerState]string{driver.PowerOn: "admin-up", driver.PowerOff: "admin-down",
	driver.Rebooting: "hard-reset-immediate", driver.SoftPowerOff: "soft-shut-down"}

// PowerTargets lists the supported targets.
func (*Driver) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftPowerOff}
}

// PowerState reads the power state of the server.
func (d *Driver) PowerState(ctx context.Context, n *node.Document) (state driver.PowerState, err error) {
	err = d.with(ctx, n, "read the power state", func(p profile) error {
		server, err := p.server(ctx)
		state = cisco.Powered(server)
		return err
	})
	if err != nil {
		return "", err
	}
	return state, nil
}

// SetPower gives the profile a power order, if its server is not there.
func (d *Driver) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if !slices.Contains(d.PowerTargets(), target) {
		return fmt.Errorf("node %s: a UCS Manager knows no power target %q: %w", n.Label(), target, driver.ErrUnsupported)
	}
	return d.with(ctx, n, fmt.Sprintf("set the power to %q", target), func(p profile) error {
		server, err := p.server(ctx)
		if err != nil {
			return err
		}
		return cisco.Switch(ctx, cisco.Powered(server), target, orders, func(ctx context.Context, word string) error { return p.order(ctx, f, word) })
	})
}

func (p profile) order(ctx context.Context, f driver.Fence, word string) error {
	return p.Configure(ctx, f, cisco.New("lsPower", "dn", p.dn+"/power", "state", word))
}

// InjectNMI sends a diagnostic interrupt.
func (d *Driver) InjectNMI(ctx context.Context, f driver.Fence, n *node.Document) error {
	return d.with(ctx, n, "inject an NMI", func(p profile) error { return p.order(ctx, f, "diagnostic-interrupt") })
}

// Identity reads what the server is.
func (d *Driver) Identity(ctx context.Context, n *node.Document) (id driver.Identity, err error) {
	err = d.with(ctx, n, "read the identity", func(p profile) error {
		server, err := p.server(ctx)
		id = driver.Identity{UUID: server.Get("uuid"), Manufacturer: server.Get("vendor"), Model: server.Get("model"), Serial: server.Get("serial")}
		return err
	})
	return id, err
}

// DetectVendor implements driver.VendorDetector.
func (d *Driver) DetectVendor(ctx context.Context, n *node.Document) (vendor string, err error) {
	err = d.with(ctx, n, "detect the vendor", func(p profile) error {
		server, err := p.server(ctx)
		vendor = cisco.Maker(server)
		return err
	})
	return vendor, err
}
