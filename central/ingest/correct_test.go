package ingest

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Where a rackd forces power, what it finds does not replace the state on record, unless that is none or nothing may be forced.
func TestForcedPower(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*store.Node, *work.Event, *effects)
		correct string
		record  string
	}{
		"another state":          {func(*store.Node, *work.Event, *effects) {}, "power on", "power on"},
		"the same":               {func(_ *store.Node, e *work.Event, _ *effects) { e.Power = "power on" }, "", "power on"},
		"not forced":             {func(_ *store.Node, e *work.Event, _ *effects) { e.ForcePower = false }, "", "power off"},
		"nothing on record":      {func(n *store.Node, _ *work.Event, _ *effects) { n.PowerState = "" }, "", "power off"},
		"an error on record":     {func(n *store.Node, _ *work.Event, _ *effects) { n.PowerState = "error" }, "", "power off"},
		"an error was seen":      {func(_ *store.Node, e *work.Event, _ *effects) { e.Power = "error" }, "", "error"},
		"work has begun":         {func(n *store.Node, _ *work.Event, _ *effects) { n.WorkID = "w" }, "", "power on"},
		"maintenance":            {func(n *store.Node, _ *work.Event, _ *effects) { n.Maintenance = true }, "", "power off"},
		"must not be off":        {func(n *store.Node, _ *work.Event, _ *effects) { n.DisablePowerOff = true }, "", "power off"},
		"a deploy that failed":   {func(n *store.Node, _ *work.Event, _ *effects) { n.ProvisionState = provision.DeployFail }, "", "power off"},
		"a central without work": {func(_ *store.Node, _ *work.Event, fx *effects) { fx.records = true }, "", "power off"},
	} {
		n := &store.Node{UUID: "n", ProvisionState: provision.Active, PowerState: "power on"}
		e := &work.Event{Kind: work.PowerObserved, Node: "n", Rackd: "r", Time: time.Unix(1, 0), Power: "power off", ForcePower: true}
		fx := newEffects()
		c.change(n, e, fx)
		if got := apply(n, e, fx); got != applied || fx.corrections["n"] != c.correct || n.PowerState != c.record {
			t.Errorf("%s: %q, to be corrected to %q, on record %q; want %q and %q", name, got, fx.corrections["n"], n.PowerState, c.correct, c.record)
		}
	}
}

// What a machine says while no work is at it is in the history.
func TestLinesWithoutWork(t *testing.T) {
	fx := newEffects()
	e := &work.Event{Kind: work.HardwareObserved, Node: "n", Rackd: "r", Time: time.Unix(9, 0),
		Before: []work.Line{{Time: time.Unix(5, 0), Phase: "event log", Detail: "Fan 1 failed"}}}
	if got := apply(&store.Node{UUID: "n"}, e, fx); got != applied || len(fx.history) != 1 {
		t.Fatalf("%q, %d lines", got, len(fx.history))
	}
	if h := fx.history[0]; h.Event != "event log: Fan 1 failed" || h.EventType != "monitoring" || !h.CreatedAt.Equal(time.Unix(5, 0)) || h.Conductor != "r" {
		t.Errorf("%+v", h)
	}
}
