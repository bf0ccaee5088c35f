package dispatch

import (
	"context"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// power puts an observed power state on record.
func (b *bench) power(state string) {
	b.t.Helper()
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		nodes, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		nodes[node].PowerState = state
		return tx.SaveObserved(ctx, []*store.Node{nodes[node]})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// A machine is brought back only into the state on record, and only where nothing speaks against it.
func TestCorrect(t *testing.T) {
	for name, c := range map[string]struct {
		state   provision.State
		change  func(*store.Node)
		power   string
		open    bool
		correct bool
	}{
		"an active node":                   {provision.Active, nil, PowerOn, false, true},
		"a rescued node":                   {provision.Rescue, nil, PowerOn, false, true},
		"another state is on record now":   {provision.Active, nil, PowerOff, false, false},
		"a failed deploy":                  {provision.DeployFail, nil, PowerOn, false, false},
		"a service that failed":            {provision.ServiceFail, nil, PowerOn, false, false},
		"maintenance":                      {provision.Active, func(n *store.Node) { n.MaintenanceSet, n.Maintenance = true, true }, PowerOn, false, false},
		"a machine that must not be off":   {provision.Active, func(n *store.Node) { n.DisablePowerOff = true }, PowerOn, false, false},
		"a node with work":                 {provision.Active, nil, PowerOn, true, false},
		"a node that is not verified yet ": {provision.Enroll, nil, PowerOn, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(c.state, "", c.change)
			b.power(c.power)
			if c.open {
				b.open(&store.Work{Verb: work.Adjust, Entry: c.state, State: store.WorkOpen})
			}
			was := b.node()
			if err := b.Correct(t.Context(), node, PowerOn); err != nil {
				t.Fatal(err)
			}
			n := b.node()
			if made := n.WorkID != was.WorkID; made != c.correct {
				t.Fatalf("work was made: %t, want %t", made, c.correct)
			}
			if c.correct && (n.WorkVerb != work.Power || n.TargetPowerState != PowerOn || n.ProvisionState != c.state || n.PowerState != PowerOn) {
				t.Errorf("verb %s, target %q, state %s, power %q", n.WorkVerb, n.TargetPowerState, n.ProvisionState, n.PowerState)
			}
			if err := b.Correct(t.Context(), node, PowerOn); err != nil || b.node().WorkID != n.WorkID {
				t.Errorf("a second time: %v", err)
			}
		})
	}
	b := newBench(t)
	if err := b.Correct(t.Context(), "99999999-2222-4333-8444-555555555555", PowerOn); err != nil {
		t.Errorf("a node that is gone: %v", err)
	}
}
