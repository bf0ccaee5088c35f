// Package program is ironyard-fleet's command line: flags become a fleet and the
// server of its control API.
//
// It may import ops/virtual/fleet and its packages.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
)

const manual = `ironyard-fleet simulates machines for tests: virtual BMCs, firmware that boots from the network, agents that
really speak the agent's protocol, and disks that know what was written.

It prints one line of JSON when it is ready and runs until SIGTERM. A caller that reaches its control address can do everything
to its machines.`

type flags struct {
	Name      string       `help:"Prefix of the machines' names." default:"sim"`
	Machines  int          `help:"Number of machines." default:"20"`
	Network   netip.Prefix `help:"Network of the machines' addresses. This host must treat them as local." default:"127.80.0.0/16"`
	Interface string       `help:"Network interface of the BMCs. Empty: all." default:"lo"`
	BMCPort   uint16       `help:"Port of each BMC." default:"8443"`
	AgentPort uint16       `help:"Port of each agent." default:"9999"`
	User      string       `help:"User of each BMC." default:"admin"`
	Password  string       `help:"Password of each BMC." default:"not-a-secret" env:"FLEET_BMC_PASSWORD"`
	Rackd     []string     `help:"Base URL of a rackd's HTTP port for boot scripts, such as http://127.0.1.1:8080. May be repeated." placeholder:"URL"`
	Light     bool         `help:"Machines with a BMC and power only. They never boot."`
	Control   string       `help:"Address of the control API." default:"127.0.0.1:0"`
	Keep      int          `help:"Number of journal records to keep." default:"500000"`
	Seed      uint64       `help:"Seed of the random numbers." default:"1"`

	Firmware time.Duration `help:"Time from power on to the request for a boot script." default:"${firmware}" group:"Pace"`
	Ramdisk  time.Duration `help:"Time from the loaded kernel to the agent's first lookup." default:"${ramdisk}" group:"Pace"`
	Instance time.Duration `help:"Time from the disk's first sector to the instance." default:"${instance}" group:"Pace"`
	Retry    time.Duration `help:"Time after which a machine repeats a network boot that got no answer." default:"${retry}" group:"Pace"`
	Write    time.Duration `help:"Minimum time to write an image." default:"${write}" group:"Pace"`
	Step     time.Duration `help:"Time of each other command." default:"${step}" group:"Pace"`
	Grace    time.Duration `help:"Time from a command that ends the machine's run to its end." default:"${grace}" group:"Pace"`
	Shutdown time.Duration `help:"Time from the power button to the instance's end." default:"${shutdown}" group:"Pace"`
	Spread   float64       `help:"Random part of each time, 0 to 1." default:"${spread}" group:"Pace"`

	Debug bool `help:"Write the actions of agents and BMCs to the log."`
}

// Ready is the line that the program prints when all machines can be reached.
type Ready struct {
	Control  string `json:"control"` // URL of the control API
	Machines int    `json:"machines"`
	Seed     uint64 `json:"seed"`
}

// Main runs the program and exits.
func Main() {
	var f flags
	d := pace.Default
	kong.Parse(&f, kong.Name("ironyard-fleet"), kong.Description(manual), kong.Vars{
		"firmware": d.Firmware.String(), "ramdisk": d.Ramdisk.String(), "instance": d.Instance.String(), "retry": d.Retry.String(), "write": d.Write.String(),
		"step": d.Step.String(), "grace": d.Grace.String(), "shutdown": d.Shutdown.String(), "spread": fmt.Sprint(d.Spread)})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	level := slog.LevelError
	if f.Debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := run(ctx, f, log, os.Stdout); err != nil {
		log.Error("the fleet ends", "error", err)
		os.Exit(1)
	}
}

func (f flags) config(log *slog.Logger) fleet.Config {
	return fleet.Config{Name: f.Name, Machines: f.Machines, Network: f.Network, Interface: f.Interface, BMCPort: f.BMCPort, AgentPort: f.AgentPort,
		User: f.User, Password: f.Password, Rackds: f.Rackd, Light: f.Light, Seed: f.Seed, Keep: f.Keep, Log: log,
		Timings: pace.Timings{Firmware: f.Firmware, Ramdisk: f.Ramdisk, Instance: f.Instance, Retry: f.Retry, Write: f.Write, Step: f.Step,
			Grace: f.Grace, Shutdown: f.Shutdown, Spread: f.Spread}}
}

func run(ctx context.Context, f flags, log *slog.Logger, out io.Writer) error {
	machines, err := fleet.New(f.config(log))
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.Control)
	if err != nil {
		return fmt.Errorf("listen for the control API: %w", err)
	}
	// A request that waits for a record ends with the fleet.
	srv := &http.Server{Handler: control.Handler(machines), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		return machines.Run(ctx, func() {
			_ = json.NewEncoder(out).Encode(Ready{Control: "http://" + l.Addr().String(), Machines: f.Machines, Seed: f.Seed}) // whoever waits for it notices
		})
	})
	return g.Wait()
}
