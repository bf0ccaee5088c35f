package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkMemory prints what a rackd with 10,000 nodes, or with those of two others too,
// one in twenty in the middle of work, takes of memory: when it has just read them, and
// at its most while central writes each node's document anew.
func BenchmarkMemory(b *testing.B) {
	for _, nodes := range []int{10_000, 30_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { measureMemory(b, nodes) })
	}
}

func measureMemory(b *testing.B, nodes int) {
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
		b.ReportMetric(d.megabytes(b, "VmRSS"), "MB")
		r.fill(b, r.nodes)
		b.ReportMetric(d.megabytes(b, "VmHWM"), "peak-MB")
	}
	b.ReportMetric(float64(len(packed(b, r.key, document(r.key, r.nodes[0], 0)))), "bytes/document")
	b.ReportMetric(0, "ns/op") // says nothing
}
