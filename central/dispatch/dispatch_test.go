package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

type roster []bus.Member

func (r roster) Conductors() []bus.Member { return r }

func (r roster) Owner(_, driver, _ string) (bus.Member, bool) {
	for _, m := range r {
		if m.Drivers[driver] != nil {
			return m, true
		}
	}
	return bus.Member{}, false
}

type asker func(ask.Request) (json.RawMessage, error)

func (a asker) Ask(_ context.Context, _ bus.Member, q ask.Request) (json.RawMessage, error) {
	return a(q)
}

type bench struct {
	*Dispatcher
	t    *testing.T
	told atomic.Int32 // transactions that wrote to the outbox
}

const node = "11111111-2222-4333-8444-555555555555"

func newBench(t *testing.T) *bench {
	t.Helper()
	st, err := store.Open(t.Context(), storetest.SQLite(t), store.Options{Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t}
	b.Dispatcher = &Dispatcher{Store: st, Key: key, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler),
		Roster: roster{{Name: "rack-1", Drivers: map[string]map[string][]string{"fake-hardware": {"power": {"fake"}}}}},
		Ask: asker(func(ask.Request) (json.RawMessage, error) {
			return json.RawMessage(`{"power":{"result":true},"deploy":{"result":true}}`), nil
		})}
	st.WatchOutbox(func([]*store.Outbox) { b.told.Add(1) })
	err = st.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertNode(ctx, &store.Node{UUID: node, Name: "n1", Driver: "fake-hardware", AcceptedState: provision.Enroll})
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// put puts the node into a state, without work.
func (b *bench) put(state, target provision.State, change func(*store.Node)) {
	b.t.Helper()
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		if n.WorkID != "" {
			if err := tx.EndWork(ctx, n.WorkID, store.WorkEnded, ""); err != nil {
				return err
			}
		}
		n.Accept(state, target, noon)
		if change != nil {
			change(n)
		}
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// open gives the node open work of the generation that it is in.
func (b *bench) open(w *store.Work) {
	b.t.Helper()
	n := b.node()
	w.ID, w.Node, w.Generation = uuid.NewString(), n.UUID, n.Generation
	if err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.InsertWork(ctx, w) }); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) verb(name string, change func(*Provision)) error {
	b.t.Helper()
	v, known := provision.LookupVerb(name)
	if !known {
		b.t.Fatalf("no verb %s", name)
	}
	p := Provision{Node: b.node(), Verb: v, Version: 115, Caller: Caller{RequestID: "req-1"}}
	if change != nil {
		change(&p)
	}
	return b.Provision(b.t.Context(), p)
}

func (b *bench) node() *store.Node {
	b.t.Helper()
	n, err := b.Store.Node(b.t.Context(), node)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func status(err error) int {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e.Status
	}
	return 0
}

// TestEveryVerbInEveryState holds that exactly the table's requests are accepted,
// what they make of the node, and that a refusal changes nothing.
func TestEveryVerbInEveryState(t *testing.T) {
	b := newBench(t)
	for _, info := range provision.States {
		for _, v := range provision.Verbs {
			b.put(info.State, info.Target, nil)
			expected := work.Verb(v.Event)
			if v.Event == provision.EventUnhold {
				if info.Kind == provision.Held {
					expected = work.Clean
					b.open(&store.Work{Verb: work.Clean})
				}
			}
			before := b.node()
			err := b.verb(v.Name, nil)
			after := b.node()
			want, refused := provision.Request(info.State, v)
			if refused != nil {
				if status(err) != http.StatusBadRequest || after.Generation != before.Generation || after.WorkID != "" {
					t.Errorf("%s in %q: %v, generation %d to %d, want a 400 that changes nothing", v.Name, info.State, err, before.Generation, after.Generation)
				}
				continue
			}
			to, _ := provision.Describe(want.To)
			hasWork := to.Kind != provision.Stable
			if err != nil || after.ProvisionState != want.To || after.Generation != before.Generation+1 || (after.WorkID != "") != hasWork {
				t.Errorf("%s in %q: %v; state %q, generation %d, work %q; want state %q, generation %d, work %t", v.Name, info.State, err,
					after.ProvisionState, after.Generation, after.WorkID, want.To, before.Generation+1, hasWork)
				continue
			}
			if hasWork {
				w, err := b.Store.Work(t.Context(), after.WorkID)
				if err != nil || w.Verb != expected || w.Generation != after.Generation || w.Entry != want.To ||
					w.EntryTarget != after.TargetProvisionState || w.RequestID != "req-1" || w.Owner != "rack-1" {
					t.Errorf("%s in %q: work %+v, %v", v.Name, info.State, w, err)
				}
			}
		}
	}
}

func TestVerbsTooNewForTheVersion(t *testing.T) {
	b := newBench(t)
	b.put(provision.DeployWait, provision.Active, nil)
	old := func(p *Provision) { p.Version = 109 }
	if err := b.verb("abort", old); status(err) != http.StatusNotAcceptable {
		t.Errorf("abort in wait call-back at 1.109: %v, want 406", err)
	}
}

func TestOnePieceOfWork(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	if err := b.verb("active", nil); err != nil {
		t.Fatal(err)
	}
	first := b.node()
	for _, name := range []string{"active", "deleted", "manage", "rebuild"} {
		err := b.verb(name, nil)
		if status(err) != http.StatusConflict || !strings.Contains(err.Error(), "is locked by host rack-1, please retry after the current operation is completed") {
			t.Errorf("%s while deploying: %v, want 409 that names the holder", name, err)
		}
	}
	if err := b.Power(t.Context(), Power{Node: b.node(), Target: PowerOn}); status(err) != http.StatusConflict {
		t.Errorf("power while deploying: %v, want 409", err)
	}
	if got := b.node(); got.Generation != first.Generation || got.WorkID != first.WorkID {
		t.Errorf("refusals changed the node: %+v", got)
	}
}

func TestWaitingWorkIsSuperseded(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	if err := b.verb("active", nil); err != nil {
		t.Fatal(err)
	}
	deploy := b.node().WorkID
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error { // as ingest does
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		n.Accept(provision.DeployWait, provision.Active, noon)
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Roster = roster{} // its rack is away: what is open may be ended all the same
	if err := b.verb("deleted", nil); err != nil {
		t.Fatal(err)
	}
	old, err := b.Store.Work(t.Context(), deploy)
	if err != nil || old.State != store.WorkSuperseded {
		t.Errorf("the deploy is %+v, %v, want superseded", old, err)
	}
	n := b.node()
	if n.ProvisionState != provision.Deleting || n.WorkID == deploy || n.WorkVerb != work.Delete {
		t.Errorf("node %q does %q (%s)", n.ProvisionState, n.WorkVerb, n.WorkID)
	}
}

func TestRefusalsBesidesTheTable(t *testing.T) {
	b := newBench(t)
	maintenance := func(n *store.Node) { n.SetMaintenance(true, "broken") }
	protected := func(n *store.Node) { n.Protected = true }
	retired := func(n *store.Node) { n.Retired = true }
	for _, tt := range []struct {
		state  provision.State
		change func(*store.Node)
		verb   string
		status int
		text   string
	}{
		{provision.Available, maintenance, "active", 400, "in maintenance mode"},
		{provision.Active, maintenance, "rebuild", 400, "in maintenance mode"},
		{provision.Active, protected, "rebuild", 403, "is protected"},
		{provision.Active, protected, "deleted", 403, "is protected"},
		{provision.Manageable, maintenance, "clean", 400, "in maintenance mode"},
		{provision.Active, maintenance, "service", 400, "The service operation can't be performed"},
		{provision.Active, maintenance, "rescue", 400, "The rescuing operation can't be performed"},
		{provision.Rescue, maintenance, "unrescue", 400, "The unrescuing operation can't be performed"},
		{provision.ServiceFail, maintenance, "abort", 409, "in maintenance mode"},
		{provision.Manageable, retired, "provide", 400, "is retired"},
	} {
		b.put(tt.state, provision.NoState, func(n *store.Node) {
			n.SetMaintenance(false, "")
			n.Protected, n.Retired = false, false
			tt.change(n)
		})
		if err := b.verb(tt.verb, nil); status(err) != tt.status || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s in %q: %v, want %d %q", tt.verb, tt.state, err, tt.status, tt.text)
		}
	}
}

func TestValidation(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	b.Ask = asker(func(ask.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"power":{"result":true},"deploy":{"result":false,"reason":"image_source is missing"}}`), nil
	})
	err := b.verb("active", nil)
	if status(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "Failed to validate deploy or power info for node "+node+". Error: deploy: image_source is missing") {
		t.Errorf("an invalid node: %v", err)
	}
	b.Ask = asker(func(ask.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"power":{"result":false,"reason":"redfish_address is missing"}}`), nil
	})
	err = b.Power(t.Context(), Power{Node: b.node(), Target: PowerOn})
	if status(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "redfish_address is missing") || b.node().WorkID != "" {
		t.Errorf("power of an invalid node: %v", err)
	}
	b.Ask = asker(func(ask.Request) (json.RawMessage, error) { return nil, errors.New("no answer") })
	if err := b.verb("active", nil); err != nil {
		t.Errorf("a rack that gives no answer: %v, want the request accepted", err)
	}
}

// A rack is asked about the node as it is now, ports and traits included; one that has not heard of the
// newest change refuses nothing.
func TestTheRackIsAskedAboutTheNewestChange(t *testing.T) {
	port := &store.Port{UUID: store.NewID(), Node: node, Address: "52:54:00:00:00:01", PXEEnabled: true}
	for _, c := range []struct {
		name   string
		change func(context.Context, *store.Tx, *store.Node) error
		seen   bool
	}{
		{"a port added", func(ctx context.Context, tx *store.Tx, _ *store.Node) error { return tx.InsertPort(ctx, port) }, true},
		{"traits", func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			return tx.SetTraits(ctx, n.UUID, []string{"T"})
		}, true},
		{"driver_info", func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			n.DriverInfo = map[string]any{"a": "b"}
			return tx.UpdateNode(ctx, n)
		}, true},
		{"extra", func(ctx context.Context, tx *store.Tx, n *store.Node) error {
			n.Extra = map[string]any{"a": "b"}
			return tx.UpdateNode(ctx, n)
		}, false},
	} {
		b := newBench(t)
		b.put(provision.Available, provision.NoState, nil)
		before := b.node().Revision // that of the document that the rack has
		err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, node)
			if err != nil {
				return err
			}
			return c.change(ctx, tx, n)
		})
		if err != nil {
			t.Fatal(err)
		}
		asked := false
		b.Ask = asker(func(q ask.Request) (json.RawMessage, error) {
			if asked = true; (q.NodeRevision > before) != c.seen || q.NodeRevision > b.node().Revision {
				t.Errorf("%s: the rack is asked about revision %d; its document was of %d, the node is of %d", c.name, q.NodeRevision, before, b.node().Revision)
			}
			return nil, &ask.Error{Status: http.StatusServiceUnavailable, Message: "not heard of yet"}
		})
		if err := b.verb("active", nil); err != nil || !asked {
			t.Errorf("%s: deploy: %v; the rack was asked: %v", c.name, err, asked)
		}
	}
}

func TestNoConductor(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	b.Roster = roster{{Name: "rack-9", Drivers: map[string]map[string][]string{"redfish": {}}}}
	if err := b.verb("active", nil); status(err) != http.StatusNotFound || !strings.Contains(err.Error(), "No valid host was found") {
		t.Errorf("no conductor for the driver: %v, want 404", err)
	}
	b.Roster = roster{}
	if err := b.verb("active", nil); status(err) != http.StatusServiceUnavailable {
		t.Errorf("no conductor at all: %v, want 503", err)
	}
	if err := b.verb("manage", nil); err != nil {
		t.Errorf("a transition that needs no rack: %v", err)
	}
}

func TestConfigDriveTravelsBeforeItsWork(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	if err := b.verb("active", func(p *Provision) { p.ConfigDrive = `{"meta_data":{}}` }); err != nil {
		t.Fatal(err)
	}
	n := b.node()
	w, err := b.Store.Work(t.Context(), n.WorkID)
	if err != nil || w.Args.ConfigDrive != w.ID {
		t.Fatalf("work %+v, %v", w, err)
	}
	if told := b.told.Load(); told != 1 {
		t.Errorf("the relay was told %d times, want once", told)
	}
	out, err := b.Store.OwnOutbox(t.Context(), "", "", 10)
	if err != nil || len(out) != 2 || out[0].Kind != store.OutboxDrive || out[0].Object != w.ID || out[1].Kind != store.OutboxNode {
		t.Fatalf("outbox %+v, %v, want the drive and then the node", out, err)
	}
	group, err := b.Key.ForGroup("")
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := group.Open(seal.Label{Kind: seal.SentDrive, Of: node, Work: out[0].Object}, out[0].Payload); err != nil || plain != `{"meta_data":{}}` {
		t.Errorf("the drive opens to %q, %v", plain, err)
	}
}

// TestConfigDriveIsKept holds that a rebuild without a config drive uses the last one, that
// it lies sealed beside the node, and that nothing comes of one that was taken away.
func TestConfigDriveIsKept(t *testing.T) {
	b := newBench(t)
	sent := func(verb, drive string) string {
		t.Helper()
		state := provision.Active
		if verb == "active" {
			state = provision.Available
		}
		b.put(state, provision.NoState, nil)
		before, err := b.Store.OwnOutbox(t.Context(), "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.verb(verb, func(p *Provision) { p.ConfigDrive = drive }); err != nil {
			t.Fatal(err)
		}
		w, err := b.Store.Work(t.Context(), b.node().WorkID)
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.Store.OwnOutbox(t.Context(), "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		group, err := b.Key.ForGroup("")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range out[len(before):] {
			if o.Kind != store.OutboxDrive {
				continue
			}
			if o.Object != w.ID || w.Args.ConfigDrive != w.ID {
				t.Errorf("the drive is object %s, the work is %s and names %q", o.Object, w.ID, w.Args.ConfigDrive)
			}
			plain, err := group.Open(seal.Label{Kind: seal.SentDrive, Of: node, Work: o.Object}, o.Payload)
			if err != nil {
				t.Fatal(err)
			}
			return plain
		}
		if w.Args.ConfigDrive != "" {
			t.Errorf("the work names drive %q, and none was sent", w.Args.ConfigDrive)
		}
		return ""
	}
	if got := sent("active", ""); got != "" {
		t.Errorf("a deploy without a drive sent %q", got)
	}
	for _, c := range []struct{ verb, given, want string }{
		{"active", "Zmlyc3Q=", "Zmlyc3Q="}, {"rebuild", "", "Zmlyc3Q="}, {"rebuild", "c2Vjb25k", "c2Vjb25k"}, {"rebuild", "", "c2Vjb25k"},
	} {
		if got := sent(c.verb, c.given); got != c.want {
			t.Errorf("%s with drive %q sent %q, want %q", c.verb, c.given, got, c.want)
		}
	}
	if got := b.node().InstanceInfo[store.DriveKey]; got != store.DriveKept {
		t.Errorf("instance_info says %v of the drive", got)
	}
	kept, err := b.Store.ConfigDrives(t.Context(), "", 10)
	if err != nil || len(kept) != 1 || kept[0].Node != node || strings.Contains(kept[0].Drive, "c2Vjb25k") {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	b.put(provision.Active, provision.NoState, func(n *store.Node) { n.InstanceInfo = nil })
	if got := sent("rebuild", ""); got != "" {
		t.Errorf("a drive that was taken away was sent: %q", got)
	}
}

func TestOneOfManyAtOnce(t *testing.T) {
	b := newBench(t)
	read := b.node()
	manage, _ := provision.LookupVerb("manage")
	results := make(chan error)
	const many = 8
	for range many {
		go func() {
			results <- b.Provision(context.WithoutCancel(t.Context()), Provision{Node: read, Verb: manage, Version: 115})
		}()
	}
	won := 0
	for range many {
		switch err := <-results; {
		case err == nil:
			won++
		case status(err) != http.StatusConflict:
			t.Errorf("a loser got %v, want 409", err)
		}
	}
	if won != 1 {
		t.Errorf("%d requests were accepted, want 1", won)
	}
}

func TestPower(t *testing.T) {
	b := newBench(t)
	b.put(provision.Active, provision.NoState, func(n *store.Node) { n.DisablePowerOff = true })
	if err := b.Power(t.Context(), Power{Node: b.node(), Target: PowerOff}); status(err) != http.StatusConflict {
		t.Errorf("power off where it is disabled: %v, want 409", err)
	}
	if err := b.Power(t.Context(), Power{Node: b.node(), Target: "dance"}); status(err) != http.StatusBadRequest {
		t.Errorf("an unknown target: %v, want 400", err)
	}
	if err := b.Power(t.Context(), Power{Node: b.node(), Target: Rebooting, TimeoutSeconds: 9}); err != nil {
		t.Fatal(err)
	}
	n := b.node()
	w, err := b.Store.Work(t.Context(), n.WorkID)
	if err != nil || w.Verb != work.Power || w.Args.PowerTarget != Rebooting || w.Args.TimeoutSeconds != 9 || w.Entry != provision.Active {
		t.Errorf("work %+v, %v", w, err)
	}
	if n.TargetPowerState != Rebooting || n.ProvisionState != provision.Active {
		t.Errorf("node in %q, target power state %q", n.ProvisionState, n.TargetPowerState)
	}
	b.put(provision.CleanWait, provision.Available, nil)
	if err := b.Power(t.Context(), Power{Node: b.node(), Target: PowerOn}); status(err) != http.StatusBadRequest {
		t.Errorf("power on in clean wait: %v, want 400", err)
	}
	if err := b.Power(t.Context(), Power{Node: &store.Node{UUID: "99999999-2222-4333-8444-555555555555"}, Target: PowerOn}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown node: %v", err)
	}
}

// TestStatements holds what accepting a deploy costs the database. Two of them number the
// change, which SQLite is asked for by statements of their own; before, another transaction
// did that with four.
func TestStatements(t *testing.T) {
	b := newBench(t)
	b.put(provision.Available, provision.NoState, nil)
	before := b.Store.Statements()
	if err := b.verb("active", nil); err != nil {
		t.Fatal(err)
	}
	if n := b.Store.Statements() - before; n > 8 {
		t.Errorf("accepting a deploy took %d statements, want 8 at most, the read before it included", n)
	}
}

// A node that changed after the caller read it is read again: the request is judged,
// and written, by what it is now.
func TestChangedSinceItWasRead(t *testing.T) {
	deploy, _ := provision.LookupVerb("active")
	for _, c := range []struct {
		name   string
		change func(*store.Node)
		want   int // status of the refusal, 0 for none
	}{
		{"what does not matter", func(n *store.Node) { n.Description = "kept" }, 0},
		{"what speaks against it", func(n *store.Node) { n.Description = "kept"; n.SetMaintenance(true, "") }, http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put(provision.Available, provision.NoState, nil)
			read := b.node()
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, node)
				if err != nil {
					return err
				}
				c.change(n)
				return tx.UpdateNode(ctx, n)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Provision(t.Context(), Provision{Node: read, Verb: deploy, Version: 115}); status(err) != c.want {
				t.Errorf("got %v, want %d", err, c.want)
			}
			if n := b.node(); n.Description != "kept" || (n.WorkID != "") != (c.want == 0) {
				t.Errorf("description %q, work %q: want what is in the database kept, and work if the request was accepted", n.Description, n.WorkID)
			}
		})
	}
}

// An abort of work that began after the caller read the node supersedes that work.
func TestAbortOfWorkNotYetSeen(t *testing.T) {
	b := newBench(t)
	b.put(provision.CleanWait, provision.Available, nil)
	read := b.node()
	var w *store.Work
	err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, node)
		if err != nil {
			return err
		}
		n.Accept(n.ProvisionState, n.TargetProvisionState, noon)
		w = b.newWork(n, "rack-1", Caller{})
		return errors.Join(tx.UpdateNode(ctx, n), tx.InsertWork(ctx, w))
	})
	if err != nil {
		t.Fatal(err)
	}
	abort, _ := provision.LookupVerb("abort")
	if err := b.Provision(t.Context(), Provision{Node: read, Verb: abort, Version: 115}); err != nil {
		t.Fatal(err)
	}
	if row, err := b.Store.Work(t.Context(), w.ID); err != nil || row.State != store.WorkSuperseded {
		t.Errorf("the work that was cut short: %+v, %v", row, err)
	}
	if n := b.node(); n.WorkVerb != work.Abort {
		t.Errorf("the node does %q", n.WorkVerb)
	}
}
