package roster

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
)

// A rackd that sees another one's lease run out tells so, and central knows at once. What it tells of one that lives changes
// nothing, and postpones nothing.
func TestSurvivorsTellOfTheDead(t *testing.T) {
	t.Parallel()
	site := bustest.Open(t)
	r := New(Config{Log: slog.New(slog.DiscardHandler)})
	ctx, stop := Followed(t, r, site)
	var g errgroup.Group
	defer func() {
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	survivor := bus.Member{Name: "survivor", Group: "rack1", Instance: "i", Edition: 1}
	rev, err := site.Announce(ctx, survivor, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := site.Announce(ctx, bus.Member{Name: "dead", Group: "rack1", Instance: "j", Edition: 1}, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == 2 }); err != nil {
		t.Fatal(err)
	}
	key := bus.MemberKey("rack1", "dead")
	asks, err := site.Conn.SubscribeSync("$JS.API.DIRECT.GET.KV_" + bus.AliveBucket + ".$KV." + bus.AliveBucket + "." + key)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		site.BeatGone(key) // a lie, so far
	}
	var mine atomic.Int64 // asks
	ended := make(chan time.Time, 1)
	g.Go(func() error {
		defer close(ended)
		for tick := time.Tick(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick:
			}
			if rev, err = site.Announce(ctx, survivor, rev); err != nil {
				return err
			}
			mine.Add(1)
			holder, _, err := site.Announced(ctx, "rack1", "dead")
			if err != nil {
				return err
			}
			if holder == nil || holder.Name == "" {
				ended <- time.Now()
				site.BeatGone(key)
				return nil
			}
		}
	})
	if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == 1 && m[0].Name == "survivor" }); err != nil {
		t.Fatal(err)
	}
	looks, _, err := asks.Pending()
	if err != nil {
		t.Fatal(err)
	}
	looks -= int(mine.Load())
	if looks < looksAtOnce || looks > 2*looksAtOnce+20 {
		t.Errorf("for 500 beats of two that tell of the same death central has looked %d times", looks)
	}
	if at, told := <-ended; !told || time.Since(at) > time.Second {
		t.Errorf("central knew %v after the end of the lease, or before it (%v)", time.Since(at), told)
	}
}

// All replicas read a member at the same moment once a minute. That was a sign of life of one that had died in the three
// seconds before, and central asked the dead one for 4.5 s more.
func TestReadingAMemberIsNoSignOfLife(t *testing.T) {
	site := bustest.Open(t)
	r := New(Config{Log: slog.New(slog.DiscardHandler)})
	if _, err := site.Announce(t.Context(), bus.Member{Name: "a", Group: "rack1", Instance: "i"}, 0); err != nil {
		t.Fatal(err)
	}
	f := follower{Roster: r, site: site, heard: map[string]heard{}}
	if err := f.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := bus.MemberKey("rack1", "a")
	was := heard{next: time.Now().Add(time.Millisecond), looks: 1}
	f.heard[key] = was
	f.readAgain(t.Context())
	if f.heard[key] != was {
		t.Errorf("it is next to be looked at %v, was %v", f.heard[key], was)
	}
	if _, err := site.Announce(t.Context(), bus.Member{Name: "b", Group: "rack1", Instance: "i", Edition: 1}, 0); err != nil {
		t.Fatal(err)
	}
	if !f.look(t.Context(), bus.MemberKey("rack1", "b")) || len(r.Conductors()) != 2 {
		t.Errorf("there are %v", r.Conductors())
	}
	if keys := r.withoutEdition(""); len(keys) != 1 || keys[0] != key {
		t.Errorf("%v are to be read again, want the one whose beats name no edition", keys)
	}
}

// A member that says something new under the edition that central has not read is read, also when the first beat of that
// edition was lost.
func TestAnotherEditionIsRead(t *testing.T) {
	r := New(Config{Log: slog.New(slog.DiscardHandler)})
	key := bus.MemberKey("rack1", "a")
	r.replace("", map[string]bus.Member{key: {Name: "a", Group: "rack1", Instance: "i", Edition: 2}})
	for b, want := range map[bus.Beat]bool{
		{Key: key, Instance: "i", Edition: 2}: true,
		{Key: key, Instance: "i", Edition: 3}: false,
		{Key: key, Instance: "i", Edition: 1}: false, // a copy of the bucket that is behind was read: again
		{Key: key, Instance: "i"}:             true,  // it only says that something is lost, or another rackd gone
		{Key: key, Instance: "j", Edition: 2}: false,
		{Key: key}:                            false,
	} {
		if got := r.renewed("", b); got != want {
			t.Errorf("%+v is known: %v, want %v", b, got, want)
		}
	}
}

// A rackd tells what it has found also when its lease is over: that postpones nothing.
func TestWhatARackdHasFoundIsNoSignOfLife(t *testing.T) {
	key := bus.MemberKey("rack1", "a")
	seen := time.Now().Add(-time.Hour)
	r := New(Config{Log: slog.New(slog.DiscardHandler)})
	r.replace("", map[string]bus.Member{key: {Name: "a", Group: "rack1", Instance: "i", Edition: 1, RenewedAt: seen}})
	was := heard{next: time.Now(), looks: 1}
	f := follower{Roster: r, site: &bus.Site{}, heard: map[string]heard{key: was}}
	for _, found := range []bus.Beat{{Key: key, Instance: "i", Lost: true}, {Key: key, Instance: "i", Gone: "rack1.unknown"}} {
		f.beat(t.Context(), found)
		if m := r.Conductors()[0]; f.heard[key] != was || !m.RenewedAt.Equal(seen) {
			t.Errorf("after %+v it is next to be looked at %v, was %v; renewed %v", found, f.heard[key], was, m.RenewedAt)
		}
	}
	f.beat(t.Context(), bus.Beat{Key: key, Instance: "i", Edition: 1})
	if m := r.Conductors()[0]; f.heard[key] == was || m.RenewedAt.Equal(seen) {
		t.Error("a renewal counts for nothing")
	}
}

// A site's server makes up beats under keys that no bucket takes. They are not remembered, and hold up no look at others.
func TestKeysThatNoBucketTakes(t *testing.T) {
	f := follower{New(Config{Log: slog.New(slog.DiscardHandler)}), bustest.Open(t), map[string]heard{}, map[string]*rate.Limiter{}}
	for i := range 100 {
		for range looksAtOnce + 1 {
			f.beat(t.Context(), bus.Beat{Key: fmt.Sprint("rack1.$", i), Instance: "i"})
		}
	}
	key := bus.MemberKey("rack1", "dead")
	f.replace("", map[string]bus.Member{key: {Name: "dead", Group: "rack1", Instance: "i", Edition: 1}})
	f.heard[key] = heard{}
	for range 5 {
		f.overdue(t.Context())
	}
	if len(f.heard) > 0 || len(f.Conductors()) > 0 {
		t.Errorf("%d keys are remembered, %d rackds are taken for living", len(f.heard), len(f.Conductors()))
	}
}
