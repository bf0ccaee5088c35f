package storetest

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

func ports(t *testing.T, s *store.Store) {
	n := NewNode("n")
	n.ConductorGroup = "rack1"
	Insert(t, s, n)
	p := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "52:54:00:AA:BB:01", Name: "eth0", PXEEnabled: true,
		LocalLinkConnection: map[string]any{"switch_id": "x"}, Description: "uplink"}
	insert := func(p *store.Port) error {
		return s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertPort(ctx, p) })
	}
	if err := insert(p); err != nil {
		t.Fatal(err)
	}
	for _, ident := range []string{p.UUID, "eth0", "52:54:00:aa:BB:01"} {
		got, err := s.Port(t.Context(), ident)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("port %s: %+v, error %v, want %+v", ident, got, err, p)
		}
	}
	if read(t, s, "n").Revision <= n.Revision {
		t.Error("a new port did not move its node's revision on")
	}
	wantDuplicate(t, insert(&store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: p.Address}), "address", p.Address)
	if err := insert(&store.Port{UUID: uuid.NewString(), Node: uuid.NewString(), Address: "00:00:00:00:00:02"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("port of no node: %v, want ErrNotFound", err)
	}
	for _, q := range []store.PortQuery{{}, {Nodes: []string{n.UUID}}, {Address: p.Address}, {UUIDs: []string{p.UUID}},
		{ConductorGroups: []string{"rack1"}}, {DescriptionContains: "UPLINK"}, {Page: store.Page{SortKey: "address", Desc: true}}} {
		list, err := s.Ports(t.Context(), q)
		if err != nil || len(list) != 1 {
			t.Errorf("ports %+v: %d, error %v, want 1", q, len(list), err)
		}
	}
	if list, err := s.Ports(t.Context(), store.PortQuery{Shards: []string{"none"}}); err != nil || len(list) != 0 {
		t.Errorf("ports of a shard: %d, error %v, want none", len(list), err)
	}
	p.PXEEnabled = false
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.UpdatePort(ctx, p) })
	got, err := s.Port(t.Context(), p.UUID)
	if err != nil || got.PXEEnabled || got.UpdatedAt.IsZero() {
		t.Errorf("after the update: %+v, error %v", got, err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeletePort(ctx, p) })
	if _, err := s.Port(t.Context(), p.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted port: %v, want ErrNotFound", err)
	}
}

func traits(t *testing.T, s *store.Store) {
	n := NewNode("n")
	Insert(t, s, n)
	for _, set := range [][]string{{"B", "A"}, {"C"}, nil} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetTraits(ctx, n.UUID, set) })
		expect(t, "traits", len(read(t, s, "n").Traits), len(set))
	}
	expect(t, "revision", read(t, s, "n").Revision, n.Revision+3)
}

// NewWork returns open work for a node that Accept has moved on.
func NewWork(n *store.Node, verb work.Verb) *store.Work {
	return &store.Work{ID: uuid.NewString(), Node: n.UUID, Group: n.ConductorGroup, Generation: n.Generation, Verb: verb,
		Entry: n.ProvisionState, EntryTarget: n.TargetProvisionState, Owner: "rackd-1", RequestedAt: time.Unix(5, 0).UTC()}
}

func works(t *testing.T, s *store.Store) {
	n := NewNode("n")
	Insert(t, s, n)
	n.Accept(provision.Deploying, provision.Active, time.Unix(5, 0))
	w := NewWork(n, work.Deploy)
	w.Args.Steps = []work.Step{{Interface: "deploy", Step: "write", Args: map[string]any{"a": "b"}}}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.InsertWork(ctx, w)
	})
	got := read(t, s, "n")
	expect(t, "work", got.WorkID, w.ID)
	expect(t, "verb", got.WorkVerb, work.Deploy)
	expect(t, "reservation", got.Reservation, "rackd-1")
	if stored, err := s.Work(t.Context(), w.ID); err != nil || !reflect.DeepEqual(stored, w) {
		t.Errorf("work %+v, error %v, want %+v", stored, err, w)
	}
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertWork(ctx, NewWork(n, work.Power)) })
	wantDuplicate(t, err, "work", n.UUID)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.EndWork(ctx, w.ID, store.WorkSuperseded, "torn down"); err != nil {
			return err
		}
		return tx.InsertWork(ctx, NewWork(n, work.Delete))
	})
	open, err := s.OpenWorks(t.Context(), "", 10)
	if err != nil || len(open) != 1 || open[0].Verb != work.Delete {
		t.Errorf("open works %v, error %v", open, err)
	}
	stands := read(t, s, n.UUID)
	unfinished, err := s.Unfinished(t.Context(), "", 10)
	if err != nil || len(unfinished) != 1 || unfinished[0].ID != open[0].ID || unfinished[0].Driver != stands.Driver ||
		unfinished[0].State != stands.ProvisionState || !unfinished[0].Since.Equal(stands.ProvisionUpdatedAt) {
		t.Errorf("unfinished works %v, error %v", unfinished, err)
	}
	err = s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.EndWork(ctx, w.ID, store.WorkEnded, "") })
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ending a closed work: %v, want ErrNotFound", err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.EndWorks(ctx, []*store.Work{{ID: open[0].ID}, {ID: w.ID, Error: "late"}})
	})
	all, err := s.Works(t.Context(), n.UUID)
	if err != nil || len(all) != 2 {
		t.Fatalf("works %v, error %v", all, err)
	}
	for _, w := range all {
		want := map[work.Verb]store.WorkState{work.Deploy: store.WorkSuperseded, work.Delete: store.WorkEnded}[w.Verb]
		expect(t, string(w.Verb), w.State, want)
		expect(t, string(w.Verb)+" has ended", w.EndedAt.IsZero(), false)
	}
	expect(t, "work after the end", read(t, s, "n").WorkID, "")
}

func history(t *testing.T, s *store.Store) {
	n := NewNode("n")
	Insert(t, s, n)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, Event: "one", Seconds: 1.5, Work: "w", Project: "p", State: "active", Target: "available"},
			&store.HistoryEntry{Node: n.UUID, Event: "two", Severity: "ERROR"}, &store.HistoryEntry{Node: n.UUID, Event: "three"})
	})
	var got []string
	q := store.HistoryQuery{Node: n.UUID, Page: store.Page{Limit: 1}}
	for {
		list, err := s.History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		got, q.Marker = append(got, list[0].Event), list[0].UUID
	}
	if !reflect.DeepEqual(got, []string{"one", "two", "three"}) {
		t.Errorf("history %v", got)
	}
	list, err := s.History(t.Context(), store.HistoryQuery{Node: n.UUID, Severity: "ERROR"})
	if err != nil || len(list) != 1 {
		t.Fatalf("errors: %v, %v", list, err)
	}
	if e, err := s.HistoryEntry(t.Context(), n.UUID, list[0].UUID); err != nil || e.Event != "two" {
		t.Errorf("entry %+v, error %v", e, err)
	}
	if _, err := s.HistoryEntry(t.Context(), uuid.NewString(), list[0].UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("entry of another node: %v, want ErrNotFound", err)
	}
}

func inventory(t *testing.T, s *store.Store) {
	n := NewNode("n")
	Insert(t, s, n)
	if _, err := s.Inventory(t.Context(), n.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no inventory: %v, want ErrNotFound", err)
	}
	for text, plugin := range map[string]string{`{"a":1}`: `{"p":1}`, `{"b":2}`: ""} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.SetInventory(ctx, n.UUID, store.Inventory{Data: []byte(text), Plugin: []byte(plugin)})
		})
		if got, err := s.Inventory(t.Context(), n.UUID); err != nil || string(got.Data) != text || string(got.Plugin) != plugin {
			t.Errorf("inventory %s, error %v, want %s %s", got, err, text, plugin)
		}
	}
	for _, serials := range [][]string{{"A", `"é`}, {}, nil} {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.SetProcessed(ctx, n.UUID, []byte(`{"p":2}`), serials), tx.SetInventory(ctx, n.UUID, store.Inventory{Data: []byte(`{"c":3}`)}))
		})
		if got, err := s.Inventory(t.Context(), n.UUID); err != nil || !reflect.DeepEqual(got.Serials, serials) || string(got.Data) != `{"c":3}` {
			t.Errorf("serial numbers %#v, error %v, want %#v: a new inventory leaves them", got.Serials, err, serials)
		}
	}
}

func configDrives(t *testing.T, s *store.Store) {
	n, other := NewNode("n"), NewNode("other")
	Insert(t, s, n, other)
	keep := func(node, drive string) {
		update(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.SetConfigDrive(ctx, &store.ConfigDrive{Node: node, Drive: drive})
		})
	}
	keep(n.UUID, "first")
	keep(n.UUID, "second")
	keep(other.UUID, "other")
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.ConfigDrive(ctx, n.UUID)
		if err != nil || d.Drive != "second" || d.Node != n.UUID {
			t.Errorf("drive %+v, error %v, want the second", d, err)
		}
		return tx.DropConfigDrive(ctx, n.UUID)
	})
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.ConfigDrive(ctx, n.UUID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a dropped drive: %v, want ErrNotFound", err)
		}
		return tx.DropConfigDrive(ctx, n.UUID)
	})
	if list, err := s.ConfigDrives(t.Context(), "", 10); err != nil || len(list) != 1 || list[0].Node != other.UUID {
		t.Errorf("drives %+v, error %v, want the other's", list, err)
	}
	if list, err := s.ConfigDrives(t.Context(), other.UUID, 10); err != nil || len(list) != 0 {
		t.Errorf("drives after the last: %+v, error %v", list, err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.DeleteNode(ctx, other.UUID) })
	if list, err := s.ConfigDrives(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("a deleted node left %+v, error %v", list, err)
	}
}

func outbox(t *testing.T, s *store.Store) {
	var told [][]*store.Outbox
	cancel := s.WatchOutbox(func(entries []*store.Outbox) { told = append(told, entries) })
	why := errors.New("changed my mind")
	err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: "never"}), why)
	})
	if !errors.Is(err, why) || len(told) != 0 {
		t.Errorf("a transaction that was rolled back: %v, and %d entries were told", err, len(told))
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxDrive, Node: "n", Object: "w", Payload: "sealed"},
			&store.Outbox{Kind: store.OutboxNode, Node: "n", Object: "w"}, &store.Outbox{Kind: store.OutboxNode, Node: "m"})
	})
	cancel()
	all, err := s.OwnOutbox(t.Context(), "", "", 10)
	if err != nil || len(all) != 3 || all[0].Kind != store.OutboxDrive || all[0].Payload != "sealed" || all[2].Node != "m" {
		t.Fatalf("outbox %+v, error %v", all, err)
	}
	if len(told) != 1 || len(told[0]) != 3 || told[0][2].ID != all[2].ID {
		t.Errorf("who watches was told %v, want the three entries, once", told)
	}
	claims := func(site string, want map[string]uint64) {
		t.Helper()
		if got, err := s.Claims(t.Context(), site, []string{"v", "w", "x"}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("claims of site %q %v, error %v, want %v", site, got, err, want)
		}
	}
	claims("", map[string]uint64{"w": 0})
	claims("elsewhere", map[string]uint64{})
	const revision = 1_800_000_000_000_000
	if won, err := s.ClaimWorks(t.Context(), "elsewhere", []string{all[1].ID}, revision); err != nil || len(won) != 0 {
		t.Errorf("claimed for another site: %v, error %v", won, err)
	}
	for i, want := range []int{1, 0} {
		if won, err := s.ClaimWorks(t.Context(), "", []string{all[1].ID, uuid.NewString()}, revision+uint64(i)); err != nil || len(won) != want || want > 0 && won[0] != "w" {
			t.Errorf("claimed %v, error %v, want %d works", won, err, want)
		}
	}
	claims("", map[string]uint64{"w": revision})
	if rest, err := s.OwnOutbox(t.Context(), "", all[0].ID, 1); err != nil || len(rest) != 1 || rest[0].ID != all[1].ID {
		t.Errorf("after the first: %+v, error %v", rest, err)
	}
	if old, err := s.OldOutbox(t.Context(), "", "", time.Hour, 10); err != nil || len(old) != 0 {
		t.Errorf("older than an hour: %v, error %v", old, err)
	}
	if old, err := s.OldOutbox(t.Context(), "", "", -time.Hour, 10); err != nil || len(old) != 3 {
		t.Errorf("older than in an hour: %v, error %v", old, err)
	}
	if other, err := s.OldOutbox(t.Context(), "elsewhere", "", -time.Hour, 10); err != nil || len(other) != 0 {
		t.Errorf("another site: %v, error %v", other, err)
	}
	if b, err := s.OutboxBacklog(t.Context()); err != nil || len(b) != 1 || b[0].Entries != 3 || time.Since(b[0].Oldest) > time.Minute {
		t.Errorf("backlog %+v, error %v", b, err)
	}
	var ids []string
	for _, o := range all {
		ids = append(ids, o.ID)
	}
	if err := s.DeleteOutbox(t.Context(), "elsewhere", ids); err != nil {
		t.Fatal(err)
	}
	if left, err := s.OwnOutbox(t.Context(), "", "", 10); err != nil || len(left) != 3 {
		t.Errorf("what was published to another site took away all but %v, error %v", left, err)
	}
	if err := s.DeleteOutbox(t.Context(), "", ids); err != nil {
		t.Fatal(err)
	}
	if left, err := s.OwnOutbox(t.Context(), "", "", 10); err != nil || len(left) != 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

func observedInBatches(t *testing.T, s *store.Store) {
	nodes := numbered("n", 5)
	Insert(t, s, nodes...)
	var ids []string
	for _, n := range nodes {
		ids = append(ids, n.UUID)
	}
	at := time.Unix(77, 5000).UTC()
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		seen, err := tx.Observed(ctx, append(ids, uuid.NewString()))
		if err != nil {
			return err
		}
		expect(t, "nodes seen", len(seen), 5)
		var changed []*store.Node
		for i, id := range ids {
			n := seen[id]
			n.ObservedGeneration, n.ObservedEpoch, n.ObservedSeq = 0, 3, uint64(i)
			n.ObservedState, n.ObservedAt, n.PowerState, n.PowerAt = provision.Active, at, "power on", at
			n.ObservedError = "it's " + n.Name
			changed = append(changed, n)
		}
		return tx.SaveObserved(ctx, changed)
	})
	for i, id := range ids {
		n := read(t, s, id)
		expect(t, "revision", n.Revision, nodes[i].Revision+1)
		expect(t, "state", n.ProvisionState, provision.Active)
		expect(t, "updated", n.ProvisionUpdatedAt, at)
		expect(t, "power", n.PowerState, "power on")
		expect(t, "seq", n.ObservedSeq, uint64(i))
		expect(t, "error", n.LastError, "it's "+nodes[i].Name)
		expect(t, "driver_info", len(n.DriverInfo), 1)
	}
}

func snapshots(t *testing.T, s *store.Store) {
	a, b, c := NewNode("a"), NewNode("b"), NewNode("c")
	Insert(t, s, a, b, c)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		for _, mac := range []string{"00:00:00:00:00:01", "00:00:00:00:00:02", "00:00:00:00:00:03"} {
			if err := tx.InsertPort(ctx, &store.Port{UUID: uuid.NewString(), Node: a.UUID, Address: mac, PXEEnabled: mac[16] == '2'}); err != nil {
				return err
			}
		}
		return errors.Join(tx.SetTraits(ctx, a.UUID, []string{"T1", "T2"}), tx.InsertWork(ctx, NewWork(a, work.Deploy)), tx.InsertWork(ctx, NewWork(b, work.Power)))
	})
	before := s.Statements()
	got, err := s.Snapshots(t.Context(), []string{a.UUID, b.UUID, c.UUID, uuid.NewString()})
	if err != nil || len(got) != 3 {
		t.Fatalf("snapshots %v, error %v", got, err)
	}
	expect(t, "statements", s.Statements()-before, 1)
	expect(t, "ports of a", len(got[a.UUID].Ports), 3)
	for i, p := range got[a.UUID].Ports {
		expect(t, "PXE of "+p.Address, p.PXEEnabled, p.Address[16] == '2')
		expect(t, "order of ports", i == 0 || got[a.UUID].Ports[i-1].UUID < p.UUID, true)
	}
	expect(t, "traits of a", len(got[a.UUID].Node.Traits), 2)
	expect(t, "work of a", got[a.UUID].Work != nil && got[a.UUID].Work.Verb == work.Deploy, true)
	expect(t, "ports of b", len(got[b.UUID].Ports), 0)
	expect(t, "work of b", got[b.UUID].Work != nil && got[b.UUID].Work.Verb == work.Power, true)
	expect(t, "work of c", got[c.UUID].Work == nil, true)
	snapshotsWith(t, s, a, b, c)
	keys, err := s.NodeKeys(t.Context(), "", 1)
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, error %v", keys, err)
	}
	more, err := s.NodeKeys(t.Context(), keys[0].UUID, 10)
	if err != nil || len(more) != 2 || more[0].UUID <= keys[0].UUID {
		t.Errorf("more keys %v, error %v", more, err)
	}
}

// snapshotsWith: a node that is held is not read again as long as it is what the rows say.
// a and b have open work, c has none.
func snapshotsWith(t *testing.T, s *store.Store, a, b, c *store.Node) {
	t.Helper()
	const changed, address = "changed since", "00:00:00:00:00:0c"
	all := []string{a.UUID, b.UUID, c.UUID}
	var left, gone *store.Node
	update(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		if err := tx.InsertPort(ctx, &store.Port{UUID: uuid.NewString(), Node: c.UUID, Address: address}); err != nil {
			return err
		}
		if left, err = tx.Node(ctx, c.UUID); err != nil {
			return err
		}
		left.Description = "left like this"
		return tx.UpdateNode(ctx, left)
	})
	gone = NewNode("gone")
	read := func(held map[string]*store.Node) map[string]*store.Snapshot {
		t.Helper()
		want, err := s.Snapshots(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.SnapshotsWith(t.Context(), all, held)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d snapshots, want %d; error %v", len(got), len(want), err)
		}
		for id, w := range want {
			g := got[id]
			if !reflect.DeepEqual(visible(g.Node), visible(w.Node)) || !reflect.DeepEqual(g.Ports, w.Ports) || !reflect.DeepEqual(g.Work, w.Work) {
				t.Errorf("with held nodes\n%+v\nwithout\n%+v", g, w)
			}
		}
		return got
	}
	held := map[string]*store.Node{a.UUID: a, b.UUID: b, c.UUID: left, gone.UUID: gone}
	got := read(held)
	expect(t, "c is the held one", got[c.UUID].Node == left, true)
	expect(t, "b, which has work, is", got[b.UUID].Node == b, false)
	expect(t, "a, which is out of date, is", got[a.UUID].Node == a, false)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, c.UUID)
		if err != nil {
			return err
		}
		n.Description = changed
		return tx.UpdateNode(ctx, n)
	})
	got = read(held)
	expect(t, "c that has changed", got[c.UUID].Node.Description, changed)
}

func deleteNode(t *testing.T, s *store.Store) {
	n := NewNode("n")
	n.Traits = []string{"A"}
	Insert(t, s, n)
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		p := &store.Port{UUID: uuid.NewString(), Node: n.UUID, Address: "00:00:00:00:00:01"}
		return errors.Join(tx.InsertPort(ctx, p), tx.InsertWork(ctx, NewWork(n, work.Power)),
			tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID}), tx.SetInventory(ctx, n.UUID, store.Inventory{Data: []byte("{}")}))
	})
	remove := func(ctx context.Context, tx *store.Tx) error { return tx.DeleteNode(ctx, n.UUID) }
	update(t, s, remove)
	if _, err := s.Node(t.Context(), n.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted node: %v", err)
	}
	if list, err := s.Ports(t.Context(), store.PortQuery{}); err != nil || len(list) != 0 {
		t.Errorf("ports left: %v, error %v", list, err)
	}
	if err := s.Update(t.Context(), remove); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting again: %v, want ErrNotFound", err)
	}
}
