package periodic

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// fans is a hardware type that declares a task by one line.
func fans(r *rack) (*driver.Registry, error) {
	read := func(ctx context.Context, n *node.Document, hw *driver.Hardware) (string, error) {
		return "", r.task("fans", 0, false).Do(ctx, n, hw)
	}
	with := rigType("with")
	with.Periodic = []driver.Periodic{
		{Name: "fans", Every: 10 * time.Minute, Wants: func(n *node.Document) bool { return n.DriverString("fans") == "yes" }, Do: read},
	}
	return driver.NewRegistry(rigType("t"), with)
}

// fanned is a rack whose nodes are of two types.
type fanned struct {
	*rack
	types *driver.Registry
}

func (f fanned) Idle(id string) (n *node.Document, hw *driver.Hardware, err error) {
	f.set(func() { n = f.nodes[id] })
	if n == nil {
		return nil, nil, nil
	}
	hw, err = f.types.Resolve(n)
	return n, hw, err
}

// A driver's task has its turns for the nodes of its type that its filter lets through, at its interval, and with the runner's back-off. It
// counts under the type's name.
func TestTasksOfDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(4)
		types, err := fans(r)
		if err != nil {
			t.Fatal(err)
		}
		for id, n := range r.nodes {
			n.Driver, n.DriverInfo["fans"] = "with", "yes"
			switch id {
			case "n1":
				n.Driver = "t" // of another type
			case "n2":
				n.DriverInfo["fans"] = "no"
			}
		}
		r.fails["fans n3"] = errRefused
		runner := New(fanned{r, types}, r, slog.New(slog.DiscardHandler))
		runner.AddOf(types, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- runner.Run(ctx) }()
		time.Sleep(4*time.Hour + 5*time.Minute)
		cancel()
		<-done
		if n := r.count("fans n0"); n < 22 || n > 27 {
			t.Errorf("%d turns in 4 hours, want one in ten minutes", n)
		}
		for i := 1; i < len(r.ran["fans n0"]); i++ {
			if gap := r.ran["fans n0"][i].Sub(r.ran["fans n0"][i-1]); gap < 9*time.Minute || gap > 11*time.Minute+time.Second {
				t.Errorf("%s lie between two turns", gap)
			}
		}
		if r.count("fans n1")+r.count("fans n2") != 0 {
			t.Errorf("a node of another type had %d turns, one that the filter leaves out %d", r.count("fans n1"), r.count("fans n2"))
		}
		if n := r.count("fans n3"); n == 0 || n > 10 {
			t.Errorf("a BMC that refuses the credentials was asked %d times", n)
		}
		if r.counts["with.fans ok"] != r.count("fans n0") || r.counts["with.fans denied"] != r.count("fans n3") {
			t.Errorf("counted %v", r.counts)
		}
	})
}

// histories keeps what is told of nodes, unless it is lost.
type histories struct {
	lines []string
	lost  bool
}

func (h *histories) TellLog(_ context.Context, n *node.Document, _ *hardware.Observation, lines []work.Line) error {
	if h.lost {
		return errors.New("the bus is away")
	}
	for _, l := range lines {
		h.lines = append(h.lines, n.UUID+": "+l.Phase+": "+l.Detail)
	}
	return nil
}

// What a driver's task has to say is in the history: at once, the same once a day, and again where it has ended meanwhile or could not be
// told.
func TestWhatTasksOfDriversSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, h := "", &histories{}
		types, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: rigType("t").Interfaces, Periodic: []driver.Periodic{{Name: "fans", Every: time.Hour,
			Do: func(context.Context, *node.Document, *driver.Hardware) (string, error) { return text, nil }}}})
		if err != nil {
			t.Fatal(err)
		}
		r := newRack(1)
		runner := New(fanned{r, types}, r, slog.New(slog.DiscardHandler))
		runner.AddOf(types, h)
		do := runner.tasks[0].task.Do
		for i, turn := range []struct {
			text string
			lost bool
			told bool
		}{{"", false, false}, {"one stands", true, false}, {"one stands", false, true}, {"one stands", false, false}, {"two stand", false, true}, {"", false, false}, {"two stand", false, true},
			{"two stand", false, false}} {
			text, h.lost, h.lines = turn.text, turn.lost, nil
			if err := do(t.Context(), r.nodes["n0"], nil); err != nil {
				t.Fatal(err)
			}
			if told := slices.Equal(h.lines, []string{"n0: fans: " + turn.text}); told != turn.told || !told && len(h.lines) != 0 {
				t.Errorf("turn %d: told %q", i, h.lines)
			}
			time.Sleep(time.Hour)
		}
		time.Sleep(23 * time.Hour)
		if err := do(t.Context(), r.nodes["n0"], nil); err != nil || len(h.lines) != 1 {
			t.Errorf("a day later: %v, told %q", err, h.lines)
		}
	})
}

// A task that could not run is refused with its type.
func TestTasksOfDriversThatCouldNotRun(t *testing.T) {
	do := func(context.Context, *node.Document, *driver.Hardware) (string, error) { return "", nil }
	for says, tasks := range map[string][]driver.Periodic{
		"no name":     {{Every: time.Minute, Do: do}},
		`own ("fans`:  {{Name: "fans", Every: time.Minute, Do: do}, {Name: "fans", Every: time.Hour, Do: do}},
		"an interval": {{Name: "fans", Do: do}},
		"a function":  {{Name: "fans", Every: time.Minute}},
	} {
		bad := rigType("bad")
		bad.Periodic = tasks
		if _, err := driver.NewRegistry(bad); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "type bad") {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
