package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/cmdline"
	"github.com/ironyard/ironyard/agent/diskwatch"
	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/agent/kmod"
	"github.com/ironyard/ironyard/agent/logship"
	"github.com/ironyard/ironyard/agent/netup"
	"github.com/ironyard/ironyard/agent/paramdisk"
	"github.com/ironyard/ironyard/agent/pid1"
	"github.com/ironyard/ironyard/agent/rackclient"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/release"
)

// Main runs the agent with these arguments and returns the exit status.
func Main(args []string) int {
	flags, err := parse(args)
	ship := &logship.Shipper{}
	log := Logger(flags.Debug, ship)
	if err != nil {
		log.Error("cannot start", "error", err)
		return exitStatus(flags)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	end, err := Run(ctx, flags, log, ship)
	if err != nil {
		log.Error("the agent cannot go on", "error", err)
		return exitStatus(flags)
	}
	return end.execute(log, flags.Ramdisk)
}

func exitStatus(f Flags) int {
	if f.Ramdisk {
		return pid1.ExitReboot
	}
	return 1
}

// Logger writes to the console and to every other writer, one line a record.
func Logger(debug bool, ship *logship.Shipper) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if debug {
		options.Level = slog.LevelDebug
	}
	if ship == nil {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(os.Stderr, options), slog.NewTextHandler(ship, options)))
}

// Run is the agent's life until ctx ends or a command ends the machine's run.
func Run(ctx context.Context, f Flags, log *slog.Logger, ship *logship.Shipper) (end End, err error) {
	ctx, cancel := context.WithCancel(ctx)
	crew := newCrew()
	defer crew.wait()
	defer cancel()
	bootID, err := bootID(f.Ramdisk)
	if err != nil {
		return end, err
	}
	log.Info("ironyard agent", "version", release.Version, "boot_id", bootID, "rackd", f.APIURL)
	if f.Ramdisk {
		if err := whole(); err != nil {
			return end, err
		}
	}
	if err := f.askMedium(ctx, log, mediumFile, paramdisk.Machine{Root: "/"}.Words); err != nil {
		return end, err
	}
	if !f.asks() {
		if _, err := cmdline.ParseURLs(f.APIURL); err != nil {
			return end, fmt.Errorf("URL of the rackd: %w", err)
		}
	}
	rescue := newRescuer(ctx, crew, log)
	if f.Ramdisk {
		up, err := network(ctx, crew, log, f)
		if err != nil {
			return end, err
		}
		if there, err := rescue.resume(); there || err != nil {
			if err == nil {
				<-ctx.Done() // the machine is its user's: no rackd is asked any more
			}
			return Nothing, err
		}
		if f.asks() {
			if err := f.ask(ctx, log, up); err != nil {
				return end, err
			}
		}
	}
	urls, err := cmdline.ParseURLs(f.APIURL)
	if err != nil {
		return end, fmt.Errorf("URL of the rackd: %w", err)
	}
	client, err := rackclient.New(urls, f.APIFingerprint)
	if err != nil {
		return end, err
	}
	defer client.Close()
	machine := inventory.Machine{BootMAC: f.BootMAC, DiskFiles: f.Disk, OwnModules: f.Ramdisk}
	disks := diskwatch.New(machine, log)
	client.SystemUUID, client.SystemSerial = machine.SystemUUID(), machine.System().SerialNumber
	macs := func() []string {
		if len(f.MAC) > 0 {
			return f.MAC
		}
		return macsOf(machine)
	}
	id, err := session.Lookup(ctx, log, client, macs, f.Node, readToken(f.TokenFile))
	if errors.Is(err, session.ErrNoToken) {
		return end, fmt.Errorf("%w. Another boot of the ramdisk gets the same answer: end the node's work and start it again (abort, then deploy or clean). That boots the machine with a new token", err)
	}
	if err != nil {
		return end, err
	}
	if err := keepToken(f.TokenFile, id.Token); err != nil {
		log.Warn("the agent would not survive a restart", "error", err)
	}
	log.Info("this machine is known", "node", id.Node, "heartbeat_timeout", id.Timeout, "clock_offset", id.ClockOffset.Round(time.Second))
	shipping, stopShipping := context.WithCancel(ctx)
	defer stopShipping()
	crew.Go(func() {
		ship.Run(shipping, func(ctx context.Context, lines []byte) error { return client.SendLog(ctx, id.Node, id.Token, lines) })
	})
	return serve(ctx, crew, parts{flags: f, log: log, ship: ship, client: client, machine: machine, disks: disks, id: id, bootID: bootID, url: urls[0], rescue: rescue, stopShipping: stopShipping})
}

// networkData is where a medium that rackd has made puts the node's network_data (rackd/bootmedium).
const networkData = "/etc/ironyard/network_data.json"

// network configures the network and waits for the first address.
func network(ctx context.Context, crew *crew, log *slog.Logger, f Flags) (*netup.Manager, error) {
	m := &netup.Manager{Log: log, BootMAC: f.BootMAC, ResolvConf: "/etc/resolv.conf", Modules: func() { kmod.Load(log, kmod.Links) }}
	if f.asks() && f.AskDHCP {
		m.BootClass = agentapi.BootClass
	}
	var err error
	if m.Given, err = netup.ReadGiven(networkData); err != nil {
		return nil, fmt.Errorf("the network_data that the medium has brought: %w", err)
	}
	failed := make(chan error, 1)
	crew.Go(func() { failed <- m.Run(ctx) })
	select {
	case <-m.Ready():
		return m, nil
	case err := <-failed:
		return nil, err
	case <-time.After(session.LookupFor):
		return nil, fmt.Errorf("no address within %v on any interface: check cables, VLAN, the rack's DHCP server and the node's network_data", session.LookupFor)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func macsOf(m inventory.Machine) []string {
	var out []string
	for _, n := range m.NICs() {
		out = append(out, n.MACAddress)
	}
	return out
}
