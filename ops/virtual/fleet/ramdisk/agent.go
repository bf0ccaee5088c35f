// Package ramdisk is the agent of a simulated machine. Towards rackd it is the real
// one: the project's own lookup, heartbeat, command API, TLS and all. Only what its
// commands do to the machine is simulated.
//
// It may import agent, protocol and ops/virtual/fleet's own packages. Invariants: when Run has
// returned, nothing of the agent is left, neither goroutine nor listener: the power
// is off.
package ramdisk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/cmdline"
	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/commandapi"
	"github.com/ironyard/ironyard/agent/rackclient"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// version is what the agent says of itself.
const version = "simulated"

// maxRequest bounds a command's body: a config drive in base64, and some room.
const maxRequest = 8 << 20

// End is how an agent's run ended.
type End string

// The ends.
const (
	Reboot   End = "reboot"
	PowerOff End = "power off"
)

// Agent is what the ramdisk of one machine starts. Its fields are set before use;
// Run is called once at a time.
type Agent struct {
	Machine string
	MAC     string
	// Listen is where the command API is served and reached.
	Listen    netip.AddrPort
	Inventory agentapi.Inventory
	Disk      *disk.Disk
	Journal   *journal.Journal
	Pace      *pace.Pace
	Faults    *fault.Faults
	// Scratch is a folder for the disk as others write to it; empty: the machine exports none.
	Scratch string
	// Podman: the ramdisk installs containers, as those of ironic-python-agent with podman do.
	Podman bool
	// SSH: the ramdisk has an SSH server for playbooks that deploy.
	SSH bool
	Log *slog.Logger

	volume atomic.Pointer[string]
}

// Volume is the name of the target by which the agent exports its disk to another machine; empty: it does not.
func (a *Agent) Volume() string {
	if name := a.volume.Load(); name != nil {
		return *name
	}
	return ""
}

// run is one life of the agent.
type run struct {
	*Agent
	boot   string
	asked  chan End
	images *http.Client

	rootUUID string // of the partition image that was written
	exported *exported
	lent     *tgtd // to another machine
}

// Run looks the machine up, sends heartbeats and obeys commands, until ctx ends or a
// command ends the machine's run. An error other than ctx's is one with which the
// real agent would give up.
func (a *Agent) Run(ctx context.Context, commandLine string) (End, error) {
	if installs(commandLine) {
		return a.install(ctx, commandLine)
	}
	p, err := cmdline.Parse(commandLine)
	if err != nil {
		return "", err
	}
	client, err := rackclient.New(p.APIURLs, p.Fingerprint)
	if err != nil {
		return "", err
	}
	defer client.Close()
	r := &run{Agent: a, boot: uuid.NewString(), asked: make(chan End, 1)}
	if r.images, err = imageClient(p.Fingerprint); err != nil {
		return "", err
	}
	rackd := guarded{client, r}
	id, err := session.Lookup(ctx, a.Log, rackd, func() []string { return []string{a.MAC} }, p.Node, "")
	if err != nil {
		return "", err
	}
	return r.serve(ctx, rackd, id)
}

// serve is the part of the run that follows the lookup.
func (r *run) serve(ctx context.Context, rackd session.Rackd, id session.Identity) (End, error) {
	cert, pem, err := commandapi.NewCertificate(time.Now().Add(id.ClockOffset), r.Listen.Addr().AsSlice())
	if err != nil {
		return "", err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", r.Listen.String())
	if err != nil {
		return "", fmt.Errorf("serving the command API: %w", err)
	}
	runner := command.NewRunner(r.Log, r.specs()...)
	api := &commandapi.Server{Runner: runner, Token: id.Token, Version: version, StartedAt: time.Now().UTC(), Log: r.Log, Limit: maxRequest}
	server := &http.Server{
		Handler: r.noted(api.Handler()), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(r.Log.Handler(), slog.LevelDebug),
	}
	ctx, cut := context.WithCancel(ctx)
	stopSSH := func() {}
	if r.SSH {
		if stopSSH, err = r.serveSSH(ctx); err != nil {
			cut()
			return "", errors.Join(err, l.Close())
		}
	}
	served, beaten := make(chan error, 1), make(chan struct{})
	heart := &session.Heart{Log: r.Log, Rackd: rackd, Commands: runner, Identity: id, Beat: agentapi.Heartbeat{
		CallbackURL: "https://" + r.Listen.String(), AgentVersion: version, AgentToken: id.Token, AgentVerifyCA: pem, BootID: r.boot,
	}}
	go func() { served <- server.ServeTLS(l, "", "") }()
	go func() { defer close(beaten); heart.Run(ctx) }()
	defer func() {
		powered := ctx.Err() == nil
		cut()
		server.Close()
		runner.Close()
		<-beaten
		stopSSH()
		r.takeBack()
		r.abandon(powered)
	}()
	r.note(journal.AgentUp, disk.By{Boot: r.boot}, "node "+id.Node)
	select {
	case <-ctx.Done():
		server.Close()
		<-served
		return "", context.Cause(ctx)
	case err := <-served:
		return "", fmt.Errorf("serving the command API: %w", err)
	case end := <-r.asked:
		// The rackd shall hear that the command succeeded before we are gone.
		err := r.Pace.Sleep(ctx, r.Pace.Grace)
		answering, done := context.WithTimeout(ctx, lastAnswers)
		server.Shutdown(answering)
		done()
		server.Close()
		<-served
		return end, err
	}
}

// lastAnswers is how long a machine that is about to end goes on answering requests that
// have come in: the command that ends it among them.
const lastAnswers = time.Second

// end remembers the first wish to end the machine's run.
func (r *run) end(e End) error {
	select {
	case r.asked <- e:
		return nil
	default:
		return errors.New("the machine's run is ending already")
	}
}

func (r *run) note(kind journal.Kind, by disk.By, detail string) {
	r.Journal.Note(journal.Record{Machine: r.Machine, Kind: kind, Boot: by.Boot, Work: by.Work, Command: by.Command, Detail: detail})
}

// guarded is the way to the rackds through a network that a test may cut.
type guarded struct {
	session.Rackd
	run *run
}

func (g guarded) Lookup(ctx context.Context, macs []string, node string) (reply agentapi.LookupReply, date time.Time, err error) {
	if err = g.run.Faults.Network(); err == nil {
		reply, date, err = g.Rackd.Lookup(ctx, macs, node)
	}
	if err != nil && ctx.Err() == nil {
		g.run.note(journal.LookupFailed, disk.By{Boot: g.run.boot}, err.Error())
	}
	return reply, date, err
}

func (g guarded) Heartbeat(ctx context.Context, node string, h agentapi.Heartbeat) error {
	if err := g.run.Faults.Network(); err != nil {
		return err
	}
	return g.Rackd.Heartbeat(ctx, node, h)
}
