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

// resetting is a machine with a disk at AHCI and one at a SAS controller, which is reset at second 100 and shows its disk again at back.
type resetting struct {
	began time.Time
	back  int
	quiet bool // the controller does not show that it is reset: other disks of it are there
}

func (m resetting) second() int { return int(time.Since(m.began) / time.Second) }
func (m resetting) away() bool  { return m.second() >= 100 && m.second() < m.back }

func (m resetting) Look() ([]agentapi.Disk, []agentapi.UnfitDisk) {
	out := []agentapi.Disk{{Name: "/dev/sda", Size: 480 << 30, Serial: "BOOT"}}
	if !m.away() {
		out = append(out, agentapi.Disk{Name: "/dev/sdb", Size: 960 << 30, Serial: "TENANT"})
	}
	return out, nil
}

func (resetting) Appeared([]agentapi.Disk) (time.Duration, bool) { return 0, false }
func (resetting) Complete() bool                                 { return false }

func (m resetting) Pending() []string {
	if m.away() && !m.quiet {
		return []string{"0000:02:00.0"}
	}
	return nil
}

// The node was not inspected by the agent. An erasure begins while a controller is reset, and the watch has shown the disk behind it
// before. The disk is waited for, and the erasure fails by its name if it does not come.
func TestADiskThatHasLeftIsMissed(t *testing.T) {
	for name, c := range map[string]struct {
		m      resetting
		known  bool // all disks of the last inspection are there
		forget bool // the machine's volumes were changed on purpose
		want   int  // second of the answer
		disks  int
		err    string
	}{
		"it comes back":                              {m: resetting{back: 160}, want: 165, disks: 2},
		"its controller has 90 s from then":          {m: resetting{back: 1000}, want: 195, disks: 1, err: `gone: /dev/sdb (serial "TENANT", WWN "", 1030792151040 bytes)`},
		"it comes at the end of them":                {m: resetting{back: 192}, want: 195, disks: 2, err: "the list of this machine's disks still changes"},
		"its controller shows others":                {m: resetting{back: 1000, quiet: true}, want: 115, disks: 1, err: "/dev/sdb"},
		"it is not among those that are to be there": {m: resetting{back: 1000}, known: true, want: 110, disks: 1},
		"its volume was deleted":                     {m: resetting{back: 1000, quiet: true}, forget: true, want: 110, disks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.m.began = time.Now()
				w := New(c.m, slog.New(slog.DiscardHandler))
				time.Sleep(50 * time.Second) // its steps are asked for, or the inventory
				if disks, err := w.Settled(t.Context(), false, need(2)); err != nil || len(disks) != 2 {
					t.Fatalf("before: %v, %v", disks, err)
				}
				time.Sleep(55 * time.Second)
				if c.forget {
					w.Forget()
				}
				disks, err := w.Settled(t.Context(), c.known, need(1))
				if got := c.m.second(); got != c.want || len(disks) != c.disks {
					t.Errorf("at %d s: %d disks, want %d s and %d", got, len(disks), c.want, c.disks)
				}
				if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
			})
		})
	}
}
