package dispatch

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The abort of a service that has failed brings the machine back into its instance where it
// was left in the ramdisk, and is active at once where the machine was not touched.
func TestAbortOfAFailedService(t *testing.T) {
	for name, c := range map[string]struct {
		internal map[string]any
		step     string // the last report of the running step
		works    bool
	}{
		"in the ramdisk":                          {internal: map[string]any{work.ServiceRamdisk: true}, works: true},
		"untouched":                               {},
		"out of band":                             {internal: map[string]any{work.ServiceRamdisk: false}},
		"ended by central in the ramdisk":         {step: `{"requires_ramdisk":true}`, works: true},
		"ended by central with disable_ramdisk":   {internal: map[string]any{work.ServiceRamdisk: false}, step: `{"requires_ramdisk":true}`},
		"ended by central in an out-of-band step": {step: `{"requires_ramdisk":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(provision.ServiceFail, provision.Active, nil)
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, node)
				if err != nil {
					return err
				}
				n.DriverInternalInfo = c.internal
				if err := tx.UpdateObservation(ctx, n); err != nil {
					return err
				}
				all, err := tx.Observed(ctx, []string{node})
				if err != nil {
					return err
				}
				all[node].ObservedStepInfo = c.step
				return tx.SaveObserved(ctx, []*store.Node{all[node]})
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.verb("abort", nil); err != nil {
				t.Fatal(err)
			}
			n := b.node()
			if !c.works {
				if n.ProvisionState != provision.Active || n.WorkID != "" {
					t.Errorf("state %q, work %q", n.ProvisionState, n.WorkID)
				}
				return
			}
			w, err := b.Store.Work(t.Context(), n.WorkID)
			if err != nil || n.ProvisionState != provision.ServiceFail || n.TargetProvisionState != provision.Active || w.Verb != work.Abort ||
				w.Entry != provision.ServiceFail || w.EntryTarget != provision.Active || w.Args.AbortedBoot != work.BootRamdisk {
				t.Errorf("state %q bound for %q, work %+v, %v", n.ProvisionState, n.TargetProvisionState, w, err)
			}
		})
	}
}

// A service that follows one which has failed in the ramdisk is told of that.
func TestAServiceAfterOneThatFailedInTheRamdisk(t *testing.T) {
	for _, in := range []bool{false, true} {
		b := newBench(t)
		b.put(provision.ServiceFail, provision.Active, nil)
		err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, node)
			if err != nil {
				return err
			}
			n.DriverInternalInfo = map[string]any{work.ServiceRamdisk: in}
			return tx.UpdateObservation(ctx, n)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.verb("service", func(p *Provision) { p.Version, p.Steps = 115, []work.Step{{Interface: "firmware", Step: "update"}} }); err != nil {
			t.Fatal(err)
		}
		if w, err := b.Store.Work(t.Context(), b.node().WorkID); err != nil || w.Args.InRamdisk != in {
			t.Errorf("work %+v, %v, want in the ramdisk %t", w, err, in)
		}
	}
}

// A service takes the place of one that is held. Should central have to end it, its row says where that one has left the machine: the
// list of the new steps does not.
func TestAServiceInAHoldsPlaceKnowsWhereTheMachineIs(t *testing.T) {
	told := func(needs ...bool) map[string]any {
		var steps []any
		for _, n := range needs {
			steps = append(steps, map[string]any{"interface": "deploy", "step": "x", "requires_ramdisk": n})
		}
		return map[string]any{"service_steps": steps, "service_step_index": len(needs) - 1}
	}
	for name, c := range map[string]struct {
		held work.Args
		told map[string]any
		want bool
	}{
		"in the ramdisk":                   {work.Args{}, told(true, false), true},
		"before the ramdisk":               {work.Args{}, told(false), false},
		"with disable_ramdisk":             {work.Args{DisableRamdisk: true}, told(true), false},
		"where one before it has left it":  {work.Args{DisableRamdisk: true, InRamdisk: true}, told(false), true},
		"before any of its steps was told": {work.Args{}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(provision.ServiceHold, provision.Active, nil)
			b.open(&store.Work{Verb: work.Service, Args: c.held})
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, node)
				if err != nil {
					return err
				}
				n.DriverInternalInfo = c.told
				return tx.UpdateObservation(ctx, n)
			})
			if err != nil {
				t.Fatal(err)
			}
			steps := []work.Step{{Interface: "deploy", Step: "y"}}
			if err := b.verb("service", func(p *Provision) { p.Steps, p.DisableRamdisk = steps, true }); err != nil {
				t.Fatal(err)
			}
			if w, err := b.Store.Work(t.Context(), b.node().WorkID); err != nil || w.Args.From != provision.ServiceHold || w.Args.InRamdisk != c.want {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
}
