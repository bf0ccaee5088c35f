package runner

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/view"
)

// Within a process, too, no time is given twice or goes back.
func TestTicksGoForward(t *testing.T) {
	r := &Runner{clock: time.Now().Add(time.Hour).UTC()}
	last := r.clock
	for range 3 {
		if next := r.Now(); !next.After(last) || next.Sub(last) > time.Second {
			t.Errorf("after %s came %s", last, next)
		} else {
			last = next
		}
	}
	if r.clockMark != last {
		t.Errorf("marked %s, want %s", r.clockMark, last)
	}
	r = &Runner{}
	if now := r.Now(); time.Since(now).Abs() > time.Minute {
		t.Errorf("%s is not the time", now)
	}
}

// What this process measures it measures by the monotonic clock, whether it has set the
// deadline or taken it over.
func TestDeadlinesAreNotMovedByTheWallClock(t *testing.T) {
	r := New(&Deps{Deadlines: map[provision.State]time.Duration{provision.DeployWait: time.Minute}, Members: leased{}, Log: slog.New(slog.DiscardHandler)}, &node.Document{UUID: nodeA}, view.Work{Doc: work.Document{State: provision.DeployWait}}, nil)
	check := func(what string) {
		t.Helper()
		if d := r.doc.Checkpoint.Deadline; !strings.Contains(d.String(), " m=") || time.Until(d) > time.Minute {
			t.Errorf("%s: deadline %s has no monotonic reading or is too late", what, d)
		}
	}
	r.setDeadline()
	check("set")
	r.doc.Checkpoint.Deadline = r.doc.Checkpoint.Deadline.UTC() // as it is read from a document
	r.inheritTimes()
	check("taken over")
	r.heartbeat = true
	if _, err := r.absorb(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("moved by a heartbeat")
}

// What a step has noted is compared with this rackd's clock only where this rackd noted it.
func TestOnlyAForeignWorkIsTaken(t *testing.T) {
	for owner, taken := range map[string]bool{"rackd-a": false, "rackd-b": true, "": true} {
		r := New(&Deps{Name: "rackd-a", Members: leased{}, Log: slog.New(slog.DiscardHandler)}, &node.Document{UUID: nodeA}, view.Work{Doc: work.Document{Owner: owner, Seq: 3}}, nil)
		if r.foreign.IsZero() == taken {
			t.Errorf("work of %q: taken at %s", owner, r.foreign)
		}
	}
}
