// Package metrics names every metric of central.
//
// It may import client_golang only. The collectors are safe for concurrent use.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are central's metrics, on a registry of their own.
type Metrics struct {
	registry *prometheus.Registry

	Requests        *prometheus.CounterVec
	RequestSeconds  *prometheus.HistogramVec
	Relayed         *prometheus.CounterVec
	RelayErrors     *prometheus.CounterVec
	RelaySeconds    *prometheus.HistogramVec
	Repaired        *prometheus.CounterVec
	EventsApplied   *prometheus.CounterVec
	EventsDropped   *prometheus.CounterVec
	EventsSetAside  *prometheus.CounterVec
	EventsKept      *prometheus.GaugeVec
	IngestBatch     *prometheus.HistogramVec
	IngestSeconds   *prometheus.HistogramVec
	IngestErrors    *prometheus.CounterVec
	SiteConnected   *prometheus.GaugeVec
	SiteStateAge    *prometheus.GaugeVec
	SiteUnreachable *prometheus.GaugeVec
	ConductorsAlive *prometheus.GaugeVec
	OutboxEntries   *prometheus.GaugeVec
	OutboxAge       *prometheus.GaugeVec
	KeysReplaced    *prometheus.GaugeVec
	KeysReplacedAge *prometheus.GaugeVec
	KeysStageAge    *prometheus.GaugeVec
	EventsWaiting   *prometheus.GaugeVec
	EventsAge       *prometheus.GaugeVec
	WatchdogEnded   *prometheus.CounterVec
	Removed         *prometheus.CounterVec
	BusRefused      *prometheus.CounterVec
	BusOverflows    *prometheus.CounterVec

	StrangersRefused *prometheus.CounterVec
	StrangersTaken   *prometheus.GaugeVec
	MemberMisuse     *prometheus.CounterVec
	ConsoleSessions  *prometheus.GaugeVec
	ConsolesOpened   *prometheus.CounterVec
}

// ConsoleSession counts a session of a console that begins (1) or ends (-1).
func (m *Metrics) ConsoleSession(change int) {
	m.ConsoleSessions.WithLabelValues().Add(float64(change))
	if change > 0 {
		m.ConsolesOpened.WithLabelValues().Inc()
	}
}

// New registers everything. statements returns the store's count of SQL statements.
func New(statements func() uint64) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_central_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ironyard_central_" + name, Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ironyard_central_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}
	seconds := prometheus.ExponentialBuckets(0.001, 2, 14) // 1 ms to 8 s

	m.Requests = counter("requests_total", "API requests answered.", "method", "code")
	m.RequestSeconds = histogram("request_seconds", "Time to answer an API request.", seconds, "method")
	m.ConsoleSessions = gauge("console_sessions", "Sessions of consoles that are open.")
	m.ConsolesOpened = counter("console_sessions_opened_total", "Sessions of consoles that were opened.")
	m.Relayed = counter("relayed_total", "Outbox entries published to a site.", "site", "kind")
	m.RelayErrors = counter("relay_errors_total", "Outbox entries that could not be published and stay.", "site")
	m.RelaySeconds = histogram("relay_seconds", "Time to publish one batch of outbox entries.", seconds, "site")
	m.Repaired = counter("repaired_nodes_total", "Nodes whose documents at the site did not fit the database and were written again.", "site")
	m.EventsApplied = counter("events_applied_total", "Events applied to the database.", "site", "kind")
	m.EventsDropped = counter("events_dropped_total",
		"Events dropped. Reason: lying (it says what its subject, site or work does not allow), unknown_node, closed_work, old_generation, old_epoch, repeated; unreadable and refused, where too many of those are set aside already.", "site", "reason")
	m.EventsSetAside = counter("events_set_aside_total", "Events set aside, for 'central event' to show and to apply. Reason: unreadable; refused, by the database.", "site", "reason")
	m.EventsKept = gauge("events_set_aside", "Events that are set aside now: none is well.", "site", "reason")
	m.IngestBatch = histogram("ingest_batch_events", "Events applied in one transaction.", prometheus.ExponentialBuckets(1, 2, 9), "site")
	m.IngestSeconds = histogram("ingest_seconds", "Time to apply one batch of events.", seconds, "site")
	m.IngestErrors = counter("ingest_errors_total", "Batches of events that failed and were tried again.", "site")
	m.SiteConnected = gauge("site_connected", "1 while the site answers and its buckets and stream are open.", "site")
	m.SiteStateAge = gauge("site_state_seconds", "How long site_connected has had its value.", "site")
	m.SiteUnreachable = gauge("site_unreachable_seconds", "How long ago the site was last heard, while it cannot be reached; else 0.", "site")
	m.ConductorsAlive = gauge("conductors_alive", "Live rackds; while the site cannot be reached, those that lived before.", "site")
	m.OutboxEntries = gauge("outbox_entries", "Entries that wait for the site.", "site")
	m.KeysReplaced = gauge("group_keys_replacing", "Conductor groups whose key is being replaced because a rackd was revoked: the old key still opens or makes something. 'central key groups' shows them.", "site")
	m.KeysReplacedAge = gauge("group_keys_replacing_age_seconds", "Seconds since the oldest of these replacements began; 0 for none. It is over within five days, unless a stage stands (group_keys_stage_age_seconds).", "site")
	m.KeysStageAge = gauge("group_keys_stage_age_seconds", "Seconds since the stage began in which one of these replacements has been longest; 0 for none. Above 27 hours it stands: its site is away, or no living rackd of the group has the new key.", "site")
	m.OutboxAge = gauge("outbox_age_seconds", "Age of the oldest entry that waits for the site.", "site")
	m.EventsWaiting = gauge("events_waiting", "Events that wait at the site, as the one read last tells; of the replica that reads them.", "site")
	m.EventsAge = gauge("events_age_seconds", "Age of the oldest event that has been read and not applied or, with none in hand, of the one read last while others wait.", "site")
	m.WatchdogEnded = counter("watchdog_ended_total", "Works ended by central because no rackd was left to do them.", "site")
	m.Removed = counter("rows_removed_total", "Rows that were removed from the database because of their age or number. Kind: history (of nodes), works (that have ended).", "kind")
	m.BusOverflows = counter("bus_overflows_total", "Times a subscription on a site's bus began to lose messages, because they were not taken fast enough; they come again, later. Without a site: the bus that all share.", "site")
	m.BusRefused = counter("bus_refused_total", "Documents of a site's bus that were not taken. Lies 1: they say what their subject or key does not allow, look for the alarm in the log; 0: they cannot be read.", "site", "bucket", "lies")
	m.StrangersRefused = counter("strangers_refused_total",
		"Requests of callers who are not known that a part of their budget kept out (slots, bytes). Part lines: refusals that left no line in the log or the audit.", "part")
	m.StrangersTaken = gauge("strangers_taken", "What callers who are not known take of their budget at this moment. Part: slots, bytes.", "part")
	m.MemberMisuse = counter("member_misuse_total", "Renewals refused because they showed a certificate that its member has left behind: a stolen folder, or one that was restored from a copy.", "role")
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ironyard_central_sql_statements_total",
		Help: "SQL statements sent, BEGIN and COMMIT left out."}, func() float64 { return float64(statements()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Refused counts a document of a site's bus that was not taken.
func (m *Metrics) Refused(site, bucket string, lies bool) {
	label := "0"
	if lies {
		label = "1"
	}
	m.BusRefused.WithLabelValues(site, bucket, label).Inc()
}

// Handler serves the metrics in Prometheus' text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
