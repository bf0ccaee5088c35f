package conductor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
)

// A machine that does not boot its volume tries every ten seconds, on a node without work. The node's history has a line of it, and another
// one once it has gone on for long. Other signs of such a machine have none.
func TestAVolumeThatDoesNotBootIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, stop := conductorOn(t, s, "a", owned("a"), &machine{}, nil)
		defer stop()
		lines := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, e := range s.events {
				for _, l := range e.Lines() {
					if e.Kind == work.HardwareObserved && e.Node == nodeA && l.Phase == ask.SignVolume && strings.Contains(l.Detail, "has not booted") {
						n++
					}
				}
			}
			return n
		}
		try := func(times int) {
			for range times {
				c.Seen(ask.Sign{Address: strings.ToUpper(macA), Phase: ask.SignVolume, Detail: "the machine has not booted its volume"})
				c.Seen(ask.Sign{Address: macA, Phase: "script", Detail: "volume, state active: it has not booted"})
				time.Sleep(10 * time.Second)
			}
			synctest.Wait()
		}
		try(6 * 9)
		if n := lines(); n != 1 {
			t.Errorf("in nine minutes the history got %d lines, want 1", n)
		}
		try(6 * 2)
		if n := lines(); n != 2 {
			t.Errorf("in eleven minutes the history got %d lines, want 2", n)
		}
		s.mu.Lock()
		s.cut = true
		s.mu.Unlock()
		try(6 * 20)
		s.mu.Lock()
		s.cut = false
		s.mu.Unlock()
		try(2)
		if n := lines(); n != 3 {
			t.Errorf("after a time without the bus the history has %d lines, want 3", n)
		}
		time.Sleep(unbootedAgain)
		s.mu.Lock()
		s.mute = true
		s.mu.Unlock()
		try(6 * 5)
		s.mu.Lock()
		s.mute = false
		s.mu.Unlock()
		try(6 * 4)
		if n := lines(); n != 4 {
			t.Errorf("after five minutes in which the bus took events and did not confirm them, the history has %d lines, want 4", n)
		}
	})
}
