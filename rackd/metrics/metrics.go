// Package metrics holds every metric name of rackd in one place. The docs table
// (docs/metrics.md) is checked against it.
//
// It may import protocol only.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/work"
)

// Metrics of one rackd; implements conductor.Metrics. Safe for concurrent use.
type Metrics struct {
	taken, ended *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	step         *prometheus.HistogramVec
	takeover     prometheus.Histogram
	fenced       prometheus.Counter
	released     prometheus.Counter
	owned        prometheus.Gauge
	reread       *prometheus.CounterVec
	refused      *prometheus.CounterVec
	handedOn     *prometheus.CounterVec
	forged       *prometheus.CounterVec
	powerReads   *prometheus.CounterVec
	tasks        *prometheus.CounterVec
	events       *prometheus.CounterVec
	overflows    prometheus.Counter
	agents       *prometheus.CounterVec
	consoles     *prometheus.CounterVec
	consoleBytes *prometheus.CounterVec
	copies       *prometheus.CounterVec
	copyBytes    prometheus.Counter
}

// BMC counts calls to BMCs. Drivers are made before all else that is counted. It is safe for concurrent use.
type BMC struct{ calls *prometheus.CounterVec }

// NewBMC registers a BMC with reg.
func NewBMC(reg prometheus.Registerer) *BMC {
	m := &BMC{calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_bmc_calls_total",
		Help: "Calls to BMCs and what stands in for them, each of one or more requests, by hardware type, vendor (a short list; other, unknown) and result (ok, or the class of the failure: unknown, unreachable, denied, busy, invalid, unsupported, refused, fenced)."}, []string{"driver", "vendor", "result"})}
	reg.MustRegister(m.calls)
	return m
}

// BMCCalled counts a call.
func (m *BMC) BMCCalled(hardwareType, vendor, result string) {
	m.calls.WithLabelValues(hardwareType, vendor, result).Inc()
}

// Share is what a rackd has of its conductor groups.
type Share struct {
	Nodes int // in memory
	Owned int // of them, those that the ring gives to this rackd
	// Work is the open work that this rackd holds, by the node's state.
	Work map[string]int
}

// Sources are asked at each scrape.
type Sources struct {
	LeaseAge func() time.Duration // negative: never confirmed
	Members  func() int           // live rackds of the site
	Share    func() Share
	// Consoles counts the consoles that this rackd holds, and those of them that are open.
	Consoles func() (all, open int)
	// LateKeys is how many nodes' documents are sealed with keys that this rackd does not have.
	LateKeys func() int
}

// New registers rackd's metrics with reg.
func New(reg prometheus.Registerer, from Sources) *Metrics {
	m := &Metrics{
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_work_taken_total",
			Help: "Pieces of work this rackd has taken, by verb; a takeover counts again."}, []string{"verb"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_work_ended_total",
			Help: "Pieces of work this rackd has ended, by verb and result (ok, failed)."}, []string{"verb", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ironyard_rackd_work_seconds",
			Help: "Time from request to end of work, by verb.", Buckets: prometheus.ExponentialBuckets(0.05, 3, 10)}, []string{"verb"}),
		step: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ironyard_rackd_step_run_seconds",
			Help: "Time of one run of a step, by step and result (ok, failed).", Buckets: prometheus.ExponentialBuckets(0.005, 4, 9)}, []string{"step", "result"}),
		takeover: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ironyard_rackd_takeover_seconds",
			Help:    "Time from a dead rackd's last sign of life until this rackd took a piece of its work.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 3, 4, 5, 7.5, 10, 30, 60}}),
		released: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_work_released_total",
			Help: "Pieces of work given to another rackd between two steps, because the ring names it."}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_fenced_total",
			Help: "Side effects not begun because the lease or the epoch was lost."}),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ironyard_rackd_work_running",
			Help: "Pieces of work running now."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_bus_refused_total",
			Help: "Documents of the bus that were not taken, by bucket. Lies 1: they say what their key does not allow, look for the alarm in the log; 0: they cannot be read."}, []string{"bucket", "lies"}),
		reread: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_bucket_reread_total",
			Help: "Times a bucket was read again from its beginning: the bus was away or had lost what it held."}, []string{"bucket"}),
		overflows: prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_bus_overflows_total",
			Help: "Times a subscription on the bus began to lose messages, because they were not taken fast enough; they come again, later."}),
		handedOn: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_handed_on_total",
			Help: "Calls of agents and signs of machines handed on to the rackd that runs the node's work, by method and result (ok, failed)."}, []string{"method", "result"}),
		forged: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_forged_documents_total",
			Help: "Documents of the bus that central did not make, by bucket: nothing was done with them. Any is a reason for an alarm."}, []string{"bucket"}),
		powerReads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_power_reads_total",
			Help: "Reads of idle machines' power states, by result (ok, unreachable, denied, failed)."}, []string{"result"}),
		tasks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_task_runs_total",
			Help: "Runs of periodic tasks for idle nodes, by task (power, sensors, event-log, boot-order, bmc-events, and those of hardware types, as TYPE.NAME) and result (ok, unsupported, unreachable, denied, failed)."}, []string{"task", "result"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_bmc_events_total",
			Help: "Events that BMCs told, for each node that they may be of, by way (stream, post), severity (ok, warning, critical, unknown) and result (shown: in the node's history, left_out: there were too many, failed: the bus was away)."}, []string{"way", "severity", "result"}),
		agents: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_agents_refused_total",
			Help: "Calls of agents that were refused, by call (lookup, heartbeat, inspection) and reason: only the machine that was booted last is to make them."}, []string{"call", "reason"}),
	}
	m.consoles = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_consoles_opened_total",
		Help: "Attempts to open a machine's console, by result (ok, unreachable, denied, failed)."}, []string{"result"})
	m.consoleBytes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_console_bytes_total",
		Help: "Bytes of consoles, by direction (written by machines, typed by people)."}, []string{"direction"})
	m.copies = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_console_copies_total",
		Help: "Writes of copies of consoles' logs to the site's bus, by result (ok, failed, conflict: another rackd has written there)."}, []string{"result"})
	m.copyBytes = prometheus.NewCounter(prometheus.CounterOpts{Name: "ironyard_rackd_console_copy_bytes_total",
		Help: "Bytes of copies of consoles' logs that were written to the site's bus."})
	reg.MustRegister(m.consoles, m.consoleBytes, m.copies, m.copyBytes, m.agents, m.taken, m.ended, m.duration, m.step, m.takeover, m.released, m.fenced, m.owned, m.reread, m.refused, m.handedOn, m.forged, m.powerReads, m.tasks, m.events, m.overflows,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ironyard_rackd_lease_age_seconds",
			Help: "Seconds since the lease was confirmed; negative: never."}, func() float64 { return from.LeaseAge().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ironyard_rackd_members",
			Help: "Live rackds of the site, this one included."}, func() float64 { return float64(from.Members()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ironyard_rackd_late_keys",
			Help: "Nodes whose documents are sealed with a key that this rackd does not have: others of the group serve them. For long it is a reason for an alarm."},
			func() float64 { return float64(from.LateKeys()) }),
		share{from.Share}, consoles{from.Consoles})
	return m
}

var (
	nodesDesc = prometheus.NewDesc("ironyard_rackd_nodes", "Nodes in memory: those of this rackd's conductor group and of the groups that it stands in for.", nil, nil)
	ownedDesc = prometheus.NewDesc("ironyard_rackd_nodes_owned", "Nodes that the ring gives to this rackd.", nil, nil)
	workDesc  = prometheus.NewDesc("ironyard_rackd_work_owned", "Open work that this rackd holds, by the node's provision state.", []string{"state"}, nil)
)

var consolesDesc = prometheus.NewDesc("ironyard_rackd_consoles", "Consoles that this rackd holds, by state (open, waiting).", []string{"state"}, nil)

// consoles collects Sources.Consoles.
type consoles struct{ of func() (all, open int) }

// Describe implements prometheus.Collector.
func (consoles) Describe(to chan<- *prometheus.Desc) { to <- consolesDesc }

// Collect implements prometheus.Collector.
func (c consoles) Collect(to chan<- prometheus.Metric) {
	all, open := c.of()
	to <- prometheus.MustNewConstMetric(consolesDesc, prometheus.GaugeValue, float64(open), "open")
	to <- prometheus.MustNewConstMetric(consolesDesc, prometheus.GaugeValue, float64(all-open), "waiting")
}

// share collects Share, which is computed once for each scrape.
type share struct{ of func() Share }

// Describe implements prometheus.Collector.
func (share) Describe(to chan<- *prometheus.Desc) {
	to <- nodesDesc
	to <- ownedDesc
	to <- workDesc
}

// Collect implements prometheus.Collector.
func (c share) Collect(to chan<- prometheus.Metric) {
	s := c.of()
	to <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(s.Nodes))
	to <- prometheus.MustNewConstMetric(ownedDesc, prometheus.GaugeValue, float64(s.Owned))
	for state, n := range s.Work {
		to <- prometheus.MustNewConstMetric(workDesc, prometheus.GaugeValue, float64(n), state)
	}
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

// AgentRefused counts a call of an agent that was refused.
func (m *Metrics) AgentRefused(call, why string) { m.agents.WithLabelValues(call, why).Inc() }

// Fenced counts a side effect that was not begun.
func (m *Metrics) Fenced() { m.fenced.Inc() }

// OwnedWork sets the number of pieces of work that run now.
func (m *Metrics) OwnedWork(n int) { m.owned.Set(float64(n)) }

// TakenOver records that work of a dead rackd was taken, took after its last sign of life.
func (m *Metrics) TakenOver(took time.Duration) { m.takeover.Observe(took.Seconds()) }

// Released counts a piece of work that was given to another rackd.
func (m *Metrics) Released() { m.released.Inc() }

// PowerRead counts a read of a machine's power state.
func (m *Metrics) PowerRead(result string) { m.powerReads.WithLabelValues(result).Inc() }

// BMCEventHeard counts an event that a BMC told.
func (m *Metrics) BMCEventHeard(way, severity, result string) {
	m.events.WithLabelValues(way, severity, result).Inc()
}

// TaskRan counts a run of a periodic task.
func (m *Metrics) TaskRan(task, result string) { m.tasks.WithLabelValues(task, result).Inc() }

// Forged counts a document of a bucket that central did not make.
func (m *Metrics) Forged(bucket string) { m.forged.WithLabelValues(bucket).Inc() }

// Overflowed counts a subscription that begins to lose messages.
func (m *Metrics) Overflowed() { m.overflows.Inc() }

// Reread counts a bucket that was read anew.
func (m *Metrics) Reread(bucket string) { m.reread.WithLabelValues(bucket).Inc() }

// Refused counts a document of the bus that was not taken.
func (m *Metrics) Refused(bucket string, lies bool) {
	label := "0"
	if lies {
		label = "1"
	}
	m.refused.WithLabelValues(bucket, label).Inc()
}

// HandedOn counts what was handed on to another rackd.
func (m *Metrics) HandedOn(method ask.Method, ok bool) {
	m.handedOn.WithLabelValues(string(method), result(ok)).Inc()
}

// ConsoleOpened counts an attempt to open a console.
func (m *Metrics) ConsoleOpened(result string) { m.consoles.WithLabelValues(result).Inc() }

// ConsoleCopied counts a write of the copy of a console's log, and its bytes.
func (m *Metrics) ConsoleCopied(result string, bytes int) {
	m.copies.WithLabelValues(result).Inc()
	m.copyBytes.Add(float64(bytes))
}

// ConsoleBytes counts what machines wrote to their consoles, and what was typed.
func (m *Metrics) ConsoleBytes(written, typed int) {
	m.consoleBytes.WithLabelValues("written").Add(float64(written))
	m.consoleBytes.WithLabelValues("typed").Add(float64(typed))
}
