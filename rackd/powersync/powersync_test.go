package powersync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// rack is a rack of machines whose BMCs do as the test says.
type rack struct {
	mu     sync.Mutex
	nodes  map[string]*node.Document
	busy   map[string]bool
	fails  map[string]error // by node or, where it has one, by its account
	reads  []time.Time
	read   map[string]int
	events []work.Event
	seen   []string
	takes  time.Duration // a read
	now    int           // reads under way
	most   int
	kept   bool // events do not reach central
	force  bool
	counts map[string]int // reads by result
	// asks, if set, is what becomes of a read.
	asks func(ctx context.Context, n *node.Document) error
}

func newRack(n int) *rack {
	r := &rack{nodes: map[string]*node.Document{}, busy: map[string]bool{}, fails: map[string]error{}, read: map[string]int{}, counts: map[string]int{}}
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		r.nodes[id] = &node.Document{UUID: id, State: provision.Active, DriverInfo: map[string]any{}}
	}
	return r
}

func (r *rack) Nodes() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.nodes {
		ids = append(ids, id)
	}
	return ids
}

func (r *rack) Idle(id string) (*node.Document, *driver.Hardware, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[id]
	if n == nil || r.busy[id] {
		return nil, nil, nil
	}
	copied := *n
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: bmc{r}}}, "management": {{Name: "m", Impl: rig.Management()}},
		"boot": {{Name: "b", Impl: rig.Boot()}}, "deploy": {{Name: "d", Impl: rig.Deploy()}}}})
	if err != nil {
		return nil, nil, err
	}
	copied.Driver = "t"
	hw, err := reg.Resolve(&copied)
	return &copied, hw, err
}

var rig = drivertest.NewRig().Task(networkboot.IPXE()).Hardware

func (*rack) SawHardware(context.Context, *node.Document, *driver.Hardware) error { return nil }

func (r *rack) SawPower(_ context.Context, n *node.Document, s driver.PowerState, _ time.Time, force bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := n.UUID + " " + string(s)
	if force {
		said += " forced"
	}
	r.seen = append(r.seen, said)
	return nil
}

// Report does what central does with the event.
func (r *rack) Report(_ context.Context, e work.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	if r.kept {
		return nil
	}
	r.change(e.Node, func(n *node.Document) {
		if e.SetMaintenance {
			n.Maintenance, n.Fault = true, e.Fault
		}
		if e.Cleared == n.Fault {
			n.Maintenance, n.Fault = false, ""
		}
	})
	return nil
}

// change replaces a document; documents do not change. mu is held.
func (r *rack) change(id string, how func(*node.Document)) {
	n := *r.nodes[id]
	how(&n)
	r.nodes[id] = &n
}

func (r *rack) fail(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails[key] = err
}

// faults counts, by node, what was reported: "+" for a fault, "-" for its end.
func (r *rack) faults() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]string{}
	for _, e := range r.events {
		switch {
		case e.Fault != "":
			out[e.Node] += "+"
		case e.Cleared != "":
			out[e.Node] += "-"
		}
	}
	return out
}

func (r *rack) count(id string) int { r.mu.Lock(); defer r.mu.Unlock(); return r.read[id] }

func (r *rack) PowerRead(result string) { r.mu.Lock(); defer r.mu.Unlock(); r.counts[result]++ }
func (r *rack) TaskRan(string, string)  {}

// bmc is the power interface of the rack's machines.
type bmc struct{ r *rack }

func (bmc) Properties() map[string]string { return nil }
func (bmc) Validate(*node.Document) error { return nil }
func (bmc) PowerTargets() []driver.PowerState {
	return []driver.PowerState{driver.PowerOn, driver.PowerOff}
}
func (bmc) SetPower(context.Context, driver.Fence, *node.Document, driver.PowerState) error {
	panic("the power sync writes")
}
func (bmc) Account(n *node.Document) string { return n.DriverString("account") }

func (b bmc) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	r := b.r
	r.mu.Lock()
	r.reads, r.now = append(r.reads, time.Now()), r.now+1
	r.most = max(r.most, r.now)
	r.read[n.UUID]++
	err := errors.Join(r.fails[n.UUID], r.fails[b.Account(n)])
	takes, asks := r.takes, r.asks
	r.mu.Unlock()
	if asks != nil {
		err = asks(ctx, n)
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = fmt.Errorf("no answer: %w", driver.ErrUnreachable)
	}
	r.mu.Lock()
	r.now--
	r.mu.Unlock()
	return driver.PowerOn, err
}

func running(t *testing.T, r *rack) (*periodic.Runner, func()) {
	s := periodic.New(r, r, slog.New(slog.DiscardHandler))
	Add(Config{Name: "rackd-1", Nodes: r, Tasks: s, Force: r.force, Metrics: r, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return s, func() { cancel(); <-done }
}

var (
	errSilent  = fmt.Errorf("BMC does not answer: %w", driver.ErrUnreachable)
	errRefused = fmt.Errorf("BMC refuses user admin: %w", driver.ErrDenied)
)

func TestReadsAreSpreadOverTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(240)
		r.takes = 2 * time.Second
		_, stop := running(t, r)
		time.Sleep(20 * time.Minute)
		stop()
		for id := range r.nodes {
			if n := r.count(id); n < 8 || n > 11 {
				t.Errorf("%s was read %d times in ten intervals", id, n)
			}
		}
		if r.most > workers {
			t.Errorf("%d reads at a time", r.most)
		}
		// Two a second are the mean; a burst would be all 240.
		perSecond := map[int64]int{}
		for _, at := range r.reads {
			perSecond[at.Unix()]++
			if perSecond[at.Unix()] > 16 {
				t.Fatalf("more than 16 reads began within a second")
			}
		}
	})
}

func TestSilentBMCLeadsToMaintenanceAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(2)
		_, stop := running(t, r)
		defer stop()
		r.fail("n0", errSilent)
		time.Sleep(5 * time.Minute)
		if got := r.count("n0"); got < 2 || got > 3 {
			t.Errorf("read %d times in five minutes", got)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := r.faults(); len(got) != 1 || got["n0"] != "+" {
			t.Fatalf("after eight minutes of silence: %v", got)
		}
		e := r.events[0]
		if e.Power != "error" || !e.SetMaintenance || e.Fault != "power failure" || !strings.Contains(e.Error, "3 times") || !strings.Contains(e.Error, errSilent.Error()) {
			t.Errorf("event %+v", e)
		}
		// The pauses grow, and nothing is reported again.
		before := r.count("n0")
		time.Sleep(2 * time.Hour)
		if got := r.count("n0") - before; got < 5 || got > 10 {
			t.Errorf("read %d times in two hours of silence", got)
		}
		r.fail("n0", nil)
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		if got := r.faults(); got["n0"] != "+-" {
			t.Fatalf("after it answered again: %v", got)
		}
		if last := r.events[len(r.events)-1]; last.Power != "power on" || last.Cleared != "power failure" {
			t.Errorf("event %+v", last)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := r.count("n1"); !slices.Contains(r.seen, "n1 power on") || !slices.Contains(r.seen, "n0 power on") || got < 50 {
			t.Errorf("the machines were read as usual: %v, n1 %d times", r.seen[max(0, len(r.seen)-4):], got)
		}
	})
}

// A short silence is nothing that anybody must know of.
func TestTwoFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		_, stop := running(t, r)
		defer stop()
		for range 5 {
			before := r.count("n0")
			r.fail("n0", errSilent)
			for r.count("n0") < before+2 {
				time.Sleep(time.Second)
			}
			r.fail("n0", nil)
			time.Sleep(5 * time.Minute)
		}
		if got := r.faults(); len(got) != 0 {
			t.Errorf("reported %v", got)
		}
	})
}

// Eight blades behind one BMC that refuses the password: few attempts in all, and all
// of them end in maintenance.
func TestRefusedCredentialsAreTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(8)
		for id := range r.nodes {
			r.change(id, func(n *node.Document) { n.DriverInfo = map[string]any{"account": "old password"} })
		}
		s, stop := running(t, r)
		defer stop()
		r.fail("old password", errRefused)
		windows := map[time.Duration]int{} // attempts within ten minutes of each
		began := time.Now()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		for _, at := range r.reads {
			windows[at.Sub(began)/(10*time.Minute)]++
		}
		if n := len(r.reads); n < 20 || n > 32 {
			t.Errorf("%d attempts in a day, want about one an hour", n)
		}
		for w, n := range windows {
			if n > 2 {
				t.Errorf("%d attempts within ten minutes after %s", n, w*10*time.Minute)
			}
		}
		for id := range r.nodes {
			if got := r.faults()[id]; got != "+" {
				t.Errorf("%s: faults %q", id, got)
			}
		}
		if e := r.events[0]; !strings.Contains(e.Error, "locked") || !strings.Contains(e.Error, errRefused.Error()) {
			t.Errorf("the operator is told %q", e.Error)
		}
		// The operator corrects one node's password: that one is tried at once.
		r.mu.Lock()
		r.change("n3", func(n *node.Document) { n.DriverInfo = map[string]any{"account": "new password"} })
		r.mu.Unlock()
		before := len(r.reads)
		s.NodeChanged("n3")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := r.faults(); got["n3"] != "+-" || got["n4"] != "+" || len(r.reads) != before+1 {
			t.Errorf("after the correction: %v, %d reads", got, len(r.reads)-before)
		}
	})
}

// restarting is the error of a BMC that was told to restart.
type restarting struct{ until time.Time }

func (r restarting) Error() string    { return "told to restart" }
func (r restarting) Until() time.Time { return r.until }
func (restarting) Unwrap() error      { return driver.ErrUnreachable }

// A BMC that restarts because it was told to has no fault, and is asked again when it may be.
func TestARestartingBMCHasNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		until := time.Now().Add(20 * time.Minute)
		r.fail("n0", restarting{until})
		_, stop := running(t, r)
		time.Sleep(19 * time.Minute)
		if n := r.count("n0"); n != 1 || len(r.faults()) != 0 {
			t.Errorf("asked %d times, faults %v; want once, and none", n, r.faults())
		}
		r.fail("n0", nil)
		time.Sleep(2 * time.Minute)
		if n := r.count("n0"); n != 2 {
			t.Errorf("asked %d times after its restart, want once", n-1)
		}
		stop()
	})
}

// An operator who ends the maintenance gets a new trial, not the old verdict.
func TestOperatorEndsMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		s, stop := running(t, r)
		defer stop()
		r.fail("n0", errSilent)
		time.Sleep(15 * time.Minute)
		s.NodeChanged("n0")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		before := r.count("n0")
		r.mu.Lock()
		r.change("n0", func(n *node.Document) { n.Maintenance, n.Fault = false, "" })
		r.mu.Unlock()
		s.NodeChanged("n0")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := r.faults(); got["n0"] != "+" || r.count("n0") != before+1 {
			t.Errorf("right after the operator's word: %v, %d reads", got, r.count("n0")-before)
		}
		time.Sleep(10 * time.Minute)
		if got := r.faults(); got["n0"] != "++" {
			t.Errorf("while the BMC stays silent: %v", got)
		}
	})
}

func TestLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(4)
		r.change("n0", func(n *node.Document) { n.Maintenance = true })
		r.change("n1", func(n *node.Document) { n.Maintenance, n.Fault = true, "clean failure" })
		r.change("n2", func(n *node.Document) { n.State = provision.CleanWait })
		r.busy["n3"] = true
		_, stop := running(t, r)
		time.Sleep(time.Hour)
		stop()
		if len(r.reads) != 0 || len(r.events) != 0 {
			t.Errorf("%d reads, events %v", len(r.reads), r.events)
		}
	})
}

// While central is away a fault is told once, and at long intervals after that.
func TestFaultIsToldOnceWhileCentralIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		r.kept = true
		r.fail("n0", errSilent)
		_, stop := running(t, r)
		time.Sleep(50 * time.Minute)
		if got := r.faults(); got["n0"] != "+" {
			t.Errorf("within 50 minutes: %v", got)
		}
		time.Sleep(2 * time.Hour)
		stop()
		if got := len(r.faults()["n0"]); got < 2 || got > 3 {
			t.Errorf("within three hours told %d times", got)
		}
	})
}

// Work that begins while a read is under way knows the power better.
func TestReadThatWorkOvertakesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		r.takes = 30 * time.Second
		_, stop := running(t, r)
		defer stop()
		for r.count("n0") == 0 {
			time.Sleep(time.Second)
		}
		r.mu.Lock()
		r.busy["n0"] = true
		r.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(r.seen) != 0 {
			t.Errorf("reported %v", r.seen)
		}
	})
}

// The workers go from one machine to the next: each is read once in an interval, as long
// as the workers can.
func TestWorkersDoNotWaitForTheNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1500)
		r.takes = 2 * time.Second // the workers do 16 a second: 1,920 in an interval
		_, stop := running(t, r)
		time.Sleep(4 * time.Minute)
		stop()
		for id := range r.nodes {
			if r.count(id) == 0 {
				t.Fatalf("%s was not read within two intervals", id)
			}
		}
		if r.most > workers {
			t.Errorf("%d reads at a time", r.most)
		}
	})
}

// A machine that was failing and whose document has changed is read before the others
// that are due, however many they are.
func TestChangedMachineGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(5000) // far more than the workers can do
		r.fail("n0", errSilent)
		r.takes = time.Second
		s, stop := running(t, r)
		defer stop()
		for r.count("n0") == 0 {
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		before := r.count("n0")
		r.fail("n0", nil)
		n, hw, err := r.Idle("n0")
		if err != nil {
			t.Fatal(err)
		}
		s.Forget(Name, n, hw) // as when its credentials changed
		s.NodeChanged("n0")
		time.Sleep(15 * time.Second)
		if got := r.count("n0") - before; got != 1 {
			t.Errorf("read %d times within 15 s of its change, want once", got)
		}
	})
}

// Only machines that can be switched on and off are brought back.
func TestForcedWhereItCanBeSwitched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		r.force = true
		_, stop := running(t, r)
		time.Sleep(3 * time.Minute)
		stop()
		if len(r.seen) == 0 || r.seen[0] != "n0 power on forced" {
			t.Errorf("reported %v", r.seen)
		}
	})
}

// A password that is corrected while the old one is being tried is tried at once, not when
// the old one would have been.
func TestChangeWhileItIsReadIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		r.takes = 10 * time.Second
		r.change("n0", func(n *node.Document) { n.DriverInfo = map[string]any{"account": "old password"} })
		r.fail("old password", errRefused)
		s, stop := running(t, r)
		defer stop()
		for r.count("n0") < 5 { // the pauses are an hour by now
			time.Sleep(time.Second)
		}
		r.mu.Lock()
		r.change("n0", func(n *node.Document) { n.DriverInfo = map[string]any{"account": "new password"} })
		r.mu.Unlock()
		s.NodeChanged("n0")
		time.Sleep(25 * time.Second)
		synctest.Wait()
		if got := r.faults(); r.count("n0") != 6 || got["n0"] != "+-" {
			t.Errorf("after the correction: %v, %d reads", got, r.count("n0")-5)
		}
	})
}

// A rackd reads its share of machines, 10,000, in a minute, where each read with its login takes 150 ms.
func TestTenThousandInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 10_000
		r := newRack(size)
		r.takes = 150 * time.Millisecond
		tasks := periodic.New(r, counter{}, slog.New(slog.DiscardHandler))
		Add(Config{Name: "r1", Nodes: r, Tasks: tasks, Metrics: counter{}, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tasks.Run(ctx) }()
		time.Sleep(1500 * time.Millisecond) // it knows the nodes
		for id := range r.nodes {
			tasks.Hasten(Name, id, 0)
		}
		read := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.read) }
		began := time.Now()
		for read() < size && time.Since(began) < 5*time.Minute {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%d of %d machines were read within %s", read(), size, took)
		}
		cancel()
		<-done
	})
}

// counter counts nothing.
type counter struct{}

func (counter) TaskRan(string, string) {}
func (counter) PowerRead(string)       {}
