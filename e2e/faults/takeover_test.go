package faults

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

func TestTakeoverOfKilledRackd(t *testing.T) {
	l := theLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	nodes := l.nodes["alpha"]
	for _, id := range nodes {
		if r := l.ops.Ask(ctx, id, "", "active"); !r.Accepted() {
			t.Fatal(r.Fault)
		}
	}
	victim := l.Sites[0].Rackds[0]
	if err := l.see.Await(ctx, func() bool {
		for _, s := range l.see.Owned(victim.Name()) {
			if s.Doc.Checkpoint.Handle != nil && s.Doc.Checkpoint.Step == "deploy.write_image" {
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatalf("no deploy got as far as its image: %v", err)
	}
	owned := l.see.Owned(victim.Name())
	killed := time.Now()
	victim.Kill()
	defer victim.Start()
	err := l.see.Await(ctx, func() bool {
		now := l.see.Newest()
		for id, was := range owned {
			if s := now[id]; s.Doc.ID == was.Doc.ID && s.Doc.Owner == victim.Name() && !s.Gone && s.Doc.Open() {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("its work was not taken over: %v", err)
	}
	took := time.Since(killed)
	t.Logf("%d pieces of work of %s taken over %v after the kill", len(owned), victim.Name(), took.Round(time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("took %v, more than 5 s", took)
	}
	if err := l.each(nodes, func(id string) error { return l.ops.Wait(ctx, id, provision.Active) }); err != nil {
		t.Error(err)
	}
	l.judge(t)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
}
