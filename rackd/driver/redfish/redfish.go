// Package redfish is the interfaces of machines whose BMC speaks Redfish: power, management, BIOS, firmware, RAID, inspection,
// serial and graphical consoles and vendor methods, on top of gofish. What firmwares want in ways of their own is in quirks.go.
//
// It may import rackd/driver, rackd/driver/bmc, rackd/driver/bringup, rackd/driver/namedfile, rackd/driver/rfb,
// rackd/driver/serialline, rackd/outbound, protocol, gofish, golang.org/x/crypto/ssh and github.com/coder/websocket.
// Sessions, turns, courtesy, the fence and errors are those of rackd/driver/bmc. Invariants:
//   - A session that the BMC has forgotten is opened again once.
//   - Each write to a machine carries the work and its epoch in headers.
//   - Each call reads before it writes, and writes nothing that is already so.
//   - What a BMC has accepted counts once the BMC shows it.
//
// Everything exported is safe for concurrent use.
package redfish

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of the driver; zero values mean the defaults.
type Options struct {
	// ConnectTimeout bounds a connection with its TLS handshake; default 30 s.
	ConnectTimeout time.Duration
	// ReadTimeout bounds the wait for an answer; default 60 s.
	ReadTimeout time.Duration
	// MaxBMCs bounds the BMCs with an open session; default 1000. The one not used
	// for longest is logged out for a new one.
	MaxBMCs int
	// Recovery is power sync's first pause after refused credentials; default 300 s (bmc.PoolOptions).
	Recovery time.Duration
	// Pace is how many operations a second one BMC gets (bmc.PoolOptions).
	Pace int
	// CAFolder holds the PEM files that redfish_verify_ca may name.
	CAFolder namedfile.Folder
	// Networks are those that BMCs are in.
	Networks outbound.BMCs
	// Dialect is how driver_info says where the BMC is.
	Dialect Dialect
	// Shared is bmc.PoolOptions\'.
	Shared bmc.Shared
	Log    *slog.Logger
}

// Driver implements driver.Power and driver.Management.
type Driver struct {
	pool  *pool
	again agains
	tasks tasksOf
	// resets are the nodes whose BMC this rackd has told to restart.
	resets sync.Map
	// doors give turns at the SSH servers of BMCs, which may refuse a user that Redfish lets in.
	doors *bmc.Pool[door]
}

// New returns a driver without any session; Close logs out.
func New(o Options) *Driver {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = 60 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Dialect, o.Shared = o.Dialect.orOwn(), o.Shared.Filled()
	turns := bmc.PoolOptions{Driver: o.Dialect.Driver, MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.Pace, Result: classOf, Shared: o.Shared, Log: o.Log}
	return &Driver{again: newAgains(), pool: &pool{opts: o, Pool: bmc.NewPool[*session](turns)}, doors: bmc.NewPool[door](turns)}
}

// Close logs out of every BMC, until ctx ends. No call may follow.
func (d *Driver) Close(ctx context.Context) error {
	return errors.Join(d.pool.Close(ctx), d.doors.Close(ctx))
}

// Properties names the fields that are read, in driver_info.
func (d *Driver) Properties() map[string]string {
	return maps.Clone(d.pool.opts.Dialect.Properties)
}

// Account implements driver.Accounted.
func (d *Driver) Account(n *node.Document) string {
	a, err := d.pool.opts.Dialect.parse(n)
	if err != nil {
		return ""
	}
	sum := a.sum()
	return hex.EncodeToString(sum[:])
}

// Validate checks driver_info.
func (d *Driver) Validate(n *node.Document) error {
	a, err := d.pool.opts.Dialect.parse(n)
	if err != nil {
		return err
	}
	if _, err := a.trust(d.pool.opts).TLS(); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	if err := a.placed(d.pool.opts.Networks); err != nil {
		return fmt.Errorf("node %s: %w", n.Label(), err)
	}
	return nil
}
