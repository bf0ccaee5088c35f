package conductor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/answer"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/outbound"
	"github.com/ironyard/ironyard/rackd/view"
)

// shelf is a bus in memory, with compare-and-set, shared by several conductors.
type shelf struct {
	mu         sync.Mutex
	nodes      map[string]*node.Document
	works      map[string]*view.Work
	rev        uint64
	events     []work.Event
	again      []string   // ids of events that came again
	cut        bool       // the bus does not answer
	noDrives   int        // how often it gives no config drive
	lostDrives int        // … because it has lost it
	requestID  string     // of the requests that follow
	unseen     *view.Work // work that the bus has, and no conductor has seen yet
	watch      []*Conductor
	alive      atomic.Value          // name of a rackd that lives besides the owner
	memory     map[string]*view.Work // what one rackd, by name, sees otherwise than the others
	// mute: events are taken, and their publishers do not hear of it.
	mute bool
	// onPublish, if set, is called with each event, with mu held
	onPublish func(work.Event)
}

// eyes are how one rackd sees the shelf.
type eyes struct {
	*shelf
	name string
}

func (e eyes) Work(id string) *view.Work {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.memory[e.name]; w != nil && e.works[id] != nil && e.works[id].Revision == w.Revision {
		return w
	}
	return e.works[id]
}

func newShelf() *shelf {
	return &shelf{nodes: map[string]*node.Document{}, works: map[string]*view.Work{}}
}

func (s *shelf) Node(id string) *node.Document { s.mu.Lock(); defer s.mu.Unlock(); return s.nodes[id] }

// put changes a node's document while conductors run.
func (s *shelf) put(n *node.Document) { s.mu.Lock(); defer s.mu.Unlock(); s.nodes[n.UUID] = n }

func (s *shelf) Kind(id string) (driver, group string, known bool) {
	if n := s.Node(id); n != nil {
		return n.Driver, n.Group, true
	}
	return "", "", false
}

// Deleted holds for all that is not there: a shelf has all groups.
func (s *shelf) Deleted(id string) bool { return s.Node(id) == nil }

func (s *shelf) Work(id string) *view.Work { s.mu.Lock(); defer s.mu.Unlock(); return s.works[id] }
func (s *shelf) Nodes() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.nodes {
		ids = append(ids, id)
	}
	return ids
}

func (s *shelf) NodeByMAC(mac string) *node.Document {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.HasMAC(mac) {
			return n
		}
	}
	return nil
}

func (s *shelf) UpdateWork(_ context.Context, d work.Document, rev uint64) (uint64, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return 0, err
	}
	var copied work.Document
	if err := json.Unmarshal(body, &copied); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer func() { s.mu.Unlock(); s.tell(d.Node) }()
	if s.cut {
		return 0, errors.New("no route to the bus")
	}
	if len(body) > bus.MaxMessage {
		return 0, fmt.Errorf("write work %s: %w", d.ID, bus.ErrTooLarge)
	}
	if old := s.works[d.Node]; old == nil && rev != 0 || old != nil && old.Revision != rev {
		return 0, view.ErrConflict
	}
	s.rev++
	s.works[d.Node] = &view.Work{Doc: copied, Revision: s.rev}
	return s.rev, nil
}

// RefreshWork brings what the conductors have not seen yet; else they read the shelf itself.
func (s *shelf) RefreshWork(_ context.Context, _, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cut:
		return errors.New("no route to the bus")
	case s.unseen != nil:
		s.works[id], s.unseen = s.unseen, nil
	case s.works[id] == nil:
		return view.ErrNoWork
	}
	return nil
}

func (s *shelf) Publish(_ context.Context, e work.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return errors.New("no route to the bus")
	}
	if body, err := json.Marshal(e); err != nil || len(body) > bus.MaxMessage {
		return fmt.Errorf("publish event %s: %w", e.ID, cmp.Or(err, bus.ErrTooLarge))
	}
	for _, old := range s.events {
		if e.ID != "" && old.ID == e.ID {
			s.again = append(s.again, e.ID)
			return s.confirmed()
		}
	}
	s.events = append(s.events, e)
	if s.onPublish != nil {
		s.onPublish(e)
	}
	return s.confirmed()
}

// confirmed is what a publisher hears of an event that was taken. mu is held.
func (s *shelf) confirmed() error {
	if s.mute {
		return context.DeadlineExceeded
	}
	return nil
}

// ConfigDrive returns what is kept under the name, sealed.
func (s *shelf) ConfigDrive(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lostDrives > 0 {
		s.lostDrives--
		return "", fmt.Errorf("read config drive %s: %w", name, view.ErrDriveLost)
	}
	if s.noDrives > 0 {
		s.noDrives--
		return "", errors.New("no route to the bus")
	}
	return testKey.Seal(seal.Label{Kind: seal.SentDrive, Of: nodeA, Work: s.works[nodeA].Doc.Root()}, name), nil
}

// lose has the next so many readings of a config drive find none.
func (s *shelf) lose(readings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostDrives = readings
}

func (s *shelf) tell(id string) {
	for _, c := range s.watch {
		c.NodeChanged(id)
	}
}

// request puts work on the shelf as central's relay does.
func (s *shelf) request(id string, v work.Verb, entry provision.State, args work.Args) string {
	s.mu.Lock()
	n := *s.nodes[id]
	n.Generation++
	n.State = entry
	s.nodes[id] = &n
	target := provision.TargetOf(entry, provision.Event(v), "")
	d := work.Document{ID: fmt.Sprintf("work-%d", n.Generation), Node: id, Generation: n.Generation, Verb: v, Args: args, RequestID: s.requestID,
		Requested: time.Now(), Entry: entry, EntryTarget: target}
	d.Sign(testKey)
	if old := s.works[id]; old != nil {
		d.Epoch = old.Doc.Epoch + 1
	}
	s.rev++
	s.works[id] = &view.Work{Doc: d, Revision: s.rev}
	s.mu.Unlock()
	s.tell(id)
	return d.ID
}

// states lists the provision states that events reported, repeats left out.
func (s *shelf) states() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind != work.StateChanged && e.Kind != work.WorkEnded {
			continue
		}
		if st := string(e.State); len(out) == 0 || out[len(out)-1] != st {
			out = append(out, st)
		}
	}
	return out
}

// members is a ring of which the test names the owner.
type members struct {
	owner *atomic.Value // string
	alive *atomic.Value // string: lives besides the owner
	held  atomic.Bool
	// paused: the lease is over, and this machine's clocks do not know
	paused     atomic.Bool
	confirming atomic.Pointer[func()] // what happens while the bus is asked
	age        atomic.Int64
	// lease grows when it has ended and another has begun
	lease atomic.Uint64
	// unsettled: the lease has just begun
	unsettled  atomic.Bool
	incomplete atomic.Value // time.Time
	// elsewhere, if set, is the lease that a namesake in another group holds.
	elsewhere atomic.Value // string
}

func (m *members) Elsewhere(lease string) bool {
	held, _ := m.elsewhere.Load().(string)
	return held != "" && held == lease
}

func (m *members) Check() error {
	if m.held.Load() {
		return nil
	}
	return errors.New("lease expired")
}

// Confirm is what the bus says, which a paused machine's own clocks do not.
func (m *members) Confirm() error {
	if during := m.confirming.Load(); during != nil {
		(*during)()
	}
	if m.paused.Load() {
		return errors.New("the bus has another lease")
	}
	return m.Check()
}
func (m *members) ID() string                          { return fmt.Sprintf("lease %d", m.lease.Load()) }
func (m *members) Age() time.Duration                  { return time.Duration(m.age.Load()) }
func (m *members) Owner(string, string, string) string { return m.owner.Load().(string) }

// Ended: who is not the owner is dead, unless the test says otherwise.
func (m *members) Ended(name, _, _ string, _ time.Time) bool {
	alive, _ := m.alive.Load().(string)
	return m.Check() == nil && !m.unsettled.Load() && name != m.owner.Load().(string) && name != alive
}

// Incomplete: somebody is away, until the moment that the test says.
func (m *members) Incomplete(_ string, away, _ time.Duration) bool {
	until, _ := m.incomplete.Load().(time.Time)
	return away > 0 && time.Now().Before(until)
}
func (*members) LastSeen(string) (time.Time, bool) { return time.Now().Add(-time.Second), true }

type noMetrics struct{}

func (noMetrics) WorkTaken(work.Verb)                      {}
func (noMetrics) WorkEnded(work.Verb, bool, time.Duration) {}
func (noMetrics) StepRan(string, time.Duration, error)     {}
func (noMetrics) Fenced()                                  {}
func (noMetrics) OwnedWork(int)                            {}
func (noMetrics) TakenOver(time.Duration)                  {}
func (noMetrics) Released()                                {}
func (noMetrics) Forged(string)                            {}
func (noMetrics) AgentRefused(string, string)              {}

// machine is a hardware type whose steps the test scripts. It counts writes.
type machine struct {
	prepared  int // for boots into the ramdisk
	mu        sync.Mutex
	power     driver.PowerState
	writes    []string
	deploy    []driver.Step
	clean     []driver.Step
	teardown  []driver.Step
	invalid   error
	identity  driver.Identity
	silent    error               // instead of the identity
	asked     int                 // how often for it
	cleanedUp int                 // how often its ramdisk
	media     bool                // its ramdisk comes from a medium and not by the network
	targets   []driver.PowerState // of its power interface; none: all
	onPower   func(target driver.PowerState)
	onRead    func()       // of the power
	readErr   func() error // what a read of the power answers, if set
	// powerErr, if set, is what a write of power answers; the write happens if does says so
	powerErr func(target driver.PowerState) (err error, does bool)
}

func (*machine) Properties() map[string]string   { return map[string]string{"x": "a field"} }
func (m *machine) Validate(*node.Document) error { return m.invalid }
func (m *machine) PowerState(context.Context, *node.Document) (driver.PowerState, error) {
	if m.onRead != nil {
		m.onRead()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readErr != nil {
		if err := m.readErr(); err != nil {
			return "", err
		}
	}
	return m.power, nil
}

// written is what was written to the machine so far.
func (m *machine) written() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.writes)
}

func (m *machine) SetPower(_ context.Context, f driver.Fence, _ *node.Document, s driver.PowerState) error {
	if err := f.Check(); err != nil {
		return err
	}
	if !slices.Contains(m.PowerTargets(), s) {
		return fmt.Errorf("it cannot be switched to %s: %w", s, driver.ErrUnsupported)
	}
	if m.onPower != nil {
		m.onPower(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, fmt.Sprintf("power %s epoch %d", s, f.Epoch()))
	if m.powerErr != nil {
		if err, does := m.powerErr(s); err != nil || !does {
			return err
		}
	}
	if s == driver.SoftPowerOff {
		s = driver.PowerOff
	}
	if s == driver.Rebooting || s == driver.SoftReboot {
		s = driver.PowerOn
	}
	m.power = s
	return nil
}
func (m *machine) PowerTargets() []driver.PowerState {
	if len(m.targets) > 0 {
		return m.targets
	}
	return []driver.PowerState{driver.PowerOn, driver.PowerOff, driver.Rebooting, driver.SoftReboot, driver.SoftPowerOff}
}
func (*machine) SupportedBootDevices(context.Context, *node.Document) ([]driver.BootDevice, error) {
	return []driver.BootDevice{driver.BootPXE}, nil
}
func (*machine) BootDevice(context.Context, *node.Document) (ask.BootDevice, error) {
	return ask.BootDevice{Device: "pxe"}, nil
}
func (m *machine) SetBootDevice(_ context.Context, f driver.Fence, _ *node.Document, d driver.BootDevice, _ bool) error {
	if err := f.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, "boot "+string(d))
	return nil
}
func (*machine) BootMode(context.Context, *node.Document) (string, error) {
	return "", driver.ErrUnsupported
}
func (*machine) SetBootMode(context.Context, driver.Fence, *node.Document, string) error {
	return driver.ErrUnsupported
}
func (m *machine) Identity(context.Context, *node.Document) (driver.Identity, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return m.identity, m.silent
}
func (*machine) InjectNMI(context.Context, driver.Fence, *node.Document) error { return nil }
func (m *machine) PrepareRamdisk(context.Context, *driver.Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prepared++
	return nil
}
func (m *machine) CleanUpRamdisk(context.Context, *driver.Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanedUp++
	return nil
}
func (*machine) PrepareInstance(context.Context, *driver.Task) error { return nil }
func (*machine) CleanUpInstance(context.Context, *driver.Task) error { return nil }
func (m *machine) DeploySteps(*node.Document) []driver.Step          { return m.deploy }
func (m *machine) NamedSteps(*node.Document) []driver.Step           { return m.clean }
func (m *machine) TearDownSteps(*node.Document) []driver.Step        { return m.teardown }

type noAgent struct{ state func() *work.Agent }

func (a noAgent) Booted(since time.Time) bool {
	s := a.state()
	return s != nil && s.LastSeen.After(since)
}
func (noAgent) Host() string { return "" }
func (noAgent) Start(context.Context, driver.Fence, string, string, any) (agentapi.Command, error) {
	return agentapi.Command{}, driver.ErrUnreachable
}
func (noAgent) Call(context.Context, driver.Fence, string, string, any) (agentapi.Command, error) {
	return agentapi.Command{}, driver.ErrUnreachable
}
func (noAgent) Command(context.Context, string) (agentapi.Command, bool, error) {
	return agentapi.Command{}, false, driver.ErrUnreachable
}

func (noAgent) Commands(context.Context) ([]agentapi.Command, error) {
	return nil, driver.ErrUnreachable
}

// Times and tries of the runner, which tests wait for.
const (
	graceAfterTake = time.Minute
	identityTries  = 2
	identityWithin = 30 * time.Second
	rivalPause     = 2 * time.Second
	saveEvery      = 2 * time.Second
)

const nodeA = "11111111-1111-4111-8111-111111111111"

var testKey, _ = seal.NewKey(make([]byte, 32))

// conductorOn starts a conductor on the shelf and returns a function that kills it
// the way a crash does: nothing is written any more.
func conductorOn(t *testing.T, s *shelf, name string, owner *atomic.Value, m *machine, change func(*Config)) (*Conductor, *members, func()) {
	t.Helper()
	named := []driver.Named{{Name: "m", Impl: m}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
		"power": named, "management": named, "boot": named, "deploy": named}})
	if err != nil {
		t.Fatal(err)
	}
	ms := &members{owner: owner, alive: &s.alive}
	ms.held.Store(true)
	cfg := Config{Name: name, Documents: eyes{s, name}, Members: ms, Reach: byAddress, Hardware: reg, Keys: seal.NewKeyring("", testKey), Metrics: noMetrics{},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), AutomatedClean: true,
		NewAgent:   func(_ string, _ func() []string, state func() *work.Agent) driver.Agent { return noAgent{state} },
		AgentLives: func(context.Context, work.Agent) bool { return false }}
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	s.mu.Lock()
	s.watch = append(s.watch, c)
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	return c, ms, func() { cancel(); <-done }
}

// answersOf returns what answers central's questions at the rackd of c.
func answersOf(c *Conductor) *answer.Desk {
	return answer.New(answer.Config{Name: c.cfg.Name, Documents: c.cfg.Documents, Members: c.cfg.Members, Hardware: c.cfg.Hardware, Conductor: c, Agents: c})
}

func oneNode(s *shelf) {
	s.nodes[nodeA] = &node.Document{UUID: nodeA, Driver: "t", State: provision.Available,
		Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}}
}

func owned(by string) *atomic.Value {
	v := &atomic.Value{}
	v.Store(by)
	return v
}

func (m *machine) RamdiskOrder(n *node.Document, facts map[string]string) bootorder.Order {
	if m.media {
		return bootorder.Refuse("it boots from a medium")
	}
	return bootorder.Ramdisk(bootorder.Load{Kernel: bootorder.File{URL: n.DriverString("deploy_kernel"), ID: facts[driver.FactKernel]}})
}

func (m *machine) InstanceOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.LocalDisk()
}

// byAddress judges the URLs that name an address: no name is looked up.
func byAddress(ctx context.Context, at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	if net.ParseIP(u.Hostname()) == nil {
		return nil
	}
	return outbound.Fetching{}.CheckURL(ctx, at)
}
