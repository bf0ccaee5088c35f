package faults

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/witness"
)

// All rackds of a group die and the group that stands in for it goes on with their
// work; when they return they get their nodes back.
func TestFailoverGroup(t *testing.T) {
	l, ctx := theLab(t), within(t, 4*time.Minute)
	site, nodes := l.Sites[1], l.nodes["beta"]
	l.available(ctx, t, nodes)
	l.deploy(ctx, t, nodes)
	var own []*topology.Rackd
	for _, r := range site.Rackds {
		if r.Group == "beta" {
			own = append(own, r)
			start(t, r)
		}
	}
	if err := l.see.Await(ctx, func() bool {
		n := 0
		for _, r := range own {
			for _, s := range l.see.Owned(r.Name()) {
				if writing(s) {
					n++
				}
			}
		}
		return n > 0
	}); err != nil {
		t.Fatal(err)
	}
	owned := map[string]map[string]witness.Sight{}
	for _, r := range own {
		owned[r.Name()] = l.see.Owned(r.Name())
	}
	strain, killed := strained(t), time.Now()
	for _, r := range own {
		r.Kill()
	}
	for name, works := range owned {
		l.taken(ctx, t, name, works)
	}
	for _, id := range nodes {
		if s := l.see.Newest()[id]; !s.Gone && s.Doc.Open() && s.Doc.Owner != "gamma-1" {
			t.Errorf("node %s is with %q", id, s.Doc.Owner)
		}
	}
	l.served(ctx, t, nodes, own[0].Name())
	strain.atMost(t, "the takeover by the other group", time.Since(killed), 5*time.Second)
	l.active(ctx, t, nodes)
	for _, r := range own {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	l.served(ctx, t, nodes, "gamma-1")
	l.judge(t)
}
