package dispatch

import (
	"cmp"
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
		{provision.DeployWait, `{"step":"write_image","abortable":true}`, provision.DeployFail, work.Abort},
		{provision.DeployWait, `{"step":"update","abortable":false}`, provision.DeployWait, work.Deploy},
	} {
		b := newBench(t)
		b.put(c.state, provision.NoState, nil)
		verb := map[provision.State]work.Verb{provision.ServiceWait: work.Service, provision.DeployWait: work.Deploy}[c.state]
		b.open(&store.Work{Verb: cmp.Or(verb, work.Clean), Args: work.Args{ConfigDrive: "d", Steps: []work.Step{{Interface: "deploy", Step: "erase"}}}})
		open := b.node().WorkID
		b.observe(c.state, provision.NoState, c.info)
		if err := b.verb("abort", nil); err != nil {
			t.Errorf("%s, step %s: %v", c.state, c.info, err)
			continue
		}
		n := b.node()
		w, err := b.Store.Work(t.Context(), n.WorkID)
		later := c.verb != work.Abort
		if err != nil || n.ProvisionState != c.want || w.Verb != c.verb || w.Args.AbortAfter != later || w.Args.Continues != open ||
			len(w.Args.Steps) != 1 || w.Args.Aborts != map[bool]work.Verb{false: cmp.Or(verb, work.Clean)}[later] {
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

// What is asked of a machine while its flow waits goes before that goes on; until it is
// done nothing else goes on with the flow.
func TestAskedBesideAFlowThatWaits(t *testing.T) {
	on := true
	ask := map[string]func(b *bench) error{
		"power": func(b *bench) error {
			return b.Power(b.t.Context(), Power{Node: b.node(), Target: PowerOff, TimeoutSeconds: 7})
		},
		"console": func(b *bench) error {
			return b.Adjust(b.t.Context(), Adjustment{Node: b.node(), Change: work.Change{Console: &on}, What: "console on"})
		},
	}
	is := map[string]func(n *store.Node, a work.Args) bool{
		"power": func(n *store.Node, a work.Args) bool {
			return a.PowerTarget == PowerOff && a.TimeoutSeconds == 7 && a.Change == nil && n.TargetPowerState == PowerOff
		},
		"console": func(n *store.Node, a work.Args) bool {
			return a.PowerTarget == "" && a.Change != nil && *a.Change.Console && n.TargetPowerState == ""
		},
	}
	for _, state := range []provision.State{provision.DeployWait, provision.DeployHold, provision.InspectWait, provision.CleanHold} {
		for name, ask := range ask {
			b := newBench(t)
			b.put(state, provision.Active, nil)
			b.open(&store.Work{Verb: work.Deploy, Args: work.Args{Steps: []work.Step{{Interface: "deploy", Step: "hold"}}, LetGo: "before"}})
			open := b.node()
			if err := ask(b); err != nil {
				t.Errorf("%s in %q: %v", name, state, err)
				continue
			}
			n := b.node()
			w, err := b.Store.Work(t.Context(), n.WorkID)
			if err != nil || n.ProvisionState != state || n.TargetProvisionState != provision.Active || !n.ProvisionUpdatedAt.Equal(open.ProvisionUpdatedAt) ||
				w.Verb != work.Deploy || w.Args.Continues != open.WorkID || w.Args.LetGo != "before" || len(w.Args.Steps) != 1 || !is[name](n, w.Args) {
				t.Errorf("%s in %q: node in %q, work %+v, %v", name, state, n.ProvisionState, w, err)
			}
			if err := ask(b); status(err) != http.StatusConflict {
				t.Errorf("%s in %q, again before it is done: %v, want 409", name, state, err)
			}
			b.ranErrand()
			if err := ask(b); err != nil {
				t.Errorf("%s in %q, again when it is done: %v", name, state, err)
			}
			if n := b.node(); n.WorkID == w.ID {
				t.Errorf("%s in %q: nothing new was accepted", name, state)
			}
		}
	}
	b := newBench(t)
	b.put(provision.Deploying, provision.Active, nil)
	b.open(&store.Work{Verb: work.Deploy})
	for name, ask := range ask {
		if err := ask(b); status(err) != http.StatusConflict {
			t.Errorf("%s while a rackd works: %v, want 409", name, err)
		}
	}
}

// ranErrand reports that what was asked beside the node's flow is done, as ingest does.
func (b *bench) ranErrand() {
	b.t.Helper()
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		n := all[node]
		n.Observe(n.Generation)
		n.PowerObservedGeneration = n.Generation
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
