package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Strangers who ask for boot scripts have the bus read at a pace that does not grow with them, and what a machine is
// told was read after it asked.
func TestAFloodOfScriptsReadsTheBusAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reads, clock := newLooks(), atomic.Int64{}, atomic.Int64{}
		errs, stale := atomic.Int64{}, atomic.Int64{}
		began := map[string]int64{}
		var mu sync.Mutex
		var g sync.WaitGroup
		const seconds, askers = 10, 2000
		end := time.Now().Add(seconds * time.Second)
		for i := range askers {
			node := fmt.Sprint(i % 1000)
			g.Go(func() {
				for time.Now().Before(end) {
					asked := clock.Add(1)
					ctx, cancel := context.WithTimeout(t.Context(), lookWithin)
					err := l.at(ctx, node, func(context.Context) error {
						reads.Add(1)
						mu.Lock()
						began[node] = clock.Add(1)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						return nil
					})
					cancel()
					mu.Lock()
					if err == nil && began[node] < asked {
						stale.Add(1)
					}
					mu.Unlock()
					if err != nil {
						errs.Add(1)
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		g.Wait()
		if most := int64(looksAtOnce + (seconds+2)*looksPerSecond); reads.Load() > most || reads.Load() < most/2 {
			t.Errorf("%d askers had the bus read %d times in %d s, want at most %d", askers, reads.Load(), seconds, most)
		}
		if stale.Load() > 0 {
			t.Errorf("%d answers were read before they were asked for", stale.Load())
		}
		t.Logf("%d reads, %d refusals", reads.Load(), errs.Load())
	})
}

// A machine is told why it has to ask again.
func TestALookThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		broken := errors.New("the bus is broken")
		for i := range looksAtOnce {
			if err := l.at(t.Context(), fmt.Sprint(i), func(context.Context) error { return broken }); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if err := l.at(ctx, "a", func(context.Context) error { return nil }); err == nil || !strings.Contains(err.Error(), "too many machines") {
			t.Error(err)
		}
		if err := l.at(t.Context(), "a", func(context.Context) error { return nil }); err != nil {
			t.Error("a node that could not be looked at cannot be any more:", err)
		}
	})
}
