package periodic

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var (
	errSilent  = fmt.Errorf("BMC does not answer: %w", driver.ErrUnreachable)
	errRefused = fmt.Errorf("BMC refuses user admin: %w", driver.ErrDenied)
)

// power tells the account of a node, and nothing else.
type power struct{ driver.Power }

func (power) Account(n *node.Document) string { return n.DriverString("account") }

// rack is nodes for a runner, and what its tasks did.
type rack struct {
	mu     sync.Mutex
	nodes  map[string]*node.Document
	fails  map[string]error // by task and node: "power n1"
	takes  time.Duration
	ran    map[string][]time.Time // by task and node
	now    map[string]int         // by account
	most   int                    // at once for one account
	counts map[string]int         // by task and result
}

func newRack(n int) *rack {
	r := &rack{nodes: map[string]*node.Document{}, fails: map[string]error{}, ran: map[string][]time.Time{}, now: map[string]int{}, counts: map[string]int{}}
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		r.nodes[id] = &node.Document{UUID: id, Driver: "t", DriverInfo: map[string]any{}}
	}
	return r
}

func (r *rack) set(do func()) { r.mu.Lock(); defer r.mu.Unlock(); do() }

func (r *rack) Nodes() (ids []string) {
	r.set(func() {
		for id := range r.nodes {
			ids = append(ids, id)
		}
	})
	return ids
}

// rigType is a hardware type whose power tells accounts.
func rigType(name string) driver.Type {
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	return driver.Type{Name: name, Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: power{hw.Power()}}},
		"management": {{Name: "m", Impl: hw.Management()}}, "boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}}
}

var registry = func() *driver.Registry {
	reg, err := driver.NewRegistry(rigType("t"))
	if err != nil {
		panic(err)
	}
	return reg
}()

func (r *rack) Idle(id string) (n *node.Document, hw *driver.Hardware, err error) {
	r.set(func() { n = r.nodes[id] })
	if n == nil {
		return nil, nil, nil
	}
	hw, err = registry.Resolve(n)
	return n, hw, err
}

func (r *rack) TaskRan(task, result string) { r.set(func() { r.counts[task+" "+result]++ }) }

// task is one that fails as the rack says.
func (r *rack) task(name string, every time.Duration, leads bool) Task {
	return Task{Name: name, Every: every, Leads: leads, Do: func(_ context.Context, n *node.Document, hw *driver.Hardware) (err error) {
		key, account := name+" "+n.UUID, accountOf(n, hw)
		r.set(func() {
			r.ran[key] = append(r.ran[key], time.Now())
			r.now[account]++
			r.most, err = max(r.most, r.now[account]), r.fails[key]
		})
		time.Sleep(r.takes)
		r.set(func() { r.now[account]-- })
		return err
	}}
}

func (r *rack) count(key string) (n int) {
	r.set(func() { n = len(r.ran[key]) })
	return n
}

// running runs the tasks until stop is called.
func (r *rack) running(t *testing.T, tasks ...Task) (runner *Runner, stop func()) {
	runner = New(r, r, slog.New(slog.DiscardHandler))
	for _, task := range tasks {
		runner.Add(task)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- runner.Run(ctx) }()
	return runner, func() { cancel(); <-done }
}

// The turns of 600 nodes lie evenly in the interval from the first round on, for each task otherwise.
func TestTurnsAreSpreadByTheNodesKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(600)
		_, stop := r.running(t, r.task("a", 10*time.Minute, false), r.task("b", 10*time.Minute, false))
		began := time.Now()
		time.Sleep(9*time.Minute + 30*time.Second)
		stop()
		for _, task := range []string{"a", "b"} {
			minutes := map[int]int{}
			for key, times := range r.ran {
				if strings.HasPrefix(key, task+" ") {
					minutes[int(times[0].Sub(began).Minutes())]++
				}
			}
			for m := range 9 {
				if minutes[m] < 35 || minutes[m] > 90 {
					t.Errorf("task %s began for %d of 600 nodes in minute %d, 60 are the mean", task, minutes[m], m)
				}
			}
		}
		same := 0
		for i := range 600 {
			a, b := r.ran[fmt.Sprintf("a n%d", i)], r.ran[fmt.Sprintf("b n%d", i)]
			if len(a) > 0 && len(b) > 0 && a[0].Sub(b[0]).Abs() < 2*time.Second {
				same++
			}
		}
		if same > 30 {
			t.Errorf("%d nodes have their turn of both tasks at once", same)
		}
		if p := phase("a", "n1", time.Hour); p != phase("a", "n1", time.Hour) || p == phase("a", "n2", time.Hour) {
			t.Error("a node's moment is not its own")
		}
	})
}

// Tasks of the nodes behind one BMC ask it in turn.
func TestOneCallAtATimeForAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(40)
		r.takes = 2 * time.Second
		for _, n := range r.nodes {
			n.DriverInfo["account"] = "chassis"
		}
		_, stop := r.running(t, r.task("a", 5*time.Minute, true), r.task("b", 5*time.Minute, false))
		time.Sleep(20 * time.Minute)
		stop()
		if r.most != 1 || r.count("a n1") < 3 || r.count("b n1") < 3 {
			t.Errorf("%d calls at once, n1 had %d and %d turns", r.most, r.count("a n1"), r.count("b n1"))
		}
	})
}

// A BMC that the leading task finds silent is not asked by others. What others find out is theirs.
func TestALeaderKeepsOthersFromABMC(t *testing.T) {
	for _, why := range []error{errSilent, errRefused} {
		synctest.Test(t, func(t *testing.T) {
			r := newRack(2)
			r.fails["power n0"], r.fails["sensors n1"] = why, why
			_, stop := r.running(t, r.task("power", 2*time.Minute, true), r.task("sensors", time.Minute, false))
			time.Sleep(4 * time.Hour)
			stop()
			if n := r.count("sensors n0"); n > 12 {
				t.Errorf("%v: the sensors of a silent BMC were asked for %d times", why, n)
			}
			if n := r.count("power n1"); n < 100 {
				t.Errorf("%v: failing sensors left %d turns of power", why, n)
			}
			if n := r.count("sensors n1"); n > 20 {
				t.Errorf("%v: failing sensors were asked for %d times", why, n)
			}
		})
	}
}

// What hardware cannot do is no failure, and is asked for at the interval.
func TestUnsupportedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		r.fails["sensors n0"] = fmt.Errorf("no sensors: %w", driver.ErrUnsupported)
		task := r.task("sensors", 10*time.Minute, false)
		task.Troubled = func(context.Context, *node.Document, Trouble) { t.Error("trouble") }
		_, stop := r.running(t, task)
		time.Sleep(2 * time.Hour)
		stop()
		if n := r.count("sensors n0"); n < 10 || n > 13 || r.counts["sensors unsupported"] != n {
			t.Errorf("asked %d times, counted %v", n, r.counts)
		}
	})
}

// A node is hastened while it waits and while its turn is going on, and then has its usual turns.
func TestHastened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(3)
		runner, stop := r.running(t, r.task("power", time.Hour, true), r.task("sensors", time.Hour, false))
		defer stop()
		time.Sleep(90 * time.Minute)
		power, sensors := r.count("power n1"), r.count("sensors n1")
		runner.Hasten("power", "n1", 0)
		runner.Hasten("power", "unknown", 0)
		time.Sleep(2 * time.Second)
		if r.count("power n1") != power+1 || r.count("sensors n1") != sensors {
			t.Errorf("%d turns of power and %d of sensors, want one of power", r.count("power n1")-power, r.count("sensors n1")-sensors)
		}
		r.set(func() { r.takes = 10 * time.Second })
		runner.Hasten("power", "n1", 0)
		time.Sleep(3 * time.Second)
		runner.Hasten("power", "n1", 0) // what it has read may be from before
		time.Sleep(20 * time.Second)
		if got := r.count("power n1") - power; got != 3 {
			t.Errorf("%d turns, want 3", got)
		}
		time.Sleep(30 * time.Minute)
		if got := r.count("power n1") - power; got != 3 {
			t.Errorf("%d turns, the haste goes on", got)
		}
		sensors = r.count("sensors n2")
		runner.Hasten("sensors", "n2", time.Minute)
		time.Sleep(90 * time.Second)
		if got := r.count("sensors n2") - sensors; got != 1 {
			t.Errorf("%d turns within a minute and a half", got)
		}
	})
}

// A change of a failing node whose account stays in trouble is looked at once, not over and over.
func TestAChangeThatHelpsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		looked := 0
		task := r.task("power", time.Minute, true)
		task.Wants = func(*node.Document, *driver.Hardware) bool { looked++; return true }
		r.fails["power n0"] = errRefused
		runner, stop := r.running(t, task)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		before := looked
		runner.NodeChanged("n0")
		time.Sleep(time.Minute)
		stop()
		if looked-before > 2 {
			t.Errorf("looked at %d times within a minute of its change", looked-before)
		}
	})
}

// Nodes in maintenance have no turn by default; nodes that have gone are forgotten; a task without interval is none.
func TestWhoHasTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(20)
		r.nodes["n0"].Maintenance = true
		runner, stop := r.running(t, r.task("a", 2*time.Minute, false), r.task("off", 0, false))
		time.Sleep(5 * time.Minute)
		if r.count("a n0") != 0 || r.count("a n1") == 0 || r.count("off n1") != 0 {
			t.Errorf("turns: %d in maintenance, %d of another, %d of a task without interval", r.count("a n0"), r.count("a n1"), r.count("off n1"))
		}
		r.set(func() { clear(r.nodes) })
		time.Sleep(5 * time.Minute)
		runner.mu.Lock()
		if s := runner.tasks[0]; len(s.entries)+len(s.queue) > 0 {
			t.Errorf("%d nodes and %d in the queue are left", len(s.entries), len(s.queue))
		}
		runner.mu.Unlock()
		stop()
	})
}

// A node may leave the group while a task runs for it. The task is told after the run, and forgets what the run has noted.
func TestGoneDuringARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(3)
		task := r.task("t", time.Minute, false)
		noted := map[string]bool{}
		var slow atomic.Bool
		begun, end := make(chan bool), make(chan bool)
		task.Do = func(_ context.Context, n *node.Document, _ *driver.Hardware) error {
			if n.UUID == "n1" && slow.CompareAndSwap(false, true) {
				close(begun)
				<-end
			}
			r.set(func() { noted[n.UUID] = true })
			return nil
		}
		task.Gone = func(id string) { r.set(func() { delete(noted, id) }) }
		runner, stop := r.running(t, task)
		<-begun
		r.set(func() { delete(r.nodes, "n1") })
		time.Sleep(5 * time.Minute)
		close(end)
		time.Sleep(5 * time.Minute)
		r.set(func() {
			if noted["n1"] || !noted["n0"] || !noted["n2"] {
				t.Errorf("noted are %v, want n0 and n2", noted)
			}
		})
		runner.mu.Lock()
		if s := runner.tasks[0]; len(s.entries) != 2 || len(s.queue) != 2 {
			t.Errorf("%d nodes and %d in the queue, want 2", len(s.entries), len(s.queue))
		}
		runner.mu.Unlock()
		stop()
	})
}

// A task is told once of a node that has left the group, and of none that stays.
func TestWhoHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(3)
		task := r.task("t", time.Minute, false)
		var gone []string
		task.Gone = func(id string) { gone = append(gone, id) }
		_, stop := r.running(t, task)
		time.Sleep(2 * time.Minute)
		r.set(func() { delete(r.nodes, "n1") })
		time.Sleep(5 * time.Minute)
		stop()
		if len(gone) != 1 || gone[0] != "n1" {
			t.Errorf("told are %q", gone)
		}
	})
}
