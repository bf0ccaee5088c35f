package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/relay"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

type fixture struct {
	*testing.T
	address string // of the database
	store   *store.Store
	site    *bus.Site
	key     *seal.Key
	relay   *relay.Relay
}

var discard = slog.New(slog.DiscardHandler)

func newFixture(t *testing.T) *fixture {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	address := storetest.SQLite(t)
	f := &fixture{T: t, address: address, store: storetest.Open(t, address), site: bustest.Open(t), key: key}
	f.relay = f.newRelay(f.store, time.Hour)
	return f
}

// settle is how long the relays of these tests leave lost work to others.
const settle = 200 * time.Millisecond

func (f *fixture) newRelay(s *store.Store, takeover time.Duration) *relay.Relay {
	return relay.New(relay.Config{Store: s, Key: f.key, Metrics: metrics.New(s.Statements), Log: discard,
		SiteOf: func(string) string { return "" }, Tick: 10 * time.Millisecond, Takeover: takeover, Look: 50 * time.Millisecond,
		Settle: settle, Drained: func(context.Context, *bus.Site) error { return nil }})
}

func (f *fixture) follow(r *relay.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	var g errgroup.Group
	g.Go(func() error {
		for { // as central/sites does: a bucket may be gone for a moment
			err := r.Follow(ctx, f.site)
			if !errors.Is(err, jetstream.ErrStreamNotFound) {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(stop)
	return stop
}

func (f *fixture) update(do func(ctx context.Context, tx *store.Tx) error) {
	f.Helper()
	if err := f.store.Update(f.Context(), do); err != nil {
		f.Fatal(err)
	}
}

// enroll adds a node in group and tells its site.
func (f *fixture) enroll(name, group string) *store.Node {
	n := storetest.NewNode(name)
	n.ConductorGroup, n.DriverInfo = group, f.key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, map[string]any{"redfish_password": "p"})
	f.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertNode(ctx, n); err != nil {
			return err
		}
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: group})
	})
	return n
}

// request accepts a request for n as dispatch does.
func (f *fixture) request(n *store.Node, verb work.Verb, state, target provision.State) *store.Work {
	var w *store.Work
	f.update(func(ctx context.Context, tx *store.Tx) error {
		fresh, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		if fresh.WorkID != "" {
			if err := tx.EndWork(ctx, fresh.WorkID, store.WorkSuperseded, ""); err != nil {
				return err
			}
		}
		fresh.Accept(state, target, time.Now())
		w = storetest.NewWork(fresh, verb)
		w.ID = uuid.NewString()
		w.Args.ConfigDrive = w.ID
		return errors.Join(tx.UpdateNode(ctx, fresh), tx.InsertWork(ctx, w),
			tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxDrive, Node: n.UUID, Group: n.ConductorGroup, Object: w.ID, Payload: "sealed"},
				&store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup, Object: w.ID}))
	})
	return w
}

// patience is how long tests wait: a write that was on its way to a stream when that was
// deleted is given up after 10 s, a list after 3.
const patience = 30 * time.Second

// eventually waits until key of kv satisfies want; body is nil for a missing key.
func (f *fixture) eventually(what string, kv jetstream.KeyValue, key string, want func(body []byte) bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	watch, err := kv.Watch(ctx, key)
	if err != nil {
		f.Fatal(err)
	}
	defer watch.Stop()
	var last []byte
	for {
		select {
		case e := <-watch.Updates():
			switch {
			case e == nil:
			case e.Operation() == jetstream.KeyValuePut:
				last = e.Value()
			default:
				last = nil
			}
			if want(last) {
				return
			}
		case <-ctx.Done():
			f.Fatalf("%s: key %s stays at %s", what, key, last)
		}
	}
}

func document[T any](accept func(d T) bool) func([]byte) bool {
	return func(body []byte) bool {
		var d T
		return body != nil && json.Unmarshal(body, &d) == nil && accept(d)
	}
}

// shows accepts a document of the node.
func shows(uuid string, accept func(d *node.Document) bool) func([]byte) bool {
	return func(body []byte) bool {
		d, err := node.Read(uuid, body)
		return err == nil && accept(d)
	}
}

func absent(body []byte) bool { return body == nil }

// A config drive leaves the site with the work that needed it.
func TestDrivesGoWithTheirWork(t *testing.T) {
	f := newFixture(t)
	f.follow(f.relay)
	n := f.enroll("n", "rack.1")
	key := bus.NodeKey("rack.1", n.UUID)
	held := func() (bytes uint64) {
		t.Helper()
		stream, err := f.site.JS.Stream(t.Context(), "OBJ_"+bus.ConfigDrives)
		if err != nil {
			t.Fatal(err)
		}
		if stream.CachedInfo().Config.MaxBytes <= 0 {
			t.Fatal("nothing bounds what config drives take")
		}
		list, err := f.site.Drives.List(t.Context())
		if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
			t.Fatal(err)
		}
		for _, o := range list {
			bytes += o.Size
		}
		return bytes
	}
	until := func(what string, want uint64) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(patience); held() != want; {
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%s: %d bytes of config drives lie on the bus, want %d", what, held(), want)
			}
		}
	}
	one := uint64(len("sealed"))
	first := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	f.eventually("work", f.site.Work, key, document(func(d work.Document) bool { return d.ID == first.ID }))
	until("while the work is open", one)
	second := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	f.eventually("what takes its place", f.site.Work, key, document(func(d work.Document) bool { return d.ID == second.ID }))
	until("when the first was superseded", one)
	if _, err := f.site.Drives.GetString(t.Context(), second.ID); err != nil {
		t.Errorf("the drive of open work: %v", err)
	}
	f.update(func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.EndWork(ctx, second.ID, store.WorkEnded, ""), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup}))
	})
	f.eventually("the end", f.site.Work, key, absent)
	until("when the work has ended", 0)
}

func TestLifeOfANode(t *testing.T) {
	f := newFixture(t)
	f.follow(f.relay)
	n := f.enroll("n", "rack.1")
	key := bus.NodeKey("rack.1", n.UUID)
	f.eventually("enrolled", f.site.Nodes, key, shows(n.UUID, func(d *node.Document) bool { return d.Name == "n" && d.State == provision.Available }))

	w := f.request(n, work.Deploy, provision.Deploying, provision.Active)
	f.eventually("deploying", f.site.Nodes, key, shows(n.UUID, func(d *node.Document) bool { return d.Generation == 1 && d.State == provision.Deploying }))
	f.eventually("work", f.site.Work, key, document(func(d work.Document) bool { return d.ID == w.ID && d.Epoch == 0 && d.State == provision.Deploying }))
	if text, err := f.site.Drives.GetString(t.Context(), w.ID); err != nil || text != "sealed" {
		t.Errorf("config drive %q, error %v", text, err)
	}

	// A rackd takes the work; then the operator tears the node down.
	e, err := f.site.Work.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var taken work.Document
	if err := json.Unmarshal(e.Value(), &taken); err != nil {
		t.Fatal(err)
	}
	taken.Owner, taken.Epoch = "rackd-1", 1
	body, _ := json.Marshal(taken)
	if _, err := f.site.Work.Update(t.Context(), key, body, e.Revision()); err != nil {
		t.Fatal(err)
	}
	undeploy := f.request(n, work.Delete, provision.Deleting, provision.Available)
	f.eventually("superseded", f.site.Work, key, document(func(d work.Document) bool { return d.ID == undeploy.ID && d.Epoch == 2 && d.Owner == "rackd-1" }))

	// It ends at the site, then in the database: the key goes.
	e, err = f.site.Work.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	ended := undeploy.Document()
	ended.Epoch, ended.Result = 3, &work.Result{OK: true}
	body, _ = json.Marshal(ended)
	if _, err := f.site.Work.Update(t.Context(), key, body, e.Revision()); err != nil {
		t.Fatal(err)
	}
	f.update(func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.EndWorks(ctx, []*store.Work{{ID: undeploy.ID}}),
			tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: "rack.1"}))
	})
	f.eventually("ended", f.site.Work, key, absent)

	f.update(func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.DeleteNode(ctx, n.UUID), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: "rack.1"}))
	})
	f.eventually("deleted", f.site.Nodes, key, absent)
}

func TestMoveToAnotherGroup(t *testing.T) {
	f := newFixture(t)
	f.follow(f.relay)
	n := f.enroll("n", "a")
	f.eventually("enrolled", f.site.Nodes, bus.NodeKey("a", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.Group == "a" }))
	f.update(func(ctx context.Context, tx *store.Tx) error {
		n.ConductorGroup = "b"
		return errors.Join(tx.UpdateNode(ctx, n), tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: "a"},
			&store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: "b"}))
	})
	f.eventually("moved", f.site.Nodes, bus.NodeKey("b", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.Group == "b" }))
	f.eventually("moved away", f.site.Nodes, bus.NodeKey("a", n.UUID), absent)
}

// What a dead replica left behind is published by another.
func TestEntriesOfADeadReplica(t *testing.T) {
	f := newFixture(t)
	n := f.enroll("n", "") // nobody follows yet
	f.follow(f.newRelay(f.store, time.Nanosecond))
	f.eventually("enrolled", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.UUID == n.UUID }))
}

// groupKey is the key of the group without a name.
func groupKey(t *testing.T, key *seal.Key) *seal.Key {
	t.Helper()
	k, err := key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A document that central did not make is none, whatever revision it claims: it is replaced.
func TestForgedDocumentIsReplaced(t *testing.T) {
	f := newFixture(t)
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	forged, err := (&node.Document{UUID: n.UUID, Name: "forged", Revision: n.Revision + 10}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.site.Nodes.Put(t.Context(), key, forged); err != nil {
		t.Fatal(err)
	}
	f.follow(f.relay)
	f.eventually("central's", f.site.Nodes, key, func(body []byte) bool {
		posted, err := node.Open(body)
		if err != nil {
			return false
		}
		_, made := posted.Verify(n.UUID, groupKey(t, f.key))
		return made
	})
}

// A relay that read its rows long ago does not turn the site back.
func TestOlderDocumentDoesNotReplaceNewer(t *testing.T) {
	f := newFixture(t)
	n := f.enroll("n", "")
	key := bus.NodeKey("", n.UUID)
	newer, err := (&node.Document{UUID: n.UUID, Name: "newer", Revision: n.Revision + 10}).AppendSigned(nil, groupKey(t, f.key))
	if err != nil {
		t.Fatal(err)
	}
	rev, err := f.site.Nodes.Put(t.Context(), key, newer)
	if err != nil {
		t.Fatal(err)
	}
	f.follow(f.relay)
	second := f.enroll("second", "")
	f.eventually("second", f.site.Nodes, bus.NodeKey("", second.UUID), shows(second.UUID, func(d *node.Document) bool { return d.Name == "second" }))
	if e, err := f.site.Nodes.Get(t.Context(), key); err != nil || e.Revision() != rev {
		t.Errorf("the newer document was replaced, error %v", err)
	}
}

// Many replicas publish the same entries at once: the result is the same, once.
func TestReplicasTogether(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.follow(f.newRelay(f.store, time.Nanosecond))
	}
	var nodes []*store.Node
	var works []*store.Work
	for i := range 20 {
		n := f.enroll(string(rune('a'+i)), "")
		nodes = append(nodes, n)
		works = append(works, f.request(n, work.Deploy, provision.Deploying, provision.Active))
	}
	for i, n := range nodes {
		f.eventually("work", f.site.Work, bus.NodeKey("", n.UUID), document(func(d work.Document) bool { return d.ID == works[i].ID && d.Epoch == 0 }))
		f.eventually("node", f.site.Nodes, bus.NodeKey("", n.UUID), shows(n.UUID, func(d *node.Document) bool { return d.Generation == 1 }))
	}
}
