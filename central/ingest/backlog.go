package ingest

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Backlog is what waits at a site to be applied, as the event that this replica read
// last has told it: asking the site would cost the WAN more than idle nodes do. A
// replica that another one reads for knows of nothing.
type Backlog struct {
	Events uint64
	Oldest time.Time // of the events in hand or, with none in hand, of the last one read
}

// Backlog returns what waits at a site.
func (g *Ingest) Backlog(site string) Backlog {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.backlogs[site]
}

func (g *Ingest) setBacklog(site string, b Backlog) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backlogs[site] = b
}

// behind is the backlog with inHand events of which first is the oldest and last the
// newest.
func behind(first, last *jetstream.MsgMetadata, inHand int) Backlog {
	b := Backlog{Events: last.NumPending + uint64(inHand)}
	if b.Events > 0 {
		b.Oldest = first.Timestamp
	}
	return b
}
