package dispatch

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A child's BMC may be at work for a step of its parent's. Until the parent's work is over nothing else is asked of the child's machine,
// by an operator or by central itself.
func TestAChildIsItsParentsWhileAStepRunsOnIt(t *testing.T) {
	const parent = "99999999-9999-4999-8999-999999999999"
	on := true
	asks := map[string]struct {
		state provision.State
		ask   func(b *bench) error
	}{
		"power":   {provision.Available, func(b *bench) error { return b.Power(t.Context(), Power{Node: b.node(), Target: PowerOff}) }},
		"deploy":  {provision.Available, func(b *bench) error { return b.verb("active", nil) }},
		"inspect": {provision.Manageable, func(b *bench) error { return b.verb("inspect", nil) }},
		"a change": {provision.Available, func(b *bench) error {
			return b.Adjust(t.Context(), Adjustment{Node: b.node(), Change: work.Change{SecureBoot: &on}, What: "secure boot"})
		}},
		"clean": {provision.Manageable, func(b *bench) error {
			return b.verb("clean", func(p *Provision) { p.Steps = []work.Step{{Interface: "power", Step: "reboot"}} })
		}},
	}
	for what, c := range asks {
		for _, engaged := range []bool{true, false} {
			b := newBench(t)
			b.put(c.state, provision.NoState, func(n *store.Node) { n.ParentNode = parent })
			children := []string{node}
			if !engaged {
				children = []string{parent}
			}
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				if err := tx.InsertNode(ctx, &store.Node{UUID: parent, Driver: "fake-hardware", AcceptedState: provision.Cleaning}); err != nil {
					return err
				}
				return tx.InsertWork(ctx, &store.Work{ID: NewWorkID(), Node: parent, Verb: work.Clean, State: store.WorkOpen, Generation: 1,
					Args: work.Args{Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: children}}}})
			})
			if err != nil {
				t.Fatal(err)
			}
			err = c.ask(b)
			if engaged && (status(err) != http.StatusConflict || !strings.Contains(err.Error(), "deploy.flash")) || !engaged && err != nil {
				t.Errorf("%s of a child, its parent's step runs there: %v: %v", what, engaged, err)
			}
			if !engaged {
				continue
			}
			b.corrects(PowerOn)
			if err := b.Correct(t.Context(), node, PowerOn); err != nil || b.node().WorkID != "" {
				t.Errorf("%s: the child's power is brought back, work %q, error %v", what, b.node().WorkID, err)
			}
		}
	}
}

// corrects puts a power state on record.
func (b *bench) corrects(power string) {
	b.t.Helper()
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		all[node].PowerState = power
		return tx.SaveObserved(ctx, []*store.Node{all[node]})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
