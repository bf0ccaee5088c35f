package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// losing is a site whose WORK is lost while what it has reported is not yet applied.
type losing struct {
	*fixture
	node    *store.Node
	work    *store.Work
	asked   chan struct{} // somebody waits for what the site has reported
	applied chan struct{} // closed: it is in the rows
}

func newLosing(t *testing.T, settle time.Duration) *losing {
	l := &losing{fixture: newFixture(t), asked: make(chan struct{}, 100), applied: make(chan struct{})}
	l.relay = l.another(settle)
	l.follow(l.relay)
	l.node = l.enroll("n", "")
	l.work = l.request(l.node, work.Deploy, provision.Deploying, provision.Active)
	l.eventually("sent out", l.site.Work, l.key(), document(func(d work.Document) bool { return d.ID == l.work.ID && d.Epoch == 0 && !d.Lost }))
	l.report(3)
	stream, err := l.site.JS.Stream(t.Context(), "KV_"+bus.WorkBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *losing) another(settle time.Duration) *relay.Relay {
	return relay.New(relay.Config{Store: l.store, Key: l.fixture.key, Metrics: metrics.New(l.store.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Tick: 10 * time.Millisecond, Look: 50 * time.Millisecond, Settle: settle,
		Drained: func(ctx context.Context, _ *bus.Site) error {
			select {
			case l.asked <- struct{}{}:
			default:
			}
			select {
			case <-l.applied:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
}

func (l *losing) key() string { return bus.NodeKey("", l.node.UUID) }

// report records what a rackd has reported of the work.
func (l *losing) report(epoch uint64) {
	l.update(func(ctx context.Context, tx *store.Tx) error {
		nodes, err := tx.Observed(ctx, []string{l.node.UUID})
		if err != nil {
			return err
		}
		n := nodes[l.node.UUID]
		n.Observe(l.work.Generation)
		n.ObservedEpoch, n.ObservedSeq, n.ObservedState = epoch, 4, provision.DeployWait
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
}

func (l *losing) row() *store.Node {
	l.Helper()
	n, err := l.store.Node(l.Context(), l.node.UUID)
	if err != nil {
		l.Fatal(err)
	}
	return n
}

func (l *losing) missing() {
	l.Helper()
	if e, err := l.site.Work.Get(l.Context(), l.key()); !errors.Is(err, jetstream.ErrKeyNotFound) {
		l.Fatalf("written again too early: %v, %v", e, err)
	}
}

// Lost work is written again only when all that was reported is in the rows, and under
// an epoch below which the rows take nothing any more.
func TestLostWorkWaitsForWhatWasReported(t *testing.T) {
	t.Parallel()
	l := newLosing(t, settle)
	<-l.asked
	l.missing()
	l.report(5) // was on its way
	close(l.applied)
	var d work.Document
	l.eventually("written again", l.site.Work, l.key(), func(body []byte) bool { return body != nil && json.Unmarshal(body, &d) == nil })
	if n := l.row(); d.Epoch < 5+work.LostEpochs || !d.Lost || !d.Fresh() || n.ObservedEpoch != d.Epoch || n.ObservedSeq != 0 ||
		n.ObservedState != provision.DeployWait {
		t.Errorf("document %+v, and the row takes reports from epoch %d, number %d on; state %q", d, n.ObservedEpoch, n.ObservedSeq, n.ObservedState)
	}
}

// What was reported may be the end: then there is nothing to write.
func TestLostWorkThatHasEnded(t *testing.T) {
	l := newLosing(t, settle)
	<-l.asked
	l.update(func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.EndWorks(ctx, []*store.Work{{ID: l.work.ID}}), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: l.node.UUID}))
	})
	close(l.applied)
	last := l.enroll("last", "") // its document comes after whatever is written now
	l.eventually("the next look", l.site.Nodes, bus.NodeKey("", last.UUID), shows(last.UUID, func(d *node.Document) bool { return d.UUID == last.UUID }))
	l.missing()
	if n := l.row(); n.ObservedEpoch != 3 {
		t.Errorf("the row of work that has ended takes reports from epoch %d on", n.ObservedEpoch)
	}
}

// Nothing is written again before those who have not noticed the loss have lost their
// leases; whoever remembers the work may write it before that.
func TestLostWorkIsLeftToWhoRemembersIt(t *testing.T) {
	l := newLosing(t, time.Hour)
	last := l.enroll("last", "")
	l.eventually("another look", l.site.Nodes, bus.NodeKey("", last.UUID), shows(last.UUID, func(d *node.Document) bool { return d.UUID == last.UUID }))
	l.missing()
	d := l.work.Document()
	d.Owner, d.Epoch, d.Seq, d.Lost = "r", 4+work.LostEpochs, 1, true
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.site.Work.Create(t.Context(), l.key(), body); err != nil {
		t.Errorf("somebody was faster than the owner: %v", err)
	}
	select {
	case <-l.asked:
		t.Error("the work was about to be written again at once")
	default:
	}
}

// Several replicas find the same loss at the same time: they agree on an epoch, or the
// row would take nothing from who gets the document of the other.
func TestReplicasRestoreTogether(t *testing.T) {
	t.Parallel()
	l := newLosing(t, settle)
	for range 3 {
		l.follow(l.another(settle))
	}
	for range 4 {
		<-l.asked
	}
	close(l.applied)
	l.eventually("written again", l.site.Work, l.key(), document(func(d work.Document) bool { return d.Lost }))
	l.eventually("they agree", l.site.Work, l.key(), document(func(d work.Document) bool { return d.Epoch >= l.row().ObservedEpoch }))
}
