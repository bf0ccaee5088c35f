package boot

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/agent/bootloader"
	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/agent/commands"
	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/agent/diskwatch"
	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/agent/inventory"
	"github.com/ironyard/ironyard/agent/iscsitarget"
	"github.com/ironyard/ironyard/agent/kmod"
	"github.com/ironyard/ironyard/agent/logship"
	"github.com/ironyard/ironyard/agent/mapping"
	"github.com/ironyard/ironyard/agent/rackclient"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/release"
)

// parts is what serve puts together.
type parts struct {
	flags   Flags
	log     *slog.Logger
	ship    *logship.Shipper
	client  *rackclient.Client
	machine inventory.Machine
	disks   *diskwatch.Watch
	id      session.Identity
	bootID  string
	url     string // of a rackd
	rescue  *rescuer
	// stopShipping ends sending the log to rackd.
	stopShipping func()
}

// serve answers commands and sends heartbeats until ctx or the machine's run ends.
func serve(ctx context.Context, crew *crew, p parts) (End, error) {
	ip, err := advertised(p.flags.Advertise, p.url)
	if err != nil {
		return Nothing, err
	}
	cert, pem, err := commandapi.NewCertificate(time.Now().Add(p.id.ClockOffset), ip)
	if err != nil {
		return Nothing, err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", p.flags.Listen)
	if err != nil {
		return Nothing, fmt.Errorf("serving the command API: %w", err)
	}
	images, err := imageClient(p.flags.APIFingerprint, nil)
	if err != nil {
		l.Close()
		return Nothing, err
	}
	defer images.CloseIdleConnections()
	power := newPower()
	unwanted := func() {}
	deps := commands.Deps{
		Log: p.log, Power: power, Inventory: p.inventory, Logs: p.ship.Collect,
		Deployer: &deploy.Deployer{
			Machine: p.disks, Forget: p.disks.Forget, Log: p.log, EraseShared: p.flags.EraseShared, EFIVars: p.flags.EFIVars,
			Images: &image.Writer{Client: images, SpoolDir: p.flags.SpoolDir, SpoolLimit: func() int64 { return p.machine.FreeMemory() / 2 }},
		},
	}
	if p.flags.Ramdisk {
		target := &iscsitarget.Server{Log: p.log}
		defer func() {
			if err := target.Stop(); err != nil {
				p.log.Error("the iSCSI target did not end", "error", err)
			}
		}()
		deps.Rescue, deps.Deployer.Target = p.rescue, target
		unwanted = func() { // no rackd is left that would end it
			crew.Go(func() {
				if err := target.Stop(); err != nil {
					p.log.Error("the iSCSI target of work that is over did not end", "error", err)
				}
			})
		}
		if err := bootloader.Release(); err != nil {
			p.log.Error("a disk stays in use until the machine starts again", "error", err)
		}
		deps.Deployer.FileSystems = func() { kmod.Load(p.log, kmod.FileSystems) }
		deps.Deployer.Mappings = mapping.Kernel{}
		if container.There(container.Folder) {
			deps.Deployer.Containers, deps.Deployer.ContainerModules = &container.Engine{Root: container.Folder, Log: p.log}, func() { kmod.Load(p.log, kmod.Containers) }
		}
	}
	runner := command.NewRunner(p.log, commands.All(deps)...)
	defer runner.Close()
	api := &commandapi.Server{Runner: runner, Token: p.id.Token, Version: release.Version, StartedAt: time.Now().UTC(), Log: p.log}
	server := &http.Server{
		Handler: api.Handler(), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	crew.Go(func() { served <- server.ServeTLS(l, "", "") })
	callback := "https://" + net.JoinHostPort(ip.String(), strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	p.log.Info("ready for commands", "callback_url", callback, "node", p.id.Node)

	beating, stopBeating := context.WithCancel(ctx)
	heart := &session.Heart{Log: p.log, Rackd: p.client, Commands: runner, Identity: p.id, Beat: agentapi.Heartbeat{
		CallbackURL: callback, AgentVersion: release.Version, AgentToken: p.id.Token, AgentVerifyCA: pem, BootID: p.bootID,
	}}
	told := newTold()
	heart.Told, heart.Refused, heart.Unwanted = told.note, rackclient.Refused, unwanted
	beat := make(chan struct{})
	crew.Go(func() { defer close(beat); heart.Run(beating) })
	defer func() {
		stopBeating()
		<-beat
		server.Close()
	}()
	select {
	case <-ctx.Done():
		return Nothing, nil
	case err := <-served:
		return Nothing, fmt.Errorf("serving the command API: %w", err)
	case <-p.rescue.begun:
		p.log.Info("rescue: no heartbeats any more, and soon no commands")
		stopBeating()
		p.stopShipping()
		if end := p.rescue.linger(ctx, p.flags.TokenFile, power.asked); end != Nothing {
			return end, nil
		}
		server.Close()
		<-ctx.Done()
		return Nothing, nil
	case end := <-power.asked:
		p.log.Info("the machine's run ends", "by", end)
		told.await(ctx, runner)
		answerAll(ctx, server)
		return end, nil
	}
}

// inventory takes the inventory once all disks are there: later boots are compared with it.
func (p parts) inventory(ctx context.Context) (agentapi.Inventory, error) {
	if _, err := p.disks.Settled(ctx, false, func([]agentapi.Disk, []agentapi.UnfitDisk) error { return nil }); err != nil {
		return agentapi.Inventory{}, err
	}
	return p.machine.Read(), nil
}

// advertised is the address by which the rackd reaches us: the one from which we
// reach it.
func advertised(given, rackd string) (net.IP, error) {
	if given != "" {
		if ip := net.ParseIP(given); ip != nil {
			return ip, nil
		}
		return nil, fmt.Errorf("--advertise %q is not an IP address", given)
	}
	u, err := url.Parse(rackd)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	// Connecting a UDP socket sends nothing; it only asks the routing table.
	c, err := net.DialTimeout("udp", net.JoinHostPort(u.Hostname(), port), 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("finding the address that reaches %s: %w", rackd, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP, nil
}
