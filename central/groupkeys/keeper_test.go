package groupkeys

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// bench is a keeper with its database, its rackds and its clock.
type bench struct {
	*Keeper
	t     *testing.T
	fleet *seal.Key
	now   time.Time
	live  []bus.Member
}

func newBench(t *testing.T) *bench {
	t.Helper()
	fleet, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, fleet: fleet, now: time.Now()}
	db := storetest.Open(t, storetest.SQLite(t))
	keys, err := Open(t.Context(), db, fleet)
	if err != nil {
		t.Fatal(err)
	}
	b.Keeper = &Keeper{Store: db, Keys: keys, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Rackds: func() []bus.Member { return b.live },
		Away: func(string) error { return nil }, SiteOf: func(string) string { return "east" }, Now: func() time.Time { return b.now }}
	b.prepare()
	return b
}

func (b *bench) update(f func(ctx context.Context, tx *store.Tx) error) {
	b.t.Helper()
	if err := b.Store.Update(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
}

// rackd says which generations a rackd of group "a" has.
func (b *bench) rackd(name string, generations ...uint64) bus.Member {
	b.t.Helper()
	key, err := b.fleet.ForGroupAt("a", generations...)
	if err != nil {
		b.t.Fatal(err)
	}
	return bus.Member{Name: name, Group: "A", Keys: map[string][]string{"a": key.IDs()}}
}

// after is the stage that the group is in when some time has passed.
func (b *bench) after(d time.Duration) string {
	b.t.Helper()
	b.now = b.now.Add(d)
	if err := b.look(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	g, err := b.Store.GroupKey(b.t.Context(), "a")
	if err != nil {
		b.t.Fatal(err)
	}
	return g.Stage
}

func (b *bench) want(stage string, after time.Duration) {
	b.t.Helper()
	if got := b.after(after); got != stage {
		b.t.Fatalf("stage %q, want %q", got, stage)
	}
}

// A replacement goes on as rackds take the key up; one that was revoked is not waited for.
func TestStages(t *testing.T) {
	b := newBench(t)
	b.update(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.InsertMember(ctx, &store.Member{ID: "1", Scope: join.Scope{Role: join.Rackd, Site: "east", Name: "thief", Group: "a"}, EndedAt: b.now}); err != nil {
			return err
		}
		return Begin(ctx, tx, "A", b.now)
	})
	thief := b.rackd("thief", 0)
	b.live = []bus.Member{thief, b.rackd("r1", 0)}
	b.want(HandingOut, time.Minute)
	b.live = []bus.Member{thief, b.rackd("r1", 0, 1)}
	b.want(Sealing, time.Second)
	b.want(Sealing, settled-time.Second)
	b.want(Publishing, time.Second)
	b.want(Publishing, time.Minute) // it still seals with the old one
	b.live = []bus.Member{thief, b.rackd("r1", 1, 0)}
	b.want(Ending, time.Second)
	b.want(Ending, committed-time.Second)
	b.want(Withdrawing, time.Second)
	b.want(Withdrawing, time.Minute)
	b.live = []bus.Member{thief, b.rackd("r1", 1)}
	b.want("", time.Second)
}

// No rackd holds a replacement up for ever, and central does not seal with what no living rackd can open,
// unless an operator says so.
func TestNoStageWaitsForEver(t *testing.T) {
	for name, c := range map[string]struct {
		live  func(b *bench) []bus.Member
		stage string
	}{
		"one of two renews":          {func(b *bench) []bus.Member { return []bus.Member{b.rackd("r1", 0), b.rackd("r2", 0, 1)} }, Sealing},
		"none of two renews":         {func(b *bench) []bus.Member { return []bus.Member{b.rackd("r1", 0), b.rackd("r2", 0)} }, HandingOut},
		"one of an older program":    {func(b *bench) []bus.Member { return []bus.Member{{Name: "r1", Group: "a"}, b.rackd("r2", 0, 1)} }, Sealing},
		"rackds of another group":    {func(*bench) []bus.Member { return []bus.Member{{Name: "r1", Group: "b"}} }, Sealing},
		"no rackd of the group left": {func(*bench) []bus.Member { return nil }, Sealing},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.update(func(ctx context.Context, tx *store.Tx) error { return Begin(ctx, tx, "a", b.now) })
			b.live = c.live(b)
			if b.after(0) == HandingOut {
				b.want(HandingOut, Bound-time.Second)
				b.want(c.stage, time.Second)
			}
			if c.stage != HandingOut {
				return
			}
			if _, err := Hasten(t.Context(), b.Store, "a"); err != nil {
				t.Fatal(err)
			}
			b.want(Sealing, time.Second)
		})
	}
}

// A stolen rackd of another group says that it has keys of the group, none of them the new one. Nothing waits for it. What stands in
// for the group, by its membership or by central's configuration, is waited for.
func TestRackdsOfOtherGroupsHoldNothingUp(t *testing.T) {
	for name, c := range map[string]struct {
		scope    join.Scope
		failover []string
		stage    string
	}{
		"another group":                   {scope: join.Scope{Group: "b"}, stage: Sealing},
		"another group's stand-in":        {scope: join.Scope{Group: "b", FailoverOf: []string{"c"}}, failover: []string{"c"}, stage: Sealing},
		"a stand-in by its membership":    {scope: join.Scope{Group: "b", FailoverOf: []string{"A"}}, stage: HandingOut},
		"a stand-in by the configuration": {scope: join.Scope{Group: "b"}, failover: []string{"B"}, stage: HandingOut},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Failover = func(string) []string { return c.failover }
			c.scope.Role, c.scope.Site, c.scope.Name = join.Rackd, "east", "other"
			b.update(func(ctx context.Context, tx *store.Tx) error {
				return errors.Join(tx.InsertMember(ctx, &store.Member{ID: "1", Scope: c.scope}), Begin(ctx, tx, "a", b.now))
			})
			b.live = []bus.Member{b.rackd("r1", 0, 1), {Name: "other", Group: "b", Keys: map[string][]string{"a": {"made up"}}}}
			b.want(c.stage, time.Minute)
		})
	}
}

// A second revocation in the middle begins once more with a generation that its rackd has not.
func TestASecondRevocation(t *testing.T) {
	b := newBench(t)
	begin := func() {
		b.update(func(ctx context.Context, tx *store.Tx) error { return Begin(ctx, tx, "a", b.now) })
	}
	begin()
	b.live = []bus.Member{b.rackd("r1", 0, 1)}
	b.want(Sealing, time.Second)
	begin()
	b.want(HandingOut, time.Second)
	b.live = []bus.Member{b.rackd("r1", 1, 2, 0)}
	b.want(Sealing, time.Second)
	g, err := b.Store.GroupKey(t.Context(), "a")
	if err != nil || g.Sealing != 2 || g.Oldest != 0 {
		t.Errorf("row %+v, %v", g, err)
	}
}

// open begins a piece of work on a new node of group "a". It bears a time of a replica whose clock is off by so much.
func (b *bench) open(name string, off time.Duration) (id string) {
	b.t.Helper()
	n := storetest.NewNode(name)
	n.ConductorGroup = "a"
	storetest.Insert(b.t, b.Store, n)
	w := storetest.NewWork(n, work.Deploy)
	w.Group, w.RequestedAt = "a", b.now.Add(off)
	b.update(func(ctx context.Context, tx *store.Tx) error { return tx.InsertWork(ctx, w) })
	return w.ID
}

// Replicas have clocks that are days ahead or behind, and take turns. No stage ends early or waits longer for that, and work that began
// under the old key keeps that key.
func TestClocksOfReplicasThatAreWrong(t *testing.T) {
	const days = 5 * 24 * time.Hour
	for name, off := range map[string]time.Duration{"ahead": days, "behind": -days} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.update(func(ctx context.Context, tx *store.Tx) error { return Begin(ctx, tx, "a", b.now.Add(off)) })
			b.live = []bus.Member{b.rackd("r1", 0), b.rackd("r2", 0, 1)}
			b.want(HandingOut, time.Minute) // not overdue
			b.want(HandingOut, time.Hour)
			b.live = []bus.Member{b.rackd("r1", 0, 1)}
			b.want(Sealing, time.Second)
			// The row says that the stage began at another replica's time.
			moved := func() {
				b.update(func(ctx context.Context, tx *store.Tx) error {
					g, err := tx.GroupKey(ctx, "a")
					if err != nil {
						return err
					}
					g.StageAt = b.now.Add(off)
					return tx.PutGroupKey(ctx, g)
				})
			}
			moved()
			b.want(Sealing, settled-time.Second)
			b.want(Publishing, time.Second)
			b.live = []bus.Member{b.rackd("r1", 1, 0)}
			works := []string{b.open("before", 0), b.open("by one ahead", days), b.open("by one behind", -days)}
			b.want(Ending, time.Second)
			moved()
			for _, id := range works {
				b.want(Ending, committed)
				b.update(func(ctx context.Context, tx *store.Tx) error { return tx.EndWork(ctx, id, store.WorkEnded, "") })
			}
			b.open("begun later", -days)
			b.want(Withdrawing, time.Second)
		})
	}
}
