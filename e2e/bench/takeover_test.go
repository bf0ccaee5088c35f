package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
)

// How often each size loses a rackd, by SIGKILL and by SIGTERM.
const (
	presetKills = 20
	stops       = 5
)

func kills(b *testing.B) int {
	text := os.Getenv("IRONYARD_BENCH_KILLS")
	if text == "" {
		return presetKills
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("IRONYARD_BENCH_KILLS is %q: want a number above 0", text)
	}
	return n
}

// BenchmarkTakeover kills rackds that serve so many nodes each, one in twenty of them in
// the middle of a deploy, a cleaning or an inspection, and prints the seconds from the
// signal until the last piece of work had a new owner (takeover) and until each of a
// sample of nodes was answered for by another rackd (served); then the same for rackds
// that are asked to stop (handover).
func BenchmarkTakeover(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			r := newRack(ctx, b, 3, nodes)
			for b.Loop() {
				r.killOften(ctx, b)
				r.stopOften(ctx, b)
			}
			b.ReportMetric(r.syncTime(ctx, b).Seconds()*1e3, "ms/write")
			b.ReportMetric(0, "ns/op") // says nothing
		})
	}
}

func (r *rack) killOften(ctx context.Context, b *testing.B) {
	var expired, taken, served []time.Duration
	n := kills(b)
	for i := range n {
		victim := r.rackds[i%len(r.rackds)]
		r.awaitPhase(b, victim.name, float64(i)/float64(n))
		l := r.lose(ctx, b, victim, syscall.SIGKILL)
		b.Logf("kill %d: gone after %v, work taken after %v, served after %v", i+1, l.expired.Round(time.Millisecond), l.taken.Round(time.Millisecond), l.served.Round(time.Millisecond))
		expired, taken, served = append(expired, l.expired), append(taken, l.taken), append(served, l.served)
		r.restore(ctx, b, victim)
	}
	b.ReportMetric(quantile(expired, 0.5), "expiry-p50-s")
	b.ReportMetric(quantile(taken, 0.5), "takeover-p50-s")
	b.ReportMetric(quantile(taken, 0.99), "takeover-p99-s")
	b.ReportMetric(quantile(served, 0.5), "served-p50-s")
	b.ReportMetric(quantile(served, 0.99), "served-p99-s")
}

func (r *rack) stopOften(ctx context.Context, b *testing.B) {
	var taken []time.Duration
	for i := range min(stops, kills(b)) {
		victim := r.rackds[i%len(r.rackds)]
		l := r.lose(ctx, b, victim, syscall.SIGTERM)
		b.Logf("stop %d: gone after %v, work taken after %v, served after %v", i+1, l.expired.Round(time.Millisecond), l.taken.Round(time.Millisecond), l.served.Round(time.Millisecond))
		taken = append(taken, l.taken)
		r.restore(ctx, b, victim)
	}
	b.ReportMetric(quantile(taken, 0.5), "handover-p50-s")
	b.ReportMetric(quantile(taken, 1), "handover-max-s")
}

// awaitPhase returns when a rackd's lease is so old, in renewals. How long a lease still
// runs after a kill hangs on that, so the kills are spread over it evenly.
func (r *rack) awaitPhase(b *testing.B, rackd string, phase float64) {
	b.Helper()
	r.mu.Lock()
	last := r.renewed[rackd]
	r.mu.Unlock()
	wait := time.Until(last.Add(time.Duration(phase * float64(bus.LeaseRenew))))
	if wait < 0 {
		wait += (-wait/bus.LeaseRenew + 1) * bus.LeaseRenew
	}
	time.Sleep(wait)
}

// good reports whether a rackd answered rather than refused.
func good(data []byte) bool {
	var reply ask.Reply
	return json.Unmarshal(data, &reply) == nil && reply.Error == nil
}
