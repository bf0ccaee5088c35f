package diskwatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// machine shows disk i from the second at[i] on; flap comes and goes every two seconds.
type machine struct {
	began   time.Time
	at      map[string]int
	flap    string
	pending int  // controllers show no disk until this second
	shown   bool // each controller has shown what it has
	was     int  // for so many seconds the first disks have been there when the agent begins; 0: the machine does not know
}

func (m machine) second() int { return int(time.Since(m.began) / time.Second) }

func (m machine) Look() (out []agentapi.Disk, unfit []agentapi.UnfitDisk) {
	for _, name := range []string{"sda", "sdb", "sdc"} {
		if at, there := m.at[name]; there && m.second() >= at {
			out = append(out, agentapi.Disk{Name: name, Size: 1, Serial: name})
		}
	}
	if m.flap != "" && m.second()/2%2 == 0 {
		out = append(out, agentapi.Disk{Name: m.flap, Size: 1})
	}
	return out, []agentapi.UnfitDisk{{Disk: agentapi.Disk{Name: "/dev/sdz"}, Why: "read-only"}}
}

func (m machine) Appeared([]agentapi.Disk) (time.Duration, bool) {
	return time.Duration(m.was) * time.Second, m.was > 0
}

func (m machine) Complete() bool { return m.shown }

func (m machine) Pending() []string {
	if m.second() < m.pending {
		return []string{"0000:02:00.0"}
	}
	return nil
}

var errMissing = errors.New("a disk is missing")

// need is a check for so many disks.
func need(n int) Check {
	return func(disks []agentapi.Disk, _ []agentapi.UnfitDisk) error {
		if len(disks) < n {
			return errMissing
		}
		return nil
	}
}

// What a stable list is: the second of the call, what the machine does, and when the wait ends with what.
func TestWhenAListIsStable(t *testing.T) {
	for _, c := range []struct {
		name     string
		m        machine
		call     int // second of the call
		complete bool
		need     int
		want     int // second of the answer
		disks    int
		err      string
	}{
		{name: "all there from the start", m: machine{at: map[string]int{"sda": 0, "sdb": 0}}, call: 7, want: 7, disks: 2},
		{name: "the command comes at once", m: machine{at: map[string]int{"sda": 0}}, want: 5, disks: 1},
		{name: "it was there before the agent", m: machine{at: map[string]int{"sda": 0}, was: 3}, want: 2, disks: 1},
		{name: "it was there long before the agent", m: machine{at: map[string]int{"sda": 0}, was: 60}, want: 0, disks: 1},
		{name: "no disk can be missing", m: machine{at: map[string]int{"sda": 0}, shown: true}, want: 0, disks: 1},
		{name: "none could, but one was plugged in", m: machine{at: map[string]int{"sda": 0, "sdb": 2}, shown: true}, call: 3, want: 8, disks: 2},
		{name: "it was, and another comes", m: machine{at: map[string]int{"sda": 0, "sdb": 2}, was: 3}, call: 2, want: 7, disks: 2},
		{name: "one came between the agent's start and the command", m: machine{at: map[string]int{"sda": 0, "sdb": 6}}, call: 7, want: 12, disks: 2},
		{name: "one after the other", m: machine{at: map[string]int{"sda": 0, "sdb": 4, "sdc": 8}}, want: 13, disks: 3},
		{name: "a controller takes 60 s, another was quick", m: machine{at: map[string]int{"sda": 0, "sdb": 60}, pending: 60}, want: 65, disks: 2},
		{name: "a controller without disks is waited for until the bound", m: machine{at: map[string]int{"sda": 0}, pending: 1000}, want: 90, disks: 1},
		{name: "but not where all known disks are there", m: machine{at: map[string]int{"sda": 0}, pending: 1000}, complete: true, need: 1, want: 5, disks: 1},
		{name: "a known disk comes late", m: machine{at: map[string]int{"sda": 0, "sdb": 70}}, complete: true, need: 2, want: 75, disks: 2},
		{name: "a known disk does not come", m: machine{at: map[string]int{"sda": 0}}, complete: true, need: 2, want: 90, disks: 1, err: errMissing.Error()},
		{name: "nor long after the agent's start", m: machine{at: map[string]int{"sda": 0}}, call: 600, complete: true, need: 2, want: 610, disks: 1, err: errMissing.Error()},
		{name: "a disk that comes and goes", m: machine{at: map[string]int{"sda": 0}, flap: "sdx"}, want: 90, disks: 1, err: "still changes after 1m30s (gone: sdx"},
		{name: "no disk at all", need: 1, want: 90, err: errMissing.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.m.began = time.Now()
				w := New(c.m, slog.New(slog.DiscardHandler))
				time.Sleep(time.Duration(c.call) * time.Second)
				disks, err := w.Settled(t.Context(), c.complete, need(c.need))
				if got := c.m.second(); got != c.want || len(disks) != c.disks {
					t.Errorf("after %d s: %d disks, want %d s and %d", got, len(disks), c.want, c.disks)
				}
				if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			})
		})
	}
}

func TestAWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m := machine{began: time.Now()}
		if _, err := New(m, slog.New(slog.DiscardHandler)).Settled(ctx, false, need(1)); !errors.Is(err, context.DeadlineExceeded) || m.second() != 3 {
			t.Errorf("%v after %d s", err, m.second())
		}
	})
}
