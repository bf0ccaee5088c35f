package bench

import (
	"context"
	"encoding/json"
	"testing"
	"time"
)

// BenchmarkMemory prints what a rackd with 10,000 nodes, one in twenty in the middle of
// work, takes of memory: settled, and at its most since it began to read them.
func BenchmarkMemory(b *testing.B) {
	const nodes = 10_000
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := newRack(ctx, b, 1, nodes)
	d := r.rackds[0]
	for b.Loop() {
		d.kill()
		began := time.Now()
		d.start(b)
		d.ready(b)
		b.ReportMetric(time.Since(began).Seconds(), "ready-s")
		r.until(b, time.Minute, "its work runs again", func() bool {
			for _, id := range r.busy {
				if e := r.works[id]; e.doc.Epoch < 2 || !underWay(&e.doc) {
					return false
				}
			}
			return true
		})
		b.ReportMetric(steady(b, d), "MB")
		b.ReportMetric(d.megabytes(b, "VmHWM"), "peak-MB")
	}
	body, err := json.Marshal(document(r.key, r.nodes[0], 0))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(body)), "bytes/document")
	b.ReportMetric(0, "ns/op") // says nothing
}

// steady is the most that a rackd takes in half a minute of rest, in MB.
func steady(b *testing.B, r *rackd) (most float64) {
	b.Helper()
	for range 30 {
		time.Sleep(time.Second)
		most = max(most, r.megabytes(b, "VmRSS"))
	}
	return most
}
