package conductor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// An operator learns of what is left out, with its size, and of why the step failed besides.
func TestWhatIsLeftOutIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large = 3 << 20
		ill, m := strings.Repeat("x", large), &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 50, Kind: driver.Repeatable,
			Run: func(_ context.Context, task *driver.Task) (driver.Outcome, error) {
				task.Record.Inventory(agentapi.Inventory{Sent: []byte(`"` + ill + `"`)})
				task.Record.Observe(hardware.Observation{Health: &ill})
				return driver.Outcome{}, errors.New("the disk is gone")
			}}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		d := s.Work(nodeA).Doc
		for _, want := range []string{"the disk is gone", "the inventory (3145730 bytes as it was sent", "too large for the bus"} {
			if d.Open() || !strings.Contains(d.Result.Error, want) {
				t.Errorf("last_error does not say %q: %.600s", want, d.Result.Error)
			}
		}
	})
}

// What comes while the work ends, and is left out of it, is a line of the node's history.
func TestWhatIsLeftOutOfAGoodEndIsALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, over := &machine{power: driver.PowerOff}, func() {}
		m.onRead = func() { over() }
		m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 50, Kind: driver.Repeatable,
			Run: func(_ context.Context, task *driver.Task) (driver.Outcome, error) {
				over = func() {
					fine := hardware.OK
					task.Record.Inventory(agentapi.Inventory{Sent: []byte(`"` + strings.Repeat("x", 3<<20) + `"`)})
					task.Record.Observe(hardware.Observation{Health: &fine})
				}
				return driver.Done(), nil
			}}}
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK {
			t.Fatalf("%+v", d.Result)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var lines []work.Line // of the end, or of what was told before it
		for _, e := range s.events {
			lines = append(lines, e.Before...)
		}
		if !slices.ContainsFunc(lines, func(l work.Line) bool { return l.Phase == "left out" && strings.Contains(l.Detail, "3145730 bytes") }) {
			t.Errorf("the end tells %+v", lines)
		}
		if !slices.ContainsFunc(s.events, func(e work.Event) bool {
			return e.Hardware != nil && e.Hardware.Health != nil && *e.Hardware.Health == hardware.OK
		}) {
			t.Error("what the hardware said of itself is lost with the inventory")
		}
	})
}

// What an agent says may be of any size. The bus takes no document and no event that is too
// large, however often it is sent: the work ends in its failure, and central hears of it.
func TestWhatIsTooLargeForTheBusFailsTheWork(t *testing.T) {
	const large = 3 << 20
	for name, c := range map[string]struct {
		run  func(ctx context.Context, task *driver.Task) (driver.Outcome, error)
		want string // in last_error
	}{
		"an error": {func(context.Context, *driver.Task) (driver.Outcome, error) {
			return driver.Outcome{}, errors.New("it broke: " + strings.Repeat("x", large) + " for this cause")
		}, "for this cause"},
		"a handle": {func(ctx context.Context, task *driver.Task) (driver.Outcome, error) {
			return driver.Outcome{}, task.Record.SaveHandle(ctx, strings.Repeat("x", large))
		}, "too large for the bus"},
		"a fact": {func(_ context.Context, task *driver.Task) (driver.Outcome, error) {
			task.Facts["found"] = strings.Repeat("x", large)
			return driver.Wait(0), nil
		}, "too large for the bus"},
		"an inventory": {func(_ context.Context, task *driver.Task) (driver.Outcome, error) {
			task.Record.Inventory(agentapi.Inventory{Sent: []byte(`"` + strings.Repeat("x", large) + `"`)})
			return driver.Done(), nil
		}, "too large for the bus"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{power: driver.PowerOff}
				m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 50, Kind: driver.Repeatable, Run: c.run}}
				s := newShelf()
				oneNode(s)
				_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, c.want) || len(d.Result.Error) > work.MaxText {
					t.Fatalf("the work is open: %v, state %q, result %.300v", d.Open(), d.State, d.Result)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if e := s.events[len(s.events)-1]; e.Kind != work.WorkEnded || !strings.Contains(e.Error, c.want) {
					t.Errorf("told: %s %.300q", e.Kind, e.Error)
				}
			})
		})
	}
}
