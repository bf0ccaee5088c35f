package daemon

import (
	"context"
	"time"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/strangers"
)

// observeEvery is how often the gauges that cost a query are set.
const observeEvery = 10 * time.Second

// run sets the gauges that cost a query until ctx ends.
func (o *observer) run(ctx context.Context) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		o.outbox(ctx)
		o.setAside(ctx)
		o.groupKeys(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sitesNow sets the gauges of the sites and of strangers, which cost nothing.
func (o *observer) sitesNow() {
	m := o.metrics
	for _, part := range []strangers.Kind{strangers.Slots, strangers.Bytes} {
		m.StrangersTaken.WithLabelValues(string(part)).Set(float64(o.strangers.Taken(part)))
	}
	for _, s := range o.sites.Status() {
		open, unreachable, age := 1.0, 0.0, time.Since(s.Since).Seconds()
		if !s.Open {
			open, unreachable = 0, age
		}
		m.SiteConnected.WithLabelValues(s.Name).Set(open)
		m.SiteStateAge.WithLabelValues(s.Name).Set(age)
		m.SiteUnreachable.WithLabelValues(s.Name).Set(unreachable)
		b := o.ingest.Backlog(s.Name)
		m.EventsWaiting.WithLabelValues(s.Name).Set(float64(b.Events))
		m.EventsAge.WithLabelValues(s.Name).Set(since(b.Oldest))
	}
}

// outbox sets the gauges of what waits in the outbox.
func (o *observer) outbox(ctx context.Context) {
	waiting, err := o.db.OutboxBacklog(ctx)
	if err != nil {
		return // the next tick tries again; readiness tells of the database
	}
	m := o.metrics
	m.OutboxEntries.Reset()
	m.OutboxAge.Reset()
	for _, s := range o.sites.Status() {
		m.OutboxEntries.WithLabelValues(s.Name).Set(0)
		m.OutboxAge.WithLabelValues(s.Name).Set(0)
	}
	for _, b := range waiting { // also for a site that is not configured any more
		m.OutboxEntries.WithLabelValues(b.Site).Set(float64(b.Entries))
		m.OutboxAge.WithLabelValues(b.Site).Set(since(b.Oldest))
	}
}

// setAside sets the gauges of the events that were set aside.
func (o *observer) setAside(ctx context.Context) {
	counts, err := o.db.SetAsideCounts(ctx)
	if err != nil {
		return // as above
	}
	o.metrics.EventsKept.Reset()
	for _, s := range o.sites.Status() {
		for _, reason := range ingest.Reasons {
			o.metrics.EventsKept.WithLabelValues(s.Name, reason).Set(0)
		}
	}
	for _, c := range counts {
		o.metrics.EventsKept.WithLabelValues(c.Site, c.Reason).Set(float64(c.Events))
	}
	o.kept.Store(&counts)
}

// groupKeys sets the gauges of the conductor groups' keys that are being replaced.
func (o *observer) groupKeys(ctx context.Context) {
	rows, err := o.db.GroupKeys(ctx)
	if err != nil {
		return // as above
	}
	m := o.metrics
	groups, oldest, stage := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, g := range rows {
		if site := o.sites.SiteOf(g.Group); g.Stage != "" {
			groups[site]++
			oldest[site] = max(oldest[site], since(g.BeganAt))
			stage[site] = max(stage[site], since(g.StageAt))
		}
	}
	for _, s := range o.sites.Status() {
		m.KeysReplaced.WithLabelValues(s.Name).Set(groups[s.Name])
		m.KeysReplacedAge.WithLabelValues(s.Name).Set(oldest[s.Name])
		m.KeysStageAge.WithLabelValues(s.Name).Set(stage[s.Name])
	}
}

// since is the age of t in seconds, 0 for the zero time.
func since(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, time.Since(t).Seconds())
}
