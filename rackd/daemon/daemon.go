// Package daemon wires a rackd together: lease, view, conductor, netboot, the
// agents' door and the image cache, each with its listener, under one context.
//
// It may import all of rackd and protocol. It decides nothing.
package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/heap"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/rackd/agentclient"
	"github.com/ironyard/ironyard/rackd/agentdoor"
	"github.com/ironyard/ironyard/rackd/answer"
	"github.com/ironyard/ironyard/rackd/bmcevents"
	"github.com/ironyard/ironyard/rackd/bootguard"
	"github.com/ironyard/ironyard/rackd/bootmedium"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/console"
	"github.com/ironyard/ironyard/rackd/consolebus"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/drivers"
	"github.com/ironyard/ironyard/rackd/failover"
	"github.com/ironyard/ironyard/rackd/forward"
	"github.com/ironyard/ironyard/rackd/imagecache"
	"github.com/ironyard/ironyard/rackd/imagemirror"
	"github.com/ironyard/ironyard/rackd/lease"
	"github.com/ironyard/ironyard/rackd/metrics"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/netboot/bootscript"
	"github.com/ironyard/ironyard/rackd/netboot/boottls"
	"github.com/ironyard/ironyard/rackd/netboot/mediaweb"
	"github.com/ironyard/ironyard/rackd/outbound"
	"github.com/ironyard/ironyard/rackd/periodic"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
	"github.com/ironyard/ironyard/rackd/strangers"
	"github.com/ironyard/ironyard/rackd/view"
)

// rackd is what Run holds together.
type rackd struct {
	cfg       Config
	site      *bus.Site
	groups    *failover.Groups
	lease     *lease.Lease
	view      *view.View
	conductor *conductor.Conductor
	answers   *answer.Desk // of questions of central
	hardware  *drivers.Set
	fetching  *http.Client // of what requests name
	cache     *imagecache.Cache
	stock     images
	instances *instanceFiles
	media     mediaServer
	mirror    *imagemirror.Mirror
	tasks     *periodic.Runner    // what is done for idle nodes from time to time
	events    *bmcevents.Listener // nil: BMCs are not listened to
	consoles  *console.Keeper
	// identities are what agents see, of each conductor group: this rackd's and those that
	// it stands in for.
	identities *agentdoor.Identities
	registry   *prometheus.Registry
	netboot    *netboot.Metrics
	strangers  *strangers.Gate
	// scriptLines counts the lines about machines that ask for boot scripts, at any face.
	scriptLines *strangers.LineCount
	leases      leases
	desk        *forward.Desk
	ramdisks    *rackramdisk.Shelf // nil: this rackd boots no machines
	files       *bootfiles.Files
	loader      *bootmedium.Loader // nil: this rackd boots no machines
	// firmwareTLS is what firmware is served with; nil: it is served by HTTP.
	firmwareTLS *tls.Config
	// opened is closed when the site's bus is open; waits is why it is not yet, for health.
	opened chan struct{}
	waits  atomic.Pointer[string]
	// stopped is closed when the conductor has stopped: only then is the lease given up.
	stopped chan struct{}
}

// Run runs a rackd until ctx ends; ready is called once it serves its nodes. An
// error says which part could not go on.
func Run(ctx context.Context, cfg Config, ready func()) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	r := &rackd{cfg: cfg, registry: prometheus.NewRegistry(), opened: make(chan struct{}), stopped: make(chan struct{})}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// What is wrong on this machine is told at once, and health from here on, also while
	// the bus is away.
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.loader != nil {
		defer r.loader.Close()
	}
	defer r.fetching.CloseIdleConnections()
	defer r.closeSessions()
	g, ctx := errgroup.WithContext(ctx)
	if cfg.Observe != "" {
		l, err := net.Listen("tcp", cfg.Observe)
		if err != nil {
			return fmt.Errorf("listen for metrics: %w", err)
		}
		g.Go(func() error { return observe(ctx, l, r.registry, r.checks, cfg.Log) })
	}
	g.Go(func() error {
		if err := r.build(ctx); err != nil {
			return err
		}
		close(r.opened)
		l, err := r.listen(ctx)
		if err != nil {
			return err
		}
		r.start(ctx, g, l)
		defer close(r.stopped)
		if err := r.synced(ctx); err != nil {
			return nil // ctx has ended
		}
		heap.Release() // what reading all documents took
		if ready != nil {
			ready()
		}
		cfg.Log.Info("rackd serves", "rackd", cfg.Name, "group", cfg.Group, "nodes", len(r.view.Nodes()))
		return r.conductor.Run(ctx)
	})
	return g.Wait()
}

// machinesInterface is the network interface that reaches the rack's machines, empty for a rackd that boots none.
func machinesInterface(c Config) string {
	if c.Rack == nil {
		return ""
	}
	return c.Rack.Interface
}

// prepare makes what needs no bus.
func (r *rackd) prepare(ctx context.Context) (err error) {
	c := r.cfg
	var media func(mode string) error
	var paths bootfiles.Paths
	var ramdisks ownramdisk.Rack
	if k := c.Rack; k != nil {
		paths = bootfiles.Paths{Kernel: k.Kernel, Ramdisk: k.Ramdisk, RescueRamdisk: k.RescueRamdisk, UKI: k.UKI, RescueUKI: k.RescueUKI,
			UKIARM64: k.UKIARM64, RescueUKIARM64: k.RescueUKIARM64, Loaders: k.Loaders}
		if r.ramdisks, err = rackramdisk.New(paths, k.Ramdisks); err != nil {
			return err
		}
		ramdisks, paths.More = r.ramdisks, r.ramdisks.More()
		r.loader = bootmedium.FindLoader(ctx)
		media = r.loader.Problem
		for _, mode := range []string{bootmedium.UEFI, bootmedium.BIOS} {
			if err := r.loader.Problem(mode); err != nil {
				c.Log.Info("this rackd makes no bootable media for a boot mode; machines that boot from the network need none", "boot_mode", mode, "error", err)
			}
		}
	}
	hardware, err := drivers.Open(drivers.Options{Enabled: c.Drivers, Fake: c.Fake, BMCTimeout: c.BMCTimeout, BMCPace: c.BMCPace, BMCs: c.BMCs, Fetching: c.Fetching,
		CAFolder: namedfile.Folder(c.CAFolder), AnsibleFolder: c.AnsibleFolder, Recovery: c.PowerRecovery, Ramdisks: ramdisks, Interface: machinesInterface(c), Media: media, HTTPS: c.Rack != nil && c.Rack.face().https() != "", ISCSIPort: c.ISCSIPort,
		Calls: metrics.NewBMC(r.registry), Log: c.Log})
	if err != nil {
		return err
	}
	r.hardware = hardware
	if r.identities, err = agentdoor.NewIdentities(c.Keys, c.Group, c.Log); err != nil {
		return err
	}
	r.fetching = outbound.Client(c.Fetching)
	r.netboot = netboot.NewMetrics(r.registry)
	r.strangers = strangers.New(c.Strangers, r.netboot.StrangerRefused, c.Log)
	r.scriptLines = r.strangers.Lines(bootscript.Door)
	if c.Rack == nil {
		c.Log.Info("this rackd boots no machines, for it has no --interface: it can read and switch their power, and deploys none")
		return nil
	}
	if c.Rack.HTTPS.Certificate != "" {
		var at []netip.Addr
		for _, f := range c.Rack.faces() {
			at = append(at, f.address)
		}
		if r.firmwareTLS, err = boottls.Open(c.Rack.HTTPS, at, c.Log); err != nil {
			return err
		}
	}
	if r.files, err = bootfiles.New(c.Rack.BootPrograms, paths); err != nil {
		return err
	}
	r.cache, err = imagecache.Open(imagecache.Config{Dir: filepath.Join(c.DataDir, "images"), MaxBytes: c.CacheBytes,
		AllowedDirs: c.ImageDirs, PlainRegistries: c.PlainRegistries, Client: r.fetching, Log: c.Log, Registerer: r.registry})
	return err
}

// build waits for the bus and puts together what works on it.
func (r *rackd) build(ctx context.Context) (err error) {
	c := r.cfg
	if err := connected(ctx, c.Conn); err != nil {
		return err
	}
	if r.site, err = bus.Open(ctx, c.Conn, c.Site, bus.Settings{OpenOnly: c.OpenOnly, Waiting: func(err error) {
		if said := r.waits.Swap(new(err.Error())); said == nil || *said != err.Error() {
			c.Log.Warn("the site's bus is not ready yet, trying again", "error", err)
		}
	}}); err != nil {
		return err
	}
	self := bus.Member{Name: c.Name, Group: c.Group, Version: release.Version, Documents: node.Format, Drivers: r.hardware.Describe()}
	if c.Rack != nil {
		self.BootURL, self.BootTLSURL, self.AgentURL = c.Rack.face().http(), c.Rack.face().https(), c.Rack.face().agents()
		if f := c.Rack.face6(); f.address.IsValid() {
			self.BootURL6, self.AgentURL6 = f.http(), f.agents()
		}
		for _, f := range c.Rack.furtherFaces() {
			self.Further = append(self.Further, bus.MemberURLs{AgentURL: f.agents(), BootURL: f.http()})
		}
	}
	// The conductor is told of changes by lease and view, and asks them what they know.
	r.groups = failover.New(r.site, c.Group, func() { r.view.Regroup(); r.ringChanged() }, c.Log)
	m := metrics.New(r.registry, metrics.Sources{LeaseAge: func() time.Duration { return r.lease.Age() }, Members: func() int { return len(r.lease.Members()) },
		Share: r.share, Consoles: r.held, LateKeys: r.lateNodes})
	r.view = view.New(r.site, c.Keys, r.groups, m, r.nodeChanged, c.Log)
	r.lease = lease.New(r.site, self, r.groups, r.view.InStep, r.ringChanged, c.Log)
	r.lease.Needs(r.view.Need)
	r.lease.Keys(c.Keys.IDs)
	bus.Attend(c.Conn, c.Log, m.Overflowed)
	r.site.Refused = m.Refused
	r.site.Trouble = func(bucket string, err error) {
		c.Log.Warn("reading a bucket again from its beginning", "bucket", bucket, "error", err)
		m.Reread(bucket)
	}
	cc := conductor.Config{Name: c.Name, Group: c.Group, Documents: r.view, Members: r.lease, Hardware: r.hardware.Registry, Images: noImages{}, Reach: c.Fetching.CheckURL,
		Keys: c.Keys, NewAgent: newAgent, AgentLives: agentclient.Lives, TrustFirstLookup: c.TrustFirstLookup, BuildDrive: drives(r.fetching), Metrics: m, Started: func(node string) { r.tasks.Hasten(bootguard.Name, node, bootguard.AfterStart) }, Log: c.Log, Deadlines: c.Deadlines, HeartbeatTimeout: c.HeartbeatTimeout,
		AutomatedClean: !c.NoAutomatedClean, CleanPriorities: c.CleanPriorities, VerifyPriorities: c.VerifyPriorities}
	if r.cache != nil {
		r.stock = images{r.cache, c.Rack.bases(), c.Rack.furtherFaces(), imageCodes{c.Keys, c.Group}, r.partners}
		r.instances = &instanceFiles{ensure: r.cache.Ensure, holds: r.cache.Ready, log: c.Log, tries: map[string]*try{}}
		cc.Images = r.stock
		r.media = mediaServer{r.loader, c.Rack.face().http(), c.Rack.face().https(), c.Keys, r.lease.Members, r.groups.Serves,
			func(m mediaweb.Medium) error { return mediaweb.Check(r.mediaConfig(), m) }, r.firmwareCertificates}
		cc.Media = r.media
		cc.Leases = &r.leases
		cc.TellOwner = func(owner, group string, s ask.Sign) { r.desk.TellOwner(owner, group, s) }
		r.mirror = imagemirror.New(imagemirror.Config{Name: c.Name, Documents: r.view, Neighbours: r.partners, Copy: r.stock.Copy, Log: c.Log})
	}
	r.conductor = conductor.New(cc)
	r.consoles = console.New(console.Config{Name: c.Name, Nodes: r.conductor, Documents: r.view, Members: r.lease, Hardware: r.hardware.Registry, Metrics: m,
		Copies: consolebus.New(r.site, c.Keys, c.Log), Log: c.Log})
	ac := answer.Config{Name: c.Name, Documents: r.view, Members: r.lease, Hardware: r.hardware.Registry, Conductor: r.conductor, Agents: r.conductor, Consoles: r.consoles}
	if r.cache != nil {
		ac.BootScript = r.bootScript
	}
	r.answers = answer.New(ac)
	r.tasks = periodic.New(r.conductor, m, c.Log)
	r.addTasks(m)
	r.desk = &forward.Desk{Local: r.conductor, Members: r.lease, Conn: c.Conn, Metrics: m}
	return nil
}

// share is the conductor's share of the nodes and their work, nothing until there is one.
func (r *rackd) share() metrics.Share {
	select {
	case <-r.opened:
		return metrics.Share(r.conductor.Share())
	default:
		return metrics.Share{}
	}
}

// held counts the consoles that are held and open, none until there are any.
func (r *rackd) held() (all, open int) {
	select {
	case <-r.opened:
		return r.consoles.Held()
	default:
		return 0, 0
	}
}

// ringChanged tells those who act on nodes that some may have changed their owner.
func (r *rackd) ringChanged() {
	r.conductor.RingChanged()
	r.consoles.RingChanged()
}

// nodeChanged hands a change of a node's documents to those who act on it.
func (r *rackd) nodeChanged(id string) {
	r.conductor.NodeChanged(id)
	r.consoles.NodeChanged(id)
	if r.mirror != nil {
		r.mirror.NodeChanged(id)
	}
	r.tasks.NodeChanged(id)
}

func (r *rackd) start(ctx context.Context, g *errgroup.Group, l listeners) {
	g.Go(func() error { return r.groups.Run(ctx) })
	g.Go(func() error { return r.view.Run(ctx) })
	g.Go(func() error {
		// Announced only when the view is complete: nobody is given work blindly.
		select {
		case <-r.view.Synced():
			return r.lease.Run(r.leaseEnd(ctx))
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error { return r.holdConsoles(ctx) })
	g.Go(func() error {
		return answerQuestions(ctx, r.cfg.Conn, r.cfg.Group, r.cfg.Name, r.cfg.Keys.Groups(), r.answers, r.cfg.Log)
	})
	if r.cfg.RenewKeys != nil {
		g.Go(func() error { return r.keepKeys(ctx) })
	}
	g.Go(func() error { return r.tasks.Run(ctx) })
	if r.events != nil {
		g.Go(func() error { return r.events.Run(ctx) })
	}
	if r.cfg.Rack != nil {
		r.serveMachines(ctx, g, l)
	}
}

// holdConsoles holds consoles once the view and the ring are complete.
func (r *rackd) holdConsoles(ctx context.Context) error {
	if r.synced(ctx) != nil {
		return nil // ctx has ended
	}
	return r.consoles.Run(ctx)
}

// handOverWithin bounds how long a rackd that stops keeps its lease, so that what its
// conductor had begun at a BMC is over before another rackd goes on. What its consoles
// wrote last is on the bus by then, too.
const handOverWithin = 700 * time.Millisecond

// leaseEnd returns the context of the lease: it ends after the conductor has stopped, and the consoles' logs have been copied.
func (r *rackd) leaseEnd(ctx context.Context) context.Context {
	held, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer end()
		late := time.After(handOverWithin)
		for _, c := range []<-chan struct{}{r.stopped, r.consoles.Copied()} {
			select {
			case <-c:
			case <-late:
				return
			}
		}
	})
	return held
}

// synced waits until the view and the ring are complete.
func (r *rackd) synced(ctx context.Context) error {
	for _, c := range []<-chan struct{}{r.view.Synced(), r.lease.Synced()} {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// closeSessions logs out of the BMCs, whose sessions are few.
func (r *rackd) closeSessions() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := r.hardware.Close(ctx); err != nil {
		r.cfg.Log.Debug("sessions on BMCs left to expire", "error", err)
	}
}

// connected waits until the bus has answered: rackd may be started before it.
func connected(ctx context.Context, conn *nats.Conn) error {
	changed := conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer conn.RemoveStatusListener(changed)
	for !conn.IsConnected() {
		if conn.IsClosed() {
			return bus.Away(conn)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// checks says why rackd is unhealthy.
func (r *rackd) checks() []check {
	list := []check{{Name: "bus", OK: true}, {Name: "lease", OK: true}, {Name: "view", OK: true}}
	if err := bus.Away(r.cfg.Conn); err != nil {
		list[0] = check{Name: "bus", Why: err.Error()}
	}
	select {
	case <-r.opened:
	default:
		why := "the site's bus has not been opened yet"
		if said := r.waits.Load(); said != nil {
			why += ": " + *said
		}
		list[1], list[2] = check{Name: "lease", Why: why}, check{Name: "view", Why: why}
		return list
	}
	if err := r.lease.Check(); err != nil {
		list[1] = check{Name: "lease", Why: err.Error()}
	}
	select {
	case <-r.view.Synced():
	default:
		list[2] = check{Name: "view", Why: "still reading the nodes from the bus"}
	}
	if n := r.view.Newer(); n > 0 && list[2].OK { // a restart would not help
		list[2].Why = fmt.Sprintf("%d nodes' documents are of a newer form than this rackd reads: others of the group serve them; upgrade this rackd", n)
	} else if why := r.lateCheck(); why != "" && list[2].OK {
		list[2].Why = why
	}
	return list
}
