// Package heap bounds the memory that a daemon takes besides what it holds.
//
// Go lets as much garbage grow as there is live memory before it collects it. That is
// right for a small process; one that holds the documents of 100,000 nodes for as long
// as it runs would take twice what it needs. Here garbage grows to the size of what
// lives while that is Small, by half of what lives beyond that, but not beyond Room, and
// to a quarter of what lives at least, so that a large process does not collect all the
// time.
//
// It may import nothing of the project. Whoever sets GOGC or GOMEMLIMIT in the
// environment has decided for themselves: then nothing here changes anything.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Small is how much may live while there may be as much garbage.
	Small = 8 << 20
	// Room is how much garbage may grow at most, unless leastPercent is more.
	Room = 48 << 20
)

// leastPercent of what lives may always be garbage.
const leastPercent = 25

// every is how often what lives is looked at.
const every = 2 * time.Second

// decided reports whether the environment says how memory is collected.
func decided(env func(string) string) bool { return env("GOGC") != "" || env("GOMEMLIMIT") != "" }

// Keep adapts the garbage collector to what the process holds until ctx ends, and leaves
// it as Go's default then. One call of it runs in a process.
func Keep(ctx context.Context) {
	if decided(os.Getenv) {
		return
	}
	defer debug.SetGCPercent(100)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for now := 100; ; {
		if want := percent(live()); want != now {
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Release gives back to the operating system what a passing effort took, such as
// reading all documents at a start. It stops the process for some milliseconds.
func Release() {
	if !decided(os.Getenv) {
		debug.FreeOSMemory()
	}
}

// live is how many bytes were in use at the end of the last collection.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// percent is the garbage that may grow with so many bytes in use, for SetGCPercent; in
// steps, because each change stops the process for a moment.
func percent(live uint64) int {
	if live <= Small {
		return 100
	}
	const step = 5
	garbage := min(Small+(live-Small)/2, Room)
	return max(leastPercent, int(100*garbage/live)/step*step)
}
