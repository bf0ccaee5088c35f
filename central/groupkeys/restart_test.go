package groupkeys

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
)

// between is how often the keepers look.
const between = 5 * time.Minute

// watch has the keepers of some replicas look, until the group has left the stage, and says after how long it has. Each
// replica begins again after so much time.
func (b *bench) watch(stage string, replicas []*bench, restart, most time.Duration) time.Duration {
	b.t.Helper()
	began := b.now
	for b.now.Sub(began) < most {
		b.now = b.now.Add(between)
		for i, r := range replicas {
			if up := b.now.Sub(began) + time.Duration(i)*restart/time.Duration(len(replicas)); up%restart < between {
				r.prepare()
			}
			r.now = b.now
			if got := r.after(0); got != stage {
				return b.now.Sub(began)
			}
		}
	}
	return most
}

// beside is another replica on the same database.
func (b *bench) beside() *bench {
	c := &bench{t: b.t, fleet: b.fleet, now: b.now}
	k := *b.Keeper
	k.Rackds, k.Now = func() []bus.Member { return b.live }, func() time.Time { return c.now }
	c.Keeper = &k
	c.prepare()
	return c
}

// Central is started again each day, or each hour. One stage waits for a rackd that does not renew, another one for work that does not
// end. Both are over after their 27 hours all the same, and not before.
func TestACentralThatIsRestartedEndsReplacements(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		restart  time.Duration
	}{
		"each day":         {1, 24 * time.Hour},
		"each hour":        {1, time.Hour},
		"three, each hour": {3, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.update(func(ctx context.Context, tx *store.Tx) error { return Begin(ctx, tx, "a", b.now) })
			b.live = []bus.Member{b.rackd("r1", 0), b.rackd("r2", 0, 1)}
			replicas := []*bench{b}
			for len(replicas) < c.replicas {
				replicas = append(replicas, b.beside())
			}
			// What a restart loses is the time since the row was told last, where no other replica runs on.
			most := Bound + time.Duration(Bound/c.restart+2)*(countEvery+between)
			if d := b.watch(HandingOut, replicas, c.restart, 5*Bound); d < Bound || d > most {
				t.Errorf("handing out took %v, want %v to %v", d, Bound, most)
			}
			b.live = []bus.Member{b.rackd("r1", 1, 0)}
			if d := b.watch(Sealing, replicas, c.restart, Bound); d < settled || d > time.Hour {
				t.Errorf("sealing took %v", d)
			}
			b.open("that does not end", 0)
			if d := b.watch(Publishing, replicas, c.restart, Bound); d > time.Hour {
				t.Errorf("publishing took %v", d)
			}
			if d := b.watch(Ending, replicas, c.restart, 5*Bound); d < Bound || d > most {
				t.Errorf("ending took %v, want %v to %v", d, Bound, most)
			}
		})
	}
}

// A replica of an older program moves a stage on, and leaves what was counted of the stage before. That does not count.
func TestWhatWasCountedIsOfItsStage(t *testing.T) {
	b := newBench(t)
	b.update(func(ctx context.Context, tx *store.Tx) error { return Begin(ctx, tx, "a", b.now) })
	b.live = []bus.Member{b.rackd("r1", 0), b.rackd("r2", 0, 1)}
	b.want(HandingOut, 0)
	b.want(HandingOut, Bound-time.Minute)
	b.update(func(ctx context.Context, tx *store.Tx) error {
		g, err := tx.GroupKey(ctx, "a")
		if err != nil {
			return err
		}
		if g.Counted == 0 {
			t.Error("nothing was counted")
		}
		g.Stage = Sealing
		return tx.PutGroupKey(ctx, g)
	})
	b.prepare()
	b.want(Sealing, 0)
	b.want(Sealing, settled-time.Second)
	b.want(Publishing, time.Second)
}
