package dispatch

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// What was asked of a machine beside a flow that holds, and is not done, is forgotten by nothing that takes the flow's place. Another
// service waits for its end, and an abort takes it over. Once its end is told neither has to.
func TestWhatTakesTheFlowsPlaceForgetsNoErrand(t *testing.T) {
	on := true
	for what, ask := range map[string]func(b *bench) error{
		Rebooting: func(b *bench) error {
			return b.Power(t.Context(), Power{Node: b.node(), Target: Rebooting, TimeoutSeconds: 77})
		},
		"a change": func(b *bench) error {
			return b.Adjust(t.Context(), Adjustment{Node: b.node(), Change: work.Change{SecureBoot: &on}, What: "secure boot"})
		},
	} {
		for _, verb := range []string{"unhold", "abort", "service"} {
			for _, told := range []bool{false, true} {
				b := newBench(t)
				b.put(provision.ServiceHold, provision.Active, nil)
				b.open(&store.Work{Verb: work.Service, Args: work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "power", Step: "hold"}}}})
				if err := ask(b); err != nil {
					t.Fatal(err)
				}
				if told {
					b.doneBeside()
				}
				err := b.verb(verb, func(p *Provision) {
					if verb == "service" {
						p.Steps = []work.Step{{Interface: "power", Step: "wait"}}
					}
				})
				if !told && verb != "abort" {
					if status(err) != http.StatusConflict {
						t.Errorf("%s beside %s that is not done: %v", verb, what, err)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s beside %s, done: %v: %v", verb, what, told, err)
					continue
				}
				w, err := b.Store.Work(t.Context(), b.node().WorkID)
				if err != nil {
					t.Fatal(err)
				}
				goesAlong := w.Args.PowerTarget == Rebooting && w.Args.TimeoutSeconds == 77 || w.Args.Change != nil
				if goesAlong == told || verb == "abort" && w.Args.Aborts != work.Service {
					t.Errorf("%s beside %s, done: %v, is to do %+v", verb, what, told, w.Args)
				}
			}
		}
	}
}

// An undeploy takes the place of a deploy that waits, and of what was asked of the machine beside it. The history says so.
func TestAnUndeployTellsWhatItDrops(t *testing.T) {
	for _, told := range []bool{false, true} {
		b := newBench(t)
		b.put(provision.DeployWait, provision.Active, nil)
		b.open(&store.Work{Verb: work.Deploy, Args: work.Args{Steps: []work.Step{{Interface: "deploy", Step: "hold"}}}})
		if err := b.Power(t.Context(), Power{Node: b.node(), Target: Rebooting}); err != nil {
			t.Fatal(err)
		}
		if told {
			b.doneBeside()
		}
		if err := b.verb("deleted", nil); err != nil {
			t.Fatal(err)
		}
		lines, err := b.Store.History(t.Context(), store.HistoryQuery{Node: node})
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(lines, func(l *store.HistoryEntry) bool {
			return strings.Contains(l.Event, "; rebooting, asked for beside it, is given up")
		})
		if named == told {
			t.Errorf("the reboot is done: %v; its end is in the history: %v", told, named)
		}
	}
}

// doneBeside is the rack's report that what was asked of the machine beside its flow is done.
func (b *bench) doneBeside() {
	b.t.Helper()
	now := b.node().Generation
	err := b.Store.Update(b.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		all, err := tx.Observed(ctx, []string{node})
		if err != nil {
			return err
		}
		all[node].PowerObservedGeneration = now
		return tx.SaveObserved(ctx, []*store.Node{all[node]})
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
