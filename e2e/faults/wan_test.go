package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// cutFor is how long the WAN is cut at least: long enough for both ends to give up
// their connections.
const cutFor = 15 * time.Second

// While a site is cut off its rackds go on, also when one of them dies; central answers
// what it can, takes requests, and says what is wrong.
func TestWANCut(t *testing.T) {
	l, ctx := theLab(t), within(t, 5*time.Minute)
	site, group := l.Sites[0], l.nodes["alpha"]
	l.available(ctx, t, group)
	running, queued := group[:len(group)/2], group[len(group)/2:]
	l.deploy(ctx, t, running)
	l.working(ctx, t, "", 1, writing)
	victim := l.busiest(site)
	if err := site.WAN.Cut(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { site.WAN.Join() })
	taking, noticing, cut := strained(t), strained(t), time.Now()
	owned := l.see.Owned(victim.Name())
	start(t, victim)
	victim.Kill()
	l.taken(ctx, t, victim.Name(), owned)
	taking.atMost(t, "the takeover with the WAN cut", time.Since(cut), 5*time.Second)
	l.away(ctx, t, site.Rackds[0].Name())
	noticing.atMost(t, "central's noticing of the cut", time.Since(cut), 15*time.Second)
	l.accepts(t, ctx, queued)
	// The witness is in the site: what was running ends there, unseen by central.
	if err := l.see.Await(ctx, func() bool {
		now := l.see.Newest()
		for _, id := range running {
			if s := now[id]; !s.Gone && s.Doc.Open() {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatalf("deploys did not end while the WAN was cut: %v", err)
	}
	for _, id := range running {
		if s := l.see.Newest()[id]; s.Doc.State != provision.Active {
			t.Errorf("node %s ended in %q: %+v", id, s.Doc.State, s.Doc.Result)
		}
	}
	if err := victim.Start(); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Until(cut.Add(cutFor))) // it is the length of the cut that matters
	if err := site.WAN.Join(); err != nil {
		t.Fatal(err)
	}
	joined := time.Now()
	l.active(ctx, t, group)
	t.Logf("cut for %v; everything had caught up %v after it", joined.Sub(cut).Round(time.Second), time.Since(joined).Round(time.Second))
	l.judge(t)
}

// away waits until central says that a rackd cannot be seen.
func (l *lab) away(ctx context.Context, t *testing.T, rackd string) {
	t.Helper()
	for _, c := range l.Central {
		if err := c.Await(ctx, func(ctx context.Context) error {
			alive, err := c.Conductors(ctx)
			if err == nil && alive[rackd] {
				err = fmt.Errorf("%s is shown alive", rackd)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// accepts asks for deploys at a site that is away; each must be answered soon.
func (l *lab) accepts(t *testing.T, ctx context.Context, nodes []string) {
	t.Helper()
	strain := strained(t)
	took := make(chan time.Duration, len(nodes))
	if err := l.each(nodes, func(id string) error {
		if r := l.ops.SetImage(ctx, id, l.Images[0].Info()); !r.Accepted() {
			return fmt.Errorf("set image of node %s: %d: %s", id, r.Status, r.Fault)
		}
		r := l.ops.Ask(ctx, id, "available", "active")
		took <- r.Answered.Sub(r.Sent)
		if !r.Accepted() {
			return fmt.Errorf("deploy node %s: %d: %s", id, r.Status, r.Fault)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	close(took)
	var slowest time.Duration
	for d := range took {
		slowest = max(slowest, d)
	}
	strain.atMost(t, "the slowest answer about a site that is away", slowest, 2*time.Second)
}
