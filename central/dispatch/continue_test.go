package dispatch

import (
	"context"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A node that is let go from its hold goes on with the flow that it was in; the work
// that began it names all that follow.
func TestUnholdGoesOnWithTheFlow(t *testing.T) {
	b := newBench(t)
	b.put(provision.CleanHold, provision.Manageable, nil)
	first := &store.Work{Verb: work.Clean, Args: work.Args{Steps: []work.Step{{Interface: "deploy", Step: "hold"}}, DisableRamdisk: true}}
	b.open(first)
	for range 2 {
		if err := b.verb("unhold", nil); err != nil {
			t.Fatal(err)
		}
		n := b.node()
		w, err := b.Store.Work(t.Context(), n.WorkID)
		if err != nil || n.ProvisionState != provision.CleanWait || n.TargetProvisionState != provision.Manageable || w.Verb != work.Clean ||
			w.Args.Continues != first.ID || len(w.Args.Steps) != 1 || !w.Args.DisableRamdisk || w.Entry != provision.CleanWait || w.ID == first.ID {
			t.Fatalf("state %q, target %q, work %+v, %v", n.ProvisionState, n.TargetProvisionState, w, err)
		}
		b.observe(provision.CleanHold, provision.Manageable, "")
	}
	b.put(provision.CleanHold, provision.Manageable, nil)
	if err := b.verb("unhold", nil); status(err) != http.StatusConflict {
		t.Errorf("unhold without work: %v, want 409", err)
	}
}

// A step that must not be cut short delays an abort to its end.
func TestAbortWaitsForTheEndOfAStep(t *testing.T) {
	for _, c := range []struct {
		state provision.State
		info  string
		want  provision.State
		verb  work.Verb
	}{
		{provision.CleanWait, `{"step":"erase","abortable":false}`, provision.CleanWait, work.Clean},
		{provision.CleanWait, `{"step":"erase","abortable":true}`, provision.CleanFail, work.Abort},
		{provision.CleanWait, "", provision.CleanFail, work.Abort},
		{provision.ServiceWait, `{"step":"update"}`, provision.ServiceWait, work.Service},
		{provision.CleanHold, `{"step":"hold"}`, provision.CleanFail, work.Abort},
		{provision.DeployWait, `{"step":"write_image"}`, provision.DeployFail, work.Abort},
	} {
		b := newBench(t)
		b.put(c.state, provision.NoState, nil)
		b.open(&store.Work{Verb: map[bool]work.Verb{true: work.Service, false: work.Clean}[c.state == provision.ServiceWait]})
		open := b.node().WorkID
		b.observe(c.state, provision.NoState, c.info)
		if err := b.verb("abort", nil); err != nil {
			t.Errorf("%s, step %s: %v", c.state, c.info, err)
			continue
		}
		n := b.node()
		w, err := b.Store.Work(t.Context(), n.WorkID)
		later := c.verb != work.Abort
		if err != nil || n.ProvisionState != c.want || w.Verb != c.verb || w.Args.AbortAfter != later || (w.Args.Continues == open) != later {
			t.Errorf("%s, step %s: state %q, work %+v, %v", c.state, c.info, n.ProvisionState, w, err)
		}
	}
}

// observe reports a state and a running step of the node's open work, as ingest does.
func (b *bench) observe(state, target provision.State, info string) {
	b.t.Helper()
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		n := all[node]
		n.ObservedGeneration, n.ObservedState, n.ObservedTarget, n.ObservedAt = n.Generation, state, target, noon
		n.ObservedStep, n.ObservedStepInfo = "deploy.erase", info
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
