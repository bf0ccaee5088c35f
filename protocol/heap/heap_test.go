package heap

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, Small: 100, 9 << 20: 90, 2 * Small: 75, 4 * Small: 60, Room: 55, 2*Room - Small: 50, 2 * Room: 50, 3 * Room: 30, 4 * Room: 25, 100 * Room: 25, 1 << 60: 25} {
		if got := percent(live); got != want {
			t.Errorf("with %d MiB in use garbage may be %d %%, want %d", live>>20, got, want)
		}
	}
	for live := uint64(Small); live < 4*Room; live += 1 << 20 {
		if garbage := live * uint64(percent(live)) / 100; garbage > Room {
			t.Errorf("with %d MiB in use garbage may grow to %d MiB", live>>20, garbage>>20)
		}
	}
}

func TestEnvironmentDecides(t *testing.T) {
	for name, want := range map[string]bool{"GOGC": true, "GOMEMLIMIT": true, "GOMAXPROCS": false} {
		if got := decided(func(asked string) string {
			if asked == name {
				return "50"
			}
			return ""
		}); got != want {
			t.Errorf("with %s set: decided %v", name, got)
		}
	}
}

// What lives is followed, and the default comes back at the end.
func TestKeepFollowsWhatLives(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	held := make([]byte, 4*Room)
	debug.FreeOSMemory() // a collection
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); Keep(ctx) }()
		time.Sleep(every + time.Second)
		synctest.Wait()
		if got := debug.SetGCPercent(leastPercent); got != leastPercent {
			t.Errorf("with %d MiB in use garbage may be %d %%, want %d", len(held)>>20, got, leastPercent)
		}
		cancel()
		<-done
		if got := debug.SetGCPercent(100); got != 100 {
			t.Errorf("garbage may be %d %% at the end, want Go's 100", got)
		}
	})
	held[0] = 1
}
