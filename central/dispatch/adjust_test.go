package dispatch

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A node's history says for which project a user has asked for something, whatever it was.
func TestHistoryNamesUserAndProject(t *testing.T) {
	on, who := true, Caller{RequestID: "req-1", User: "alice", Project: "blue"}
	for name, ask := range map[string]func(b *bench) error{
		"a verb": func(b *bench) error { return b.verb("rebuild", func(p *Provision) { p.Caller = who }) },
		"power":  func(b *bench) error { return b.Power(t.Context(), Power{Node: b.node(), Target: PowerOn, Caller: who}) },
		"a change": func(b *bench) error {
			return b.Adjust(t.Context(), Adjustment{Node: b.node(), Change: work.Change{Console: &on}, What: "console on", Caller: who})
		},
	} {
		b := newBench(t)
		b.put(provision.Active, provision.NoState, nil)
		if err := ask(b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := b.Store.History(t.Context(), store.HistoryQuery{Node: node})
		if err != nil || len(lines) != 1 || lines[0].User != "alice" || lines[0].Project != "blue" {
			t.Errorf("%s: history %+v, %v", name, lines, err)
		}
	}
}
