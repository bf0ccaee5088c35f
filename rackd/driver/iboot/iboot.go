// Package iboot is the power interface of machines on a relay of a Dataprobe iBoot, which speaks DxP over TCP.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/outbound and protocol. Turns, courtesy, the fence and errors are those of
// rackd/driver/bmc. Invariants:
//   - A turn belongs to the iBoot's address, and each request has a connection of its own: an iBoot numbers them.
//   - Each call reads the relay before it writes, and writes nothing that is already so.
//   - Reads are repeated, because iBoots leave some without an answer. A write is sent once.
//   - Between off and on of a reboot lies Options.Hold.
//
// DxP sends the password in the clear. Everything exported is safe for concurrent use.
package iboot

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Fields of driver_info, with Ironic's names.
const (
	fieldAddress  = "iboot_address"
	fieldUser     = "iboot_username"
	fieldPassword = "iboot_password"
	fieldRelay    = "iboot_relay_id"
	fieldPort     = "iboot_port"
)

// Options of the driver; zero values mean the defaults.
type Options struct {
	// Timeout bounds a request with its connection; default 10 s. Reads are asked for Tries times, Pause apart; default 4 and 1 s (Ironic's).
	Timeout, Pause time.Duration
	Tries          int
	// Hold lies between off and on of a reboot; default 5 s (Ironic's).
	Hold time.Duration
	// MaxBMCs, Pace and Recovery are those of bmc.PoolOptions.
	MaxBMCs, Pace int
	Recovery      time.Duration
	// Networks are those that iBoots are in.
	Networks outbound.BMCs
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power.
type Driver struct {
	opts Options
	pool *bmc.Pool[session]
}

// New returns a driver; Close ends it.
func New(o Options) *Driver {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Pause <= 0 {
		o.Pause = time.Second
	}
	if o.Tries <= 0 {
		o.Tries = 4
	}
	if o.Hold <= 0 {
		o.Hold = 5 * time.Second
	}
	return &Driver{o, bmc.NewPool[session](bmc.PoolOptions{Driver: "iboot", MaxBMCs: o.MaxBMCs, Pace: o.Pace, Recovery: o.Recovery, Shared: o.Shared, Log: o.Log})}
}

// Close ends the driver. No call may follow.
func (d *Driver) Close(ctx context.Context) error { return d.pool.Close(ctx) }

// Properties names the fields that are read, in driver_info.
func (*Driver) Properties() map[string]string {
	return map[string]string{
		fieldAddress:  "Host name or address of the iBoot. Required.",
		fieldUser:     "User of the iBoot, of 20 characters at most. Required.",
		fieldPassword: "Password of that user, of 20 characters at most. Required.",
		fieldRelay:    "Number of the relay, counted from 1. Default 1.",
		fieldPort:     "TCP port of the iBoot. Default 9100.",
	}
}

// target is a relay and how its iBoot is reached.
type target struct {
	host, port     string
	relay          int
	user, password string
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// parse reads driver_info. Errors wrap driver.ErrInvalid and have Ironic's words where it has some.
func parse(n *node.Document) (t target, err error) {
	refuse := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("node %s: %w", n.Label(), driver.Refuse(format, args...))
	}
	var missing []string
	for _, field := range []string{fieldAddress, fieldUser, fieldPassword} {
		if n.DriverString(field) == "" {
			missing = append(missing, "'"+field+"'")
		}
	}
	if len(missing) > 0 {
		return refuse("Missing the following iBoot credentials in node's driver_info: [%s].", strings.Join(missing, ", "))
	}
	t = target{host: strings.Trim(n.DriverString(fieldAddress), "[]"), port: n.DriverString(fieldPort), relay: 1, user: n.DriverString(fieldUser), password: n.DriverString(fieldPassword)}
	if _, err := netip.ParseAddr(t.host); err != nil && strings.ContainsAny(t.host, "/:@?#% \t\r\n\\") {
		return refuse("%s is neither a host name nor an address: %q. The port goes into %s.", fieldAddress, t.host, fieldPort)
	}
	if len(t.user) > longest || len(t.password) > longest {
		return refuse("%s and %s have %d characters at most", fieldUser, fieldPassword, longest)
	}
	if t.port == "" {
		t.port = "9100"
	}
	switch port, err := strconv.Atoi(t.port); {
	case err != nil:
		return refuse("%s \"%s\" is not a valid integer.", fieldPort, t.port)
	case port < 1 || port > 65535:
		return refuse("%s \"%s\" is out of range. Valid port numbers must be between 1 and 65535.", fieldPort, t.port)
	}
	if text := n.DriverString(fieldRelay); text != "" {
		if t.relay, err = strconv.Atoi(text); err != nil {
			return refuse("iBoot PDU relay id must be an integer.")
		}
	}
	if t.relay < 1 || t.relay > mostRelays {
		return refuse("%s is %d: relays are counted from 1 to %d", fieldRelay, t.relay, mostRelays)
	}
	return t, nil
}

// Account implements driver.Accounted.
func (d *Driver) Account(n *node.Document) string {
	t, err := parse(n)
	if err != nil {
		return ""
	}
	sum := t.sum()
	return hex.EncodeToString(sum[:])
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	t, err := parse(n)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(t.host)
	if err != nil {
		return nil // what a name leads to is checked when it is dialled
	}
	if err := d.opts.Networks.Check(ip); err != nil {
		return fmt.Errorf("node %s: %s: %w: %w", n.Label(), fieldAddress, err, driver.ErrInvalid)
	}
	return nil
}
