package flow

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

const nodeA = "11111111-1111-4111-8111-111111111111"

// handleOnly records a step's handle and nothing else.
type handleOnly struct {
	driver.Recorder
	raw json.RawMessage
}

func (r *handleOnly) Handle() json.RawMessage { return r.raw }
func (r *handleOnly) SaveHandle(_ context.Context, h any) (err error) {
	r.raw, err = json.Marshal(h)
	return err
}

// The rackd that began a wait measures it by its monotonic clock: with the wall clock set
// forward or back by hours, which makes the handle's time one of long ago or far ahead, it
// takes what it takes. A successor goes by what was left when the handle was written, whatever its clock says.
func TestWaitIsNotMovedByTheWallClock(t *testing.T) {
	for name, c := range map[string]struct {
		off    time.Duration
		taken  time.Duration // with a successor, from its start on
		heired bool
	}{
		"set forward":               {off: -3 * time.Hour, taken: 6 * time.Second},
		"set back":                  {off: 3 * time.Hour, taken: 6 * time.Second},
		"a successor":               {heired: true, taken: 7 * time.Second},
		"a successor, clock behind": {heired: true, off: 3 * time.Hour, taken: 7 * time.Second},
		"a successor, clock ahead":  {heired: true, off: -3 * time.Hour, taken: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &handleOnly{}
				task := &driver.Task{Node: &node.Document{UUID: nodeA}, Record: r, Args: map[string]any{"seconds": 7.0}}
				w := new(wait)
				if out, err := w.run(t.Context(), task); err != nil || out != driver.Wait(7*time.Second) {
					t.Fatalf("begun: %+v, %v", out, err)
				}
				time.Sleep(time.Second)
				var h waiting
				if err := json.Unmarshal(r.raw, &h); err != nil {
					t.Fatal(err)
				}
				h.Until = h.Until.Add(c.off)
				r.raw, _ = json.Marshal(h)
				if c.heired {
					w = new(wait)
				}
				begin := time.Now()
				for {
					out, err := w.run(t.Context(), task)
					if err != nil {
						t.Fatal(err)
					}
					left, waits := out.Waiting()
					if !waits {
						break
					}
					time.Sleep(left)
				}
				if took := time.Since(begin); took != c.taken {
					t.Errorf("took %s more, want %s", took, c.taken)
				}
			})
		})
	}
}

// What was left is written now and then, so that a wait with a successor is little longer than without.
func TestWhatIsLeftOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begin := &handleOnly{}, time.Now()
		task := &driver.Task{Node: &node.Document{UUID: nodeA}, Record: r, Args: map[string]any{"seconds": 600.0}}
		w := new(wait)
		for {
			out, err := w.run(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			left, waits := out.Waiting()
			if !waits {
				break
			}
			time.Sleep(left)
			if since := time.Since(begin); since > 200*time.Second && since <= 230*time.Second {
				w = new(wait)
			}
		}
		if took := time.Since(begin); took < 600*time.Second || took > 600*time.Second+keepEvery {
			t.Errorf("took %s", took)
		}
	})
}

// A wait that is longer than a step may wait is refused, and not cut.
func TestLongestWait(t *testing.T) {
	for given, want := range map[float64]time.Duration{0: 0, 1.5: 1500 * time.Millisecond, 1800: longestWait, 1800.5: -1, 1e11: -1, 1e300: -1, -1: -1} {
		got, _, err := secondsOf(&node.Document{}, map[string]any{"seconds": given})
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%v seconds: %v, %v, want %v", given, got, err, want)
		}
	}
}
