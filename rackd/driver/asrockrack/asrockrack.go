// Package asrockrack is the power, management, inspect and vendor interfaces of boards whose BMC has the HTTP API of ASRockRack's own
// firmware. The API is spoken by bmclib's provider of that name.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/none, protocol and that provider. Turns, sessions, courtesy, the fence and
// errors are those of rackd/driver/bmc. Invariants:
//   - The provider is used by itself, never through bmclib's client: its requests leave by the transport of rackd/driver/bmc alone.
//   - What became of a request is taken from that transport, for the provider tells it as text: a fence that refused, a lost answer.
//   - The provider's log is discarded. It may hold whole requests, which have the password.
//   - A session that was opened is logged out of.
//   - The provider sets no boot device. The machine's firmware tries the network first, or the management interface ipmitool sets it.
//
// Everything exported is safe for concurrent use.
package asrockrack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Fields of driver_info.
const (
	fieldAddress  = "asrockrack_address"
	fieldUser     = "asrockrack_username"
	fieldPassword = "asrockrack_password"
	fieldPort     = "asrockrack_port"
	fieldVerifyCA = "asrockrack_verify_ca"
)

// Driver implements driver.Power. It is what the other interfaces of this package speak through.
type Driver struct {
	opts bmc.WebOptions
	pool *bmc.Pool[*session]
	// rest is how long a BMC is left alone that was told to restart.
	rest time.Duration
	// resets are the sessions, by nodes, in which this rackd had a step restart the BMC.
	resets sync.Map
}

// New returns a driver without any session; Close ends those that come.
func New(o bmc.WebOptions) *Driver {
	return &Driver{opts: o.Filled(), pool: bmc.NewPool[*session](o.Pool("asrockrack")), rest: restReset}
}

// Close logs out, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldAddress:  "Host name or address of the BMC. Required.",
		fieldUser:     "User of the BMC, who may operate the machine. Required.",
		fieldPassword: "Password of that user. Required.",
		fieldPort:     "TCP port of the BMC. Default 443.",
		fieldVerifyCA: "How to check the certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// parse reads driver_info.
func parse(n *node.Document) (w bmc.Web, err error) {
	refuse := func(err error) (bmc.Web, error) { return bmc.Web{}, fmt.Errorf("node %s: %w", n.Label(), err) }
	if missing := bmc.Missing(n, fieldAddress, fieldUser, fieldPassword); missing != "" {
		return refuse(driver.Refuse("The ASRockRack driver requires these parameters to be set in the node's driver_info. Missing are: %s", missing))
	}
	w = bmc.Web{Node: n, Scheme: "https", User: n.DriverString(fieldUser), Password: n.DriverString(fieldPassword), VerifyCA: bmc.VerifyCA(n.DriverString(fieldVerifyCA)),
		Fields: bmc.Fields{Address: fieldAddress, User: fieldUser, Password: fieldPassword, VerifyCA: fieldVerifyCA}}
	if w.Host, err = bmc.Host(n, fieldAddress, fieldPort); err != nil {
		return refuse(err)
	}
	if w.Port, err = bmc.Port(n, fieldPort, "443"); err != nil {
		return refuse(err)
	}
	return w, nil
}

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

// with runs do when it is the caller's turn at the BMC, and explains what went wrong. f is nil for calls that only read. A BMC that writes
// its own firmware is asked nothing: a refusal would look as if it had forgotten the session, and it takes no other one.
func (d *Driver) with(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*session) error) error {
	return d.during(ctx, f, n, doing, func(s *session) error {
		if time.Now().Before(s.alone) {
			return &bmc.Failure{Class: bmc.Busy, Said: "that it takes in firmware for itself"}
		}
		return do(s)
	})
}

// during is with for the step that writes the BMC's firmware.
func (d *Driver) during(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*session) error) error {
	at, err := parse(n)
	if err != nil {
		return err
	}
	err = d.pool.Use(ctx, at.Account(), func(ctx context.Context) (*session, error) { return login(ctx, at, d.opts) }, func(s *session) error {
		s.wire.begin(ctx, f)
		return do(s)
	})
	a := at.Attempt(n, "BMC", doing)
	a.Secrets = append(a.Secrets, escape(at.Password))
	return a.Explain(err)
}
