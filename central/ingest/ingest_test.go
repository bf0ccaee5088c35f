package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

type fixture struct {
	*testing.T
	store  *store.Store
	site   *bus.Site
	ingest *ingest.Ingest
	key    *seal.Key
}

func newFixture(t *testing.T) *fixture { return newFixtureWith(t, nil) }

// newFixtureWith is a fixture whose inspections p processes; nil: as without settings.
func newFixtureWith(t *testing.T, p *inspection.Processor) *fixture {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, store: storetest.Open(t, storetest.SQLite(t)), site: bustest.Open(t), key: key}
	f.ingest = ingest.New(ingest.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: slog.New(slog.DiscardHandler), Inspection: p})
	return f
}

// follow runs the ingest until the returned function is called or the test ends.
func (f *fixture) follow() (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	var g errgroup.Group
	g.Go(func() error { return f.ingest.Follow(ctx, f.site) })
	stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			f.Error(err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// deploy inserts a node whose deploy has been accepted.
func (f *fixture) deploy(name string) (*store.Node, *store.Work) {
	f.Helper()
	n := storetest.NewNode(name)
	n.InstanceUUID, n.InstanceInfo = n.UUID, map[string]any{"image_source": "x"}
	storetest.Insert(f, f.store, n)
	n.Accept(provision.Deploying, provision.Active, time.Now())
	w := storetest.NewWork(n, work.Deploy)
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.InsertWork(ctx, w)
	})
	if err != nil {
		f.Fatal(err)
	}
	return n, w
}

func (f *fixture) publish(e work.Event) {
	f.Helper()
	body, err := json.Marshal(e)
	if err != nil {
		f.Fatal(err)
	}
	f.raw(e.Node, body)
}

func (f *fixture) raw(node string, body []byte) {
	f.Helper()
	if _, err := f.site.JS.Publish(f.Context(), bus.EventSubject("", node), body); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) drained() {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 3*time.Minute) // some tests have a thousand large events, under the race detector
	defer cancel()
	if err := f.ingest.Drained(ctx); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) node(id string) *store.Node {
	f.Helper()
	n, err := f.store.Node(f.Context(), id)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

func about(w *store.Work, kind work.EventKind, seq uint64) work.Event {
	return work.Event{ID: work.EventID(w.ID, 1, seq), Kind: kind, Node: w.Node, Work: w.ID, Verb: w.Verb, Generation: w.Generation,
		Epoch: 1, Seq: seq, Rackd: "rackd-7", Time: time.Now().UTC()}
}

func TestEventsOfADeploy(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	f.follow()

	waiting := about(w, work.StateChanged, 1)
	waiting.State, waiting.Target, waiting.Step = provision.DeployWait, provision.Active, "boot ramdisk"
	f.publish(waiting)
	phase := about(w, work.PhaseEntered, 2)
	phase.Phase, phase.Seconds = "agent", 4.5
	f.publish(phase)
	power := about(w, work.PowerObserved, 3)
	power.Power = "power on"
	f.publish(power)
	inventory := about(w, work.InventoryFound, 4)
	inventory.Inventory = &agentapi.Inventory{}
	inventory.Internal = map[string]json.RawMessage{"agent_version": json.RawMessage(`"1"`), "gone": json.RawMessage("null")}
	f.publish(inventory)
	f.drained()
	got := f.node(n.UUID)
	if got.ProvisionState != provision.DeployWait || got.PowerState != "power on" || got.Reservation != "rackd-7" ||
		got.ObservedStep != "" && got.ObservedStep != "boot ramdisk" || got.DriverInternalInfo["agent_version"] != "1" {
		t.Errorf("in the middle: %+v", got)
	}
	if _, err := f.store.Inventory(t.Context(), n.UUID); err != nil {
		t.Error(err)
	}

	ended := about(w, work.WorkEnded, 5)
	ended.State = provision.Active
	f.publish(ended)
	f.publish(ended) // published again by a rackd that started anew
	f.drained()
	got = f.node(n.UUID)
	if got.ProvisionState != provision.Active || got.TargetProvisionState != provision.NoState || got.WorkID != "" || got.Reservation != "" {
		t.Errorf("in the end: %+v", got)
	}
	if row, err := f.store.Work(t.Context(), w.ID); err != nil || row.State != store.WorkEnded || row.EndedAt.IsZero() {
		t.Errorf("work %+v, error %v", row, err)
	}
	history, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	if err != nil || len(history) != 3 {
		t.Errorf("history %+v, error %v, want 3 lines", history, err)
	}
	if box, err := f.store.OwnOutbox(t.Context(), "", "", 10); err != nil || len(box) == 0 || box[0].Node != n.UUID {
		t.Errorf("outbox %v, error %v: the site must see the end", box, err)
	}
}

// What central keeps of a rackd's events is never of a time to come, and its works have ended when it heard so: rackds' clocks
// may be wrong either way.
func TestEventsOfClocksThatAreWrong(t *testing.T) {
	for _, off := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		f := newFixture(t)
		n, w := f.deploy("n")
		f.follow()
		began := time.Now().Add(-time.Second)
		waiting, phase, ended := about(w, work.StateChanged, 1), about(w, work.PhaseEntered, 2), about(w, work.WorkEnded, 3)
		waiting.State, waiting.Target = provision.DeployWait, provision.Active
		phase.Phase, phase.Before = "agent", []work.Line{{Time: time.Now().Add(off), Phase: "power"}}
		ended.State = provision.Active
		for _, e := range []work.Event{waiting, phase, ended} {
			e.Time = e.Time.Add(off)
			f.publish(e)
		}
		f.drained()
		if row, err := f.store.Work(t.Context(), w.ID); err != nil || row.EndedAt.Before(began) || row.EndedAt.After(time.Now()) {
			t.Errorf("clock off by %s: work %+v, error %v", off, row, err)
		}
		if got := f.node(n.UUID); got.ProvisionState != provision.Active || got.ProvisionUpdatedAt.After(time.Now()) {
			t.Errorf("clock off by %s: %q since %s", off, got.ProvisionState, got.ProvisionUpdatedAt)
		}
		history, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
		if err != nil || len(history) != 4 {
			t.Errorf("clock off by %s: history %+v, error %v, want 4 lines", off, history, err)
		}
		for _, l := range history {
			if l.CreatedAt.After(time.Now()) || off < 0 && l.CreatedAt.After(began) {
				t.Errorf("clock off by %s: the line %q is of %s", off, l.Event, l.CreatedAt)
			}
		}
	}
}

func TestTearDownForgetsTheInstance(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(
			tx.InsertPort(ctx, &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:00:00:01", InternalInfo: map[string]any{store.TenantVIF: "v1", "kept": true}}),
			tx.InsertPortgroup(ctx, &store.Portgroup{UUID: uuid.NewString(), Node: n.UUID, InternalInfo: map[string]any{store.TenantVIF: "v2"}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &store.Allocation{UUID: uuid.NewString(), Node: n.UUID, State: store.AllocationActive}
	err = f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		n.AllocationUUID, n.InstanceInfo = a.UUID, map[string]any{store.DriveKey: store.DriveKept}
		return errors.Join(tx.UpdateNode(ctx, n), tx.InsertAllocation(ctx, a), tx.SetConfigDrive(ctx, &store.ConfigDrive{Node: n.UUID, Drive: "d"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.follow()
	e := about(w, work.WorkEnded, 1)
	e.State, e.ClearInstance, e.Properties = provision.Available, true, map[string]any{"cpus": 4}
	f.publish(e)
	f.drained()
	got := f.node(n.UUID)
	if got.InstanceUUID != "" || len(got.InstanceInfo) != 0 || got.Properties["cpus"] != 4.0 || got.ProvisionState != provision.Available {
		t.Errorf("node %+v", got)
	}
	if left, err := f.store.ConfigDrives(t.Context(), "", 1); err != nil || len(left) != 0 {
		t.Errorf("config drives %+v, error %v: that of an instance that is gone must be gone", left, err)
	}
	ports, err := f.store.Ports(t.Context(), store.PortQuery{Nodes: []string{n.UUID}})
	if err != nil || len(ports) != 1 || len(ports[0].InternalInfo) != 1 {
		t.Errorf("ports %+v, error %v: its VIF must be gone", ports, err)
	}
	groups, err := f.store.Portgroups(t.Context(), store.PortgroupQuery{Nodes: []string{n.UUID}})
	if err != nil || len(groups) != 1 || len(groups[0].InternalInfo) != 0 {
		t.Errorf("portgroups %+v, error %v: its VIF must be gone", groups, err)
	}
	if _, err := f.store.Allocation(t.Context(), a.UUID); got.AllocationUUID != "" || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the allocation of an instance that is gone: %v, node %q", err, got.AllocationUUID)
	}
}

// What was published while central was away, twice or unreadable, does no harm; and
// a second ingest goes on where the first stopped.
func TestRestartAndRubbish(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n, w := f.deploy("n")
	stop := f.follow()
	f.raw(n.UUID, []byte("{"))
	f.raw(n.UUID, []byte(`{"kind":"state","node":"unknown","work":"w","state":"active","time":"2026-01-01T00:00:00Z"}`))
	readable := about(w, work.PhaseEntered, 1)
	readable.Phase = "p"
	f.publish(readable)
	f.drained()
	stop()

	ended := about(w, work.WorkEnded, 2)
	ended.State = provision.Active
	f.publish(ended)
	if got := f.node(n.UUID); got.ProvisionState != provision.Deploying {
		t.Fatalf("state %q while nobody ingests", got.ProvisionState)
	}
	f.follow()
	f.drained()
	if got := f.node(n.UUID); got.ProvisionState != provision.Active {
		t.Errorf("state %q, want active", got.ProvisionState)
	}
}

// A site whose bus comes back with an empty disk has to be opened again: nothing else
// would tell that the consumer is gone.
func TestConsumerLostWithTheDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	srv := bustest.Listen(t, t.TempDir(), server.RANDOM_PORT)
	nc, err := nats.Connect(srv.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if f.site, err = bus.Open(t.Context(), nc, "", bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	_, w := f.deploy("n")
	ended := make(chan error, 1)
	go func() { ended <- f.ingest.Follow(t.Context(), f.site) }()
	e := about(w, work.PhaseEntered, 1)
	e.Phase = "p"
	f.publish(e)
	f.drained()

	port := srv.Addr().(*net.TCPAddr).Port
	srv.Shutdown()
	srv.WaitForShutdown()
	bustest.Listen(t, t.TempDir(), port)
	select {
	case err := <-ended:
		if !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("Follow ended with %v, want that the consumer is gone", err)
		}
	case <-time.After(time.Minute):
		t.Error("Follow waits for ever for a consumer that is gone")
	}
}

// Two replicas share a consumer: one works, the order stays.
func TestTwoReplicasKeepTheOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	second := ingest.New(ingest.Config{Store: f.store, Metrics: metrics.New(f.store.Statements), Log: slog.New(slog.DiscardHandler)})
	f.follow()
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return second.Follow(ctx, f.site) })
	defer func() { cancel(); g.Wait() }()

	const nodes, events = 5, 100
	var works []*store.Work
	for i := range nodes {
		_, w := f.deploy(string(rune('a' + i)))
		works = append(works, w)
	}
	for seq := range uint64(events) {
		for _, w := range works {
			e := about(w, work.PhaseEntered, seq+1)
			e.Phase = "p"
			f.publish(e)
		}
	}
	f.drained()
	for _, w := range works {
		list, err := f.store.History(t.Context(), store.HistoryQuery{Node: w.Node})
		if err != nil || len(list) != events {
			t.Errorf("node %s: %d lines of history, error %v, want %d", w.Node, len(list), err, events)
		}
	}
}
