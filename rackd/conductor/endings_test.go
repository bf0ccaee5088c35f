package conductor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// stage is a machine whose interfaces do what those of the product do, as far as power, boot
// and media are concerned, and on which one step may be told to fail.
type stage struct {
	*machine
	fails   string        // the step that fails, as soon as it has done its part
	stuck   time.Duration // for so long its BMC takes no order of power, and then refuses it
	runs    string        // what the machine runs, empty when it is off
	moved   bool          // its power was written
	medium  string        // the ramdisk's: "in", "out", or empty where nobody has put it in
	network string        // what a boot gets: "ramdisk", "instance", or empty
}

func (s *stage) PrepareRamdisk(ctx context.Context, t *driver.Task) error {
	t.Facts[driver.FactReadied] = "yes" // as bringup does
	t.Facts[driver.FactBoot], s.medium, s.network = driver.BootRamdisk, "in", "ramdisk"
	return t.Fence.Check()
}

func (s *stage) CleanUpRamdisk(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	s.medium, s.network = "out", ""
	return nil
}

func (s *stage) PrepareInstance(_ context.Context, t *driver.Task) error {
	t.Facts[driver.FactBoot], s.network = driver.BootInstance, "instance"
	if s.medium != "" {
		s.medium = "out"
	}
	return nil
}

func (s *stage) CleanUpInstance(_ context.Context, t *driver.Task) error {
	delete(t.Facts, driver.FactBoot)
	s.network = ""
	return nil
}

func (s *stage) SetPower(ctx context.Context, f driver.Fence, n *node.Document, target driver.PowerState) error {
	if s.stuck > 0 {
		if err := pause(ctx, s.stuck); err != nil {
			return err
		}
		return errors.New("the BMC refuses it")
	}
	if err := s.machine.SetPower(ctx, f, n, target); err != nil {
		return err
	}
	s.moved, s.runs = true, ""
	if s.machine.power == driver.PowerOn {
		s.runs = map[string]string{"": "what its disk holds"}[s.network]
		if s.network != "" {
			s.runs = "the " + s.network
		}
	}
	return nil
}

// step is one that does things in turn, then waits a minute, and fails if it is to.
func (s *stage) step(kind, name string, priority int, does ...func(context.Context, *driver.Task) error) driver.Step {
	return driver.Step{Interface: kind, Name: name, Priority: priority, Kind: driver.Reattachable, Abortable: true,
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
			if left := time.Until(t.Entered.Add(time.Minute)); left > 0 {
				return driver.Wait(left), nil
			}
			if s.fails == name {
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
	fetch := s.step("deploy", "fetch_image", 110)
	fetch.Apart = true
	up := s.up("deploy", "deploy", 100)
	up.Discovers = true
	return []driver.Step{fetch, up, s.step("deploy", "write_image", 80),
		s.step("deploy", "boot_instance", 20, s.off, s.PrepareInstance, s.on)}
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
	outOfBand bool          // the inspection
	abort     time.Duration // after the beginning; 0: not
	dies      time.Duration // the owner, after the beginning
	noOff     bool          // disable_power_off
	stuck     bool          // the BMC takes no order of power
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
		m := &stage{machine: &machine{power: driver.PowerOff}, fails: e.fails, runs: e.starts}
		if e.starts != "" {
			m.machine.power = driver.PowerOn
		}
		if e.stuck {
			m.stuck = time.Minute
		}
		if e.invalid {
			m.invalid = driver.ErrInvalid
		}
		of := func(impl driver.Interface) []driver.Named { return []driver.Named{{Name: "m", Impl: impl}} }
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": of(m), "management": of(m), "boot": of(m),
			"deploy": of(m), "inspect": of(inspects{m, e.outOfBand}), "rescue": of(rescues{m})}})
		if err != nil {
			t.Fatal(err)
		}
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].DisablePowerOff = e.noOff
		owner := owned("a")
		begin := func(name string) func() {
			owner.Store(name)
			_, _, kill := conductorOn(t, s, name, owner, m.machine, func(c *Config) { c.Hardware = reg })
			return kill
		}
		kill := begin("a")
		e.args.From = e.from
		s.request(nodeA, e.verb, e.entry, e.args)
		time.Sleep(time.Second)
		if e.dies > 0 {
			time.Sleep(e.dies)
			kill()
			kill = begin("b")
		}
		if e.abort > 0 {
			time.Sleep(e.abort)
			failed, _ := provision.Next(e.entry, provision.EventFail)
			s.abort(nodeA, failed.To)
		}
		defer func() { kill() }()
		time.Sleep(30 * time.Minute)
		d := s.Work(nodeA).Doc
		if d.Open() {
			t.Fatalf("%s, %s: it goes on at %s", e.flow, e.end, d.Checkpoint.Step)
		}
		row = append([]string{e.flow, e.end}, m.ofMachine()...)
		row = append(row, ofNode(s, d)...)
		row = append(row, e.differs)
	})
	return row
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
	boot := map[string]string{"ramdisk": "ramdisk", "instance": "instance"}[s.network]
	if boot == "" {
		boot = "nothing from us"
	}
	if !s.moved && s.medium == "" {
		boot = "as it was"
	}
	agent := "–"
	if s.runs == "the ramdisk" {
		agent = "runs"
	} else if s.medium != "" {
		agent = "gone"
	}
	medium := s.medium
	if medium == "" {
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
	return []string{vifs, string(d.State), fault, text}
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
