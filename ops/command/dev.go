package command

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/rackd/daemon"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

type devCommand struct {
	Listen   string        `help:"Address of the API." default:"127.0.0.1:6385"`
	Data     string        `help:"Folder for database, bus and key; a restart goes on there." default:"ironyard-dev" type:"path"`
	Database string        `help:"Use this database instead of SQLite: postgres://…"`
	Delay    time.Duration `help:"How long each step of a fake machine takes."`
}

func (c devCommand) Run(ctx context.Context, log *slog.Logger) error {
	began := time.Now()
	return RunDev(ctx, DevOptions{Listen: c.Listen, Data: c.Data, Database: c.Database, Delay: c.Delay, Log: log}, func(s *stack.Stack) {
		fmt.Printf("ready in %d ms: API on %s, no authentication, fake machines\n\n", time.Since(began).Milliseconds(), s.Endpoint)
		fmt.Printf("Try, in another terminal:\n  export OS_AUTH_TYPE=none OS_ENDPOINT=%s\n"+
			"  baremetal node create --driver fake-hardware --name one\n  baremetal node manage one --wait\n  baremetal node provide one --wait\n"+
			"  baremetal node set one --instance-info image_source=http://example.org/i.raw --instance-info image_checksum=%064d\n"+
			"  baremetal node deploy one --wait\n  baremetal node list\n\nCtrl-C stops it; --data %s keeps everything.\n", s.Endpoint, 0, c.Data)
	})
}

// DevOptions of RunDev.
type DevOptions struct {
	Listen, Data, Database string
	Delay                  time.Duration
	Log                    *slog.Logger
}

// RunDev runs a whole fleet of fake machines in this process until ctx ends; ready
// is called once a request would find a conductor.
func RunDev(ctx context.Context, o DevOptions, ready func(*stack.Stack)) error {
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
		return stack.Run(stackCtx, stack.Options{Dir: o.Data, Database: o.Database, Listen: o.Listen, Log: o.Log}, func(s *stack.Stack) { up <- s })
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
		return daemon.Run(ctx, daemon.Config{Name: "rackd-dev", Conn: s.Conn, Key: key, Drivers: []string{"fake-hardware"},
			Fake: fake.Options{DefaultDelay: o.Delay}, DataDir: filepath.Join(o.Data, "rackd"), Log: o.Log, PowerSync: 2 * time.Minute},
			func() { ready(s) })
	})
	return g.Wait()
}
