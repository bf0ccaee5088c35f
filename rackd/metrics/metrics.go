// Package metrics holds every metric name of rackd in one place. The docs table
// (docs/metrics.md) is checked against it.
//
// It may import protocol only.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/protocol/work"
)

// Metrics of one rackd; implements conductor.Metrics. Safe for concurrent use.
type Metrics struct {
	taken, ended *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	step         *prometheus.HistogramVec
	fenced       prometheus.Counter
	owned        prometheus.Gauge
}

// New registers rackd's metrics with reg. leaseAge returns the age of the lease,
// negative for none; nodes the number of nodes in memory.
func New(reg prometheus.Registerer, leaseAge func() time.Duration, nodes func() int) *Metrics {
	m := &Metrics{
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_work_taken_total",
			Help: "Pieces of work this rackd has taken, by verb; a takeover counts again."}, []string{"verb"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_work_ended_total",
			Help: "Pieces of work this rackd has ended, by verb and result (ok, failed)."}, []string{"verb", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ironyard_rackd_work_seconds",
			Help: "Time from request to end of work, by verb.", Buckets: prometheus.ExponentialBuckets(0.05, 3, 10)}, []string{"verb"}),
		step: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ironyard_rackd_step_run_seconds",
			Help: "Time of one run of a step, by step and result (ok, failed).", Buckets: prometheus.ExponentialBuckets(0.005, 4, 9)}, []string{"step", "result"}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_fenced_total",
			Help: "Side effects not begun because the lease or the epoch was lost."}),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ironyard_rackd_work_running",
			Help: "Pieces of work running now."}),
	}
	reg.MustRegister(m.taken, m.ended, m.duration, m.step, m.fenced, m.owned,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ironyard_rackd_lease_age_seconds",
			Help: "Seconds since the lease was confirmed; negative: never."}, func() float64 { return leaseAge().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ironyard_rackd_nodes",
			Help: "Nodes of the conductor group in memory."}, func() float64 { return float64(nodes()) }))
	return m
}

func result(ok bool) string {
	if ok {
		return "ok"
	}
	return "failed"
}

// WorkTaken counts a piece of work that was taken.
func (m *Metrics) WorkTaken(v work.Verb) { m.taken.WithLabelValues(string(v)).Inc() }

// WorkEnded counts a piece of work that ended, took after its request.
func (m *Metrics) WorkEnded(v work.Verb, ok bool, took time.Duration) {
	m.ended.WithLabelValues(string(v), result(ok)).Inc()
	m.duration.WithLabelValues(string(v)).Observe(took.Seconds())
}

// StepRan records one run of a step.
func (m *Metrics) StepRan(name string, took time.Duration, err error) {
	m.step.WithLabelValues(name, result(err == nil)).Observe(took.Seconds())
}

// Fenced counts a side effect that was not begun.
func (m *Metrics) Fenced() { m.fenced.Inc() }

// OwnedWork sets the number of pieces of work that run now.
func (m *Metrics) OwnedWork(n int) { m.owned.Set(float64(n)) }
