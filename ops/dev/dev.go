// Package dev runs a whole fleet of fake machines in one process: control plane,
// bus, database and a rackd. `ironyard dev`, tests and benchmarks are its callers.
//
// It may import central, ops/stack, rackd and protocol. Its restart with the same folder goes
// on where it stopped.
package dev

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	central "github.com/ironyard/ironyard/central/daemon"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/daemon"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of a fleet on one machine.
type Options struct {
	Listen, Data, Database string
	Delay                  time.Duration
	// Drivers are the hardware types besides fake-hardware.
	Drivers []string
	// Observe is the address of the rackd's /metrics; empty: none. Central's are at the API's address.
	Observe string
	// Access says who may use the API; empty: everybody may.
	Access central.Access
	// NoVNC is a folder with noVNC, for a page of graphical consoles; empty: there is no page.
	NoVNC string
	Log   *slog.Logger
}

// types are the hardware types, each once.
func (o Options) types() []string {
	others := slices.DeleteFunc(slices.Clone(o.Drivers), func(name string) bool { return name == fake.TypeName })
	return append([]string{fake.TypeName}, others...)
}

// everywhere: who runs it owns the machine, and servers and emulated BMCs run beside it.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// Run runs a whole fleet of fake machines in this process until ctx ends; ready
// is called once a request would find a conductor.
func Run(ctx context.Context, o Options, ready func(*stack.Stack)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	up := make(chan *stack.Stack, 1)
	// rackd ends before the bus does.
	rackdDone := make(chan struct{})
	stackCtx, stopStack := context.WithCancel(context.WithoutCancel(ctx))
	defer stopStack()
	context.AfterFunc(ctx, func() { <-rackdDone; stopStack() })
	g.Go(func() error {
		return stack.Run(stackCtx, stack.Options{Dir: o.Data, Database: o.Database, Listen: o.Listen, Access: o.Access, NoVNC: o.NoVNC, Log: o.Log}, func(s *stack.Stack) { up <- s })
	})
	g.Go(func() error {
		defer close(rackdDone)
		var s *stack.Stack
		select {
		case s = <-up:
		case <-ctx.Done():
			return nil
		}
		key, err := s.Key.ForGroup("")
		if err != nil {
			return err
		}
		return daemon.Run(ctx, daemon.Config{Name: "rackd-dev", Conn: s.Conn, Keys: seal.NewKeyring("", key), Drivers: o.types(),
			Fake: fake.Options{DefaultDelay: o.Delay}, DataDir: filepath.Join(o.Data, "rackd"), Log: o.Log, Observe: o.Observe, PowerSync: 2 * time.Minute,
			Fetching: outbound.Fetching{Allowed: everywhere}, BMCs: everywhere,
			TrustFirstLookup: true}, // its machines are not real: who plays one's ramdisk was given no boot script
			func() {
				// Central must have heard of it too.
				if s.Roster.WaitFor(ctx, func(live []bus.Member) bool { return len(live) > 0 }) == nil {
					ready(s)
				}
			})
	})
	return g.Wait()
}
