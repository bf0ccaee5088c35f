package conductor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/failpoint"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// stage is a machine whose interfaces do what those of the product do, as far as power, boot
// and media are concerned, and on which one step may be told to fail.
type stage struct {
	*machine
	fails   string        // the step that fails, as soon as it has done its part
	once    bool          // … once
	hangs   string        // the step that never ends
	uncut   string        // the step that an abort must not cut short
	stuck   time.Duration // for so long its BMC takes no order of power, and then refuses it
	network bool          // the ramdisk comes from the network, and no medium is inserted
	noBoot  bool          // its boot interface refuses the node's fields, and no other does
	deaf    bool          // its system does not hear that it is to switch itself off
	faults  faults
	runs    string // what the machine runs, empty when it is off
	moved   bool   // its power was written
	medium  string // the ramdisk's: "in", "out", or empty where nobody has put it in
	gets    string // what a boot gets: "ramdisk", "instance", or empty
	readied bool   // the ramdisk was prepared
	taken   bool   // the instance's boot was taken back
	live    live   // what its instance is
	told    string // what makes it boot its instance (the CD, the volume's target, the disk as boot device): "in", "out", or empty
	begun   bool   // this flow has made it so, or has begun to
	rescued bool   // a rescue before has left the machine in the ramdisk
	cleaned int    // how often it was cleaned up since
	pulled  bool   // a medium was taken out of a machine that ran from it
}

// live is what an instance is that is no image on the machine's disk: no ramdisk is booted to deploy it.
type live string

const (
	onCD     live = "CD"
	onVolume live = "volume"
)

// faults are those of a BMC once the machine runs the ramdisk, or a live instance that the flow has started.
type faults struct {
	staysOn int  // how many orders to switch off it refuses
	keeps   int  // how many orders to eject the medium, or to take the boot back, it refuses
	lost    bool // the first order to switch off is obeyed, and its answer is lost
}

// byMedium is the stage's boot interface where the ramdisk is a medium.
type byMedium struct{ *stage }

func (byMedium) BootsFromMedium() bool { return true }

func (b byMedium) InstanceOnMedium(*node.Document, map[string]string) bool { return b.live == onCD }

func (b byMedium) Validate(*node.Document) error {
	if b.noBoot {
		return driver.ErrInvalid
	}
	return b.invalid
}

func (s *stage) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactReadied] = "yes" // as bringup does
	if err := t.Fence.Check(); err != nil {
		return err
	}
	t.Facts[driver.FactBoot], s.gets, s.readied, s.cleaned = driver.BootRamdisk, "ramdisk", true, 0
	if !s.network {
		s.medium = "in"
	}
	return nil
}

func (s *stage) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	if err := t.Fence.Check(); err != nil {
		return err
	}
	s.cleaned++
	if s.faults.keeps > 0 {
		s.faults.keeps--
		return errors.New("the drive does not open")
	}
	if s.gets = ""; s.medium != "" {
		s.pulled = s.pulled || s.medium == "in" && s.runs == aRamdisk
		s.medium = "out"
	}
	return nil
}

func (s *stage) PrepareInstance(_ context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot], s.gets, s.told, s.begun = driver.BootInstance, "instance", "in", true
	if s.medium != "" {
		s.medium = "out"
	}
	return nil
}

func (s *stage) CleanUpInstance(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	if err := t.Fence.Check(); err != nil {
		return err
	}
	if s.begun && s.faults.keeps > 0 {
		s.faults.keeps--
		return errors.New("the drive does not open")
	}
	s.pulled = s.pulled || s.live == onCD && !s.network && s.told == "in" && s.runs == anInstance
	s.gets, s.taken, s.told = "", true, "out"
	return nil
}

func (s *stage) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	if s.hangs == powerRead {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return s.machine.PowerState(ctx, n)
}

func (s *stage) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if s.stuck > 0 {
		if err := driver.Pause(ctx, s.stuck); err != nil {
			return err
		}
		return errors.New("the BMC refuses it")
	}
	ours := s.runs == aRamdisk || s.live != "" && s.begun && s.runs == anInstance
	if target == driver.PowerOff && ours && s.faults.staysOn > 0 {
		s.faults.staysOn--
		return cmp.Or(f.Check(), errors.New("the BMC refuses it"))
	}
	if s.deaf && (target == driver.SoftPowerOff || target == driver.SoftReboot) {
		return f.Check()
	}
	if err := s.machine.SetPower(ctx, f, n, target); err != nil {
		return err
	}
	s.moved, s.runs = true, ""
	if s.machine.power == driver.PowerOn {
		s.runs = map[string]string{"": itsDisk}[s.gets]
		if s.gets != "" {
			s.runs = "the " + s.gets
		}
	}
	if s.faults.lost && ours {
		s.faults.lost = false
		return driver.ErrUnknown
	}
	return nil
}

// step is one that does things in turn, then waits a minute, and fails if it is to.
func (s *stage) step(kind, name string, priority int, does ...func(context.Context, *driver.Task) error) driver.Step {
	return driver.Step{Interface: kind, Name: name, Priority: priority, Kind: driver.Reattachable, Abortable: s.uncut != name,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if t.Record.Handle() == nil {
				for _, do := range does {
					if err := do(ctx, t); err != nil {
						return driver.Outcome{}, err
					}
				}
				if err := t.Record.SaveHandle(ctx, "done"); err != nil {
					return driver.Outcome{}, err
				}
			}
			if s.hangs == name {
				return driver.Wait(time.Minute), nil
			}
			if left := time.Until(t.Entered.Add(time.Minute)); left > 0 {
				return driver.Wait(left), nil
			}
			if s.fails == name {
				if s.once {
					s.fails = ""
				}
				return driver.Outcome{}, errors.New("it failed")
			}
			return driver.Done(), nil
		}}
}

func (s *stage) off(ctx context.Context, t *driver.Task) error {
	if t.Node.DisablePowerOff {
		return nil
	}
	return s.SetPower(ctx, t.Fence, t.Node, driver.PowerOff)
}

func (s *stage) on(ctx context.Context, t *driver.Task) error {
	target := driver.PowerOn
	if t.Node.DisablePowerOff {
		target = driver.Rebooting
	}
	return s.SetPower(ctx, t.Fence, t.Node, target)
}

func booted(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactBooted] = "yes"
	return t.Record.SaveHandle(ctx, "booting")
}

func (s *stage) up(kind, name string, priority int) driver.Step {
	u := s.step(kind, name, priority, s.PrepareRamdisk, s.off, booted, s.on)
	u.Boots = true
	return u
}

func (s *stage) DeploySteps(*node.Document) []driver.Step {
	switch s.live {
	case onCD:
		return []driver.Step{s.step("deploy", "deploy", 100, s.off, driver.Prepares, s.PrepareInstance, s.on)}
	case onVolume:
		return []driver.Step{s.step("deploy", "deploy", 100, s.off), s.step("deploy", "prepare_instance_boot", 60, driver.Prepares, s.PrepareInstance),
			s.step("deploy", "boot_instance", 20, s.on)}
	}
	fetch := s.step("deploy", "fetch_image", 110)
	fetch.Apart = true
	up := s.up("deploy", "deploy", 100)
	up.Discovers = true
	return []driver.Step{fetch, up, s.step("deploy", "write_image", 80),
		s.step("deploy", "boot_instance", 20, s.off, driver.Prepares, s.PrepareInstance, s.on)}
}

func (s *stage) TearDownSteps(*node.Document) []driver.Step {
	return []driver.Step{s.step("deploy", "tear_down", 0, s.off, s.CleanUpInstance)}
}

func (s *stage) NamedSteps(*node.Document) []driver.Step {
	erase, bios := s.step("deploy", "erase", 0), s.step("deploy", "bios", 0, touches)
	erase.Priority, erase.In = 10, driver.InClean
	bios.NoRamdisk, bios.In = true, driver.InClean|driver.InService
	tool := s.step("deploy", "tool", 0)
	tool.In = driver.InService
	return []driver.Step{erase, bios, tool, func() driver.Step {
		v := s.step("deploy", "look", 10)
		v.In = driver.InVerify
		return v
	}()}
}

func (s *stage) Up(_ *node.Document, f driver.Flows) []driver.Step {
	up := s.up("deploy", "prepare_"+f.String(), 0)
	up.Discovers = true
	return []driver.Step{up}
}

func (s *stage) Down(_ *node.Document, f driver.Flows) []driver.Step {
	if f == driver.InService {
		return []driver.Step{s.step("deploy", "tear_down_service", 0, s.off, s.PrepareInstance, s.on)}
	}
	return []driver.Step{s.step("deploy", "tear_down_cleaning", 0, s.off, s.CleanUpRamdisk)}
}

func (s *stage) Offered(facts map[string]string, _ driver.Flows) ([]driver.Step, bool, error) {
	return nil, facts[driver.FactBooted] != "", nil
}

// inspects and rescues are the stage's other interfaces.
type inspects struct {
	*stage
	outOfBand bool
}

func (i inspects) InspectSteps(*node.Document) []driver.Step {
	if i.outOfBand {
		return []driver.Step{i.step("inspect", "read", 0)}
	}
	return []driver.Step{i.up("inspect", "boot_ramdisk", 0), i.step("inspect", "power_off", 0, i.off, i.CleanUpRamdisk)}
}

type rescues struct{ *stage }

func (r rescues) RescueSteps(*node.Document) []driver.Step {
	return []driver.Step{r.up("rescue", "rescue", 0)}
}

func (r rescues) UnrescueSteps(*node.Document) []driver.Step {
	return []driver.Step{r.step("rescue", "unrescue", 0, r.off, r.PrepareInstance, r.on)}
}

// ending is one row of docs/flows.md: how a flow is made to end.
type ending struct {
	flow, end string
	verb      work.Verb
	entry     provision.State
	from      provision.State
	args      work.Args
	fails     string // step
	invalid   bool
	noBoot    bool          // the boot interface refuses the fields, and no other does
	outOfBand bool          // the inspection
	abort     time.Duration // after the beginning; 0: not
	dies      time.Duration // the owner, after the beginning
	before    bool          // … which was of a program that notes no instance that it makes boot
	noOff     bool          // disable_power_off
	unclean   bool          // the node does without automated cleaning
	stuck     bool          // the BMC takes no order of power
	unread    bool          // the BMC does not tell the power
	deaf      bool          // the machine does not switch itself off
	once      bool          // a second run of it succeeds
	hangs     string        // the step that ends at its deadline
	uncut     string        // the step that an abort must not cut short
	holds     bool          // it ends in a hold of the operator's, whose work stays open
	later     bool          // central shows the abort once the flow has ended
	network   bool          // the ramdisk comes from the network
	live      live          // what the instance is
	faults    faults        // of the BMC once the machine runs the ramdisk
	diesAt    string        // the failpoint at which the owner dies, and the end of its detail if that counts
	starts    string        // what the machine runs before; empty: it is off
	differs   string        // where Ironic does otherwise, and why
}

func named(steps ...string) (out work.Args) {
	for _, s := range steps {
		out.Steps = append(out.Steps, work.Step{Interface: "deploy", Step: s, Priority: 50})
	}
	return out
}

// play lets a flow end so, and returns the row.
func play(t *testing.T, e ending) (row []string) {
	synctest.Test(t, func(t *testing.T) {
		m, s := perform(t, e)
		row = append([]string{e.flow, e.end}, m.ofMachine()...)
		row = append(row, ofNode(s, s.Work(nodeA).Doc)...)
		row = append(row, e.differs)
	})
	return row
}

// hardware is a registry with the stage's interfaces.
func (s *stage) hardware(t *testing.T, outOfBand bool) *driver.Registry {
	t.Helper()
	of := func(impl driver.Interface) []driver.Named { return []driver.Named{{Name: "m", Impl: impl}} }
	boot := of(byMedium{s})
	if s.network {
		boot = of(s)
	}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": of(s), "management": of(s), "boot": boot,
		"deploy": of(s), "inspect": of(inspects{s, outOfBand}), "rescue": of(rescues{s})}})
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// perform lets a flow end so, in a bubble.
func perform(t *testing.T, e ending) (*stage, *shelf) {
	t.Helper()
	m := &stage{machine: &machine{power: driver.PowerOff}, fails: e.fails, once: e.once, hangs: e.hangs, uncut: e.uncut, runs: e.starts, network: e.network, live: e.live, deaf: e.deaf, noBoot: e.noBoot, faults: e.faults}
	if e.starts != "" {
		m.machine.power = driver.PowerOn
	}
	if e.stuck {
		m.stuck = time.Minute
	}
	if e.invalid {
		m.invalid = driver.ErrInvalid
	}
	if e.unread {
		m.readErr = func() error { return errors.New("the BMC does not tell it") }
	}
	switch e.starts {
	case anInstance:
		m.gets, m.told = "instance", "in"
	case aRamdisk:
		m.gets, m.medium, m.rescued = "ramdisk", "in", true
	}
	reg := m.hardware(t, e.outOfBand)
	s := newShelf()
	oneNode(s)
	s.nodes[nodeA].DisablePowerOff = e.noOff
	if e.unclean {
		s.nodes[nodeA].AutomatedClean = new(bool)
	}
	owner := owned("a")
	begin := func(name string) (*members, func()) {
		owner.Store(name)
		_, ms, kill := conductorOn(t, s, name, owner, m.machine, func(c *Config) { c.Hardware = reg })
		return ms, kill
	}
	held, kill := begin("a")
	if e.diesAt != "" {
		died, buried := make(chan struct{}, 1), make(chan struct{})
		at, place, _ := strings.Cut(e.diesAt, " ")
		restore, err := failpoint.Set(at, func(detail string) {
			if strings.HasSuffix(detail, place) && held.held.Swap(false) {
				died <- struct{}{}
				<-buried
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer restore()
		old := kill
		kill = func() { close(buried); old() }
		go func() {
			<-died
			begin("b") // until the test ends
		}()
		defer func() {
			if owner.Load() == "a" {
				t.Errorf("%s, %s: it does not come by %s", e.flow, e.end, e.diesAt)
				died <- struct{}{}
			}
		}()
	}
	e.args.From = e.from
	s.request(nodeA, e.verb, e.entry, e.args)
	time.Sleep(time.Second)
	if e.dies > 0 {
		time.Sleep(e.dies)
		kill()
		if e.before {
			s.mu.Lock()
			w := *s.works[nodeA]
			w.Doc.Checkpoint.Facts = maps.Clone(w.Doc.Checkpoint.Facts)
			delete(w.Doc.Checkpoint.Facts, driver.FactPrepared)
			s.works[nodeA] = &w
			s.mu.Unlock()
		}
		_, kill = begin("b")
	}
	if e.abort > 0 {
		time.Sleep(e.abort)
		failed, ok := provision.Next(s.Work(nodeA).Doc.State, provision.EventFail)
		if !ok { // in a hold
			failed, _ = provision.Next(s.Work(nodeA).Doc.State, provision.EventAbort)
		}
		if e.later {
			s.goOn(nodeA, flow.WaitsIn[e.verb], true)
		} else {
			s.abort(nodeA, failed.To)
		}
	}
	defer func() { kill() }()
	time.Sleep(45 * time.Minute)
	if d := s.Work(nodeA).Doc; d.Open() != e.holds {
		t.Fatalf("%s, %s: it goes on at %s", e.flow, e.end, d.Checkpoint.Step)
	}
	if m.pulled && !e.noOff {
		t.Errorf("%s, %s: the medium was taken out of a machine that ran from it", e.flow, e.end)
	}
	return m, s
}

// ofMachine is what became of the machine.
func (s *stage) ofMachine() []string {
	power := "as it was"
	switch {
	case s.runs != "" && s.moved:
		power = "runs " + s.runs
	case s.moved:
		power = "off"
	}
	boot := cmp.Or(s.gets, "nothing from us")
	if !s.moved && !s.readied && !s.taken {
		boot = "as it was"
	}
	agent := "–"
	if s.runs == aRamdisk {
		agent = "runs"
	} else if s.readied || s.rescued {
		agent = "gone"
	}
	medium := s.medium
	switch {
	case s.live != "" && s.told != "":
		medium = fmt.Sprintf("the instance's %s: %s", s.live, s.told)
	case medium == "":
		medium = "–"
	}
	return []string{power, boot, medium, agent}
}

// ofNode is what became of the node.
func ofNode(s *shelf, d work.Document) []string {
	vifs := "kept"
	s.mu.Lock()
	for _, e := range s.events {
		if e.ClearInstance {
			vifs = "detached"
		}
	}
	s.mu.Unlock()
	if d.Open() { // in a hold
		d.Result = &work.Result{}
	}
	fault, text := d.Result.Fault, "empty"
	if fault == "" {
		fault = "–"
	}
	switch {
	case strings.Contains(d.Result.Error, "abort"):
		text = "that it was aborted"
	case d.Result.Error != "":
		text = "why"
	}
	if toldOf(s, "not cleaned up") {
		text += ", and what was not done"
	}
	if toldOf(s, "power off") { // of the steps here, none tells that
		text += "; the history says that the machine was left on"
	}
	return []string{vifs, string(d.State), fault, text}
}

// toldOf reports whether the node's history has a line of a phase.
func toldOf(s *shelf, phase string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if slices.ContainsFunc(e.Lines(), func(l work.Line) bool { return l.Phase == phase }) {
			return true
		}
	}
	return false
}

// TestEndingsOfFlows plays every row, and holds docs/flows.md against what the world saw.
// UPDATE_DOCS=1 writes it.
func TestEndingsOfFlows(t *testing.T) {
	var b bytes.Buffer
	flowsPage(&b, func(e ending) []string { return play(t, e) })
	const page = "../../docs/flows.md"
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(page)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		old, now := strings.Split(string(have), "\n"), strings.Split(b.String(), "\n")
		for i := range min(len(old), len(now)) {
			if old[i] != now[i] {
				t.Errorf("docs/flows.md says\n%s\nand it is\n%s", old[i], now[i])
			}
		}
		t.Errorf("docs/flows.md is not what the flows do, %v: run make docs", err)
	}
}

func flowsPage(w io.Writer, play func(ending) []string) {
	fmt.Fprint(w, flowsHead)
	for _, e := range endings {
		fmt.Fprintf(w, "| %s |\n", strings.Join(play(e), " | "))
	}
	fmt.Fprint(w, flowsTail)
}
