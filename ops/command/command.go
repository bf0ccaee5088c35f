// Package command is the command line of ironyard: one file for each command.
//
// It may import all of the project.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/protocol/heap"
	"github.com/ironyard/ironyard/protocol/release"
)

const manual = `ironyard is the operator's command of Ironyard, bare-metal provisioning with Ironic's API.

To look around: 'ironyard dev' runs everything in one process with fake machines; point 'baremetal' or any Ironic client
at it. 'ironyard demo' boots two virtual machines from nothing to a running system; 'ironyard lab up' keeps such a rack
running to play with.`

type commands struct {
	Dev     devCommand     `cmd:"" help:"Run central, bus, database and a rackd with fake machines in this process."`
	Demo    demoCommand    `cmd:"" help:"Deploy two virtual machines and show each phase (root)."`
	Lab     labCommand     `cmd:"" help:"Run the virtual rack by hand (root)."`
	Ramdisk ramdiskCommand `cmd:"" help:"Build the ramdisk that machines boot."`
	Key     keyCommand     `cmd:"" help:"Make and derive the keys that seal secrets."`

	Node nodeCommand `cmd:"" help:"Work with a node of a fleet: its console."`

	Bus  busCommand  `cmd:"" help:"Look at what lies on the bus."`
	Site siteCommand `cmd:"" help:"Join a fleet, and run the NATS servers of its hub and sites."`

	Debug bool `help:"Write debug messages to the log."`

	Version kong.VersionFlag `help:"Print the version and exit."`
}

// Main runs ironyard and exits.
func Main() {
	var c commands
	k := kong.Parse(&c, kong.Name("ironyard"), kong.Description(manual), kong.Vars{"version": "ironyard " + release.Text()}, kong.UsageOnError())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go heap.Keep(ctx)
	level := slog.LevelWarn
	if c.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	k.BindTo(ctx, (*context.Context)(nil))
	if err := k.Run(log); err != nil && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		fmt.Fprintln(os.Stderr, "ironyard:", err)
		os.Exit(1)
	}
}

// beside returns the program of that name that lies beside this one.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the program %s: %w; `make build` makes it", name, err)
	}
	return path, nil
}

// needRoot says what root is needed for.
func needRoot(what string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s needs root: it makes a network namespace and serves DHCP in it", what)
	}
	return nil
}
