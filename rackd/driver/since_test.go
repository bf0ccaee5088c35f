package driver

import (
	"testing"
	"testing/synctest"
	"time"
)

// A rackd whose clock is two hours off takes a step that waits: the wait neither ends at once nor lasts two hours more.
func TestSinceCountsFromTheTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := &Task{}
		noted := time.Now()
		time.Sleep(time.Minute)
		if d := own.Since(noted); d != time.Minute {
			t.Errorf("its own note counts %s, want 1m", d)
		}
		if d := own.Since(time.Now().Add(time.Hour)); d != 0 {
			t.Errorf("a note from after its clock was set back counts %s, want 0", d)
		}
		taken := &Task{Taken: time.Now()}
		behind, ahead := time.Now().Add(-2*time.Hour), time.Now().Add(2*time.Hour)
		time.Sleep(time.Minute)
		for name, at := range map[string]time.Time{"behind": behind, "ahead": ahead} {
			if d := taken.Since(at); d != time.Minute {
				t.Errorf("a note of another rackd, whose clock is %s, counts %s, want 1m", name, d)
			}
		}
		noted = time.Now()
		time.Sleep(time.Second)
		if d := taken.Since(noted); d != time.Second {
			t.Errorf("its own note, after it took the work, counts %s, want 1s", d)
		}
	})
}
