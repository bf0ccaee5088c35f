package ingest_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// victim is an active node of rack-b, in its own maintenance.
func (f *fixture) victim(name string) *store.Node {
	n := storetest.NewNode(name)
	n.ConductorGroup = "rack-b"
	n.AcceptedState, n.ProvisionState = provision.Active, provision.Active
	n.InstanceUUID, n.InstanceInfo = n.UUID, map[string]any{"image_source": "x"}
	storetest.Insert(f, f.store, n)
	return n
}

// harm is an event that does to a node what an event can do without any work.
func harm(n *store.Node, group string) work.Event {
	return work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: n.UUID, Group: group, Rackd: "thief", Time: time.Now().UTC(), Power: "power off",
		Fault: node.PowerFailure, SetMaintenance: true, Error: "said by a thief"}
}

// say publishes an event at a subject, whatever the event says.
func (f *fixture) say(subject string, e work.Event) {
	f.Helper()
	body, err := json.Marshal(e)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := f.site.JS.Publish(f.Context(), subject, body); err != nil {
		f.Fatal(err)
	}
}

// A rackd may publish below its groups' subjects only. What it says there of other nodes, or in the name of
// other groups, changes nothing.
func TestEventsThatLieChangeNothing(t *testing.T) {
	f := newFixture(t)
	n := f.victim("victim")
	f.follow()
	for what, c := range map[string]struct {
		subject string
		event   work.Event
	}{
		"another node of another group": {bus.EventSubject("rack-a", uuid.NewString()), harm(n, "rack-b")},
		"another group in the body":     {bus.EventSubject("rack-a", n.UUID), harm(n, "rack-b")},
		"another group in both":         {bus.EventSubject("rack-a", n.UUID), harm(n, "rack-a")},
		"no group":                      {bus.EventSubject("", n.UUID), harm(n, "")},
		"another node of its group":     {bus.EventSubject("rack-b", uuid.NewString()), harm(n, "rack-b")},
		"a subject with more to it":     {bus.EventSubject("rack-b", "x."+n.UUID), harm(n, "rack-b")},
	} {
		f.say(c.subject, c.event)
		f.drained()
		if got := f.node(n.UUID); got.PowerState != n.PowerState || got.Maintenance || got.Fault != "" || got.FaultNumber != n.FaultNumber {
			t.Fatalf("%s: power %q, maintenance %v, fault %q", what, got.PowerState, got.Maintenance, got.Fault)
		}
	}
	f.say(bus.EventSubject("rack-b", n.UUID), harm(n, "rack-b"))
	f.drained()
	if got := f.node(n.UUID); got.PowerState != "power off" || got.ObservedFault != node.PowerFailure {
		t.Errorf("its own group's: power %q, fault %q", got.PowerState, got.ObservedFault)
	}
}

// Work of another group cannot be ended from the thief's subject, even by who knows its id.
func TestWorkOfAnotherGroupIsNotEnded(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	f.follow()
	e := about(w, work.WorkEnded, 1)
	e.State, e.Group = provision.Active, "rack-a"
	f.say(bus.EventSubject("rack-a", n.UUID), e)
	e.Group = ""
	f.say(bus.EventSubject("rack-a", n.UUID), e)
	f.drained()
	if got := f.node(n.UUID); got.WorkID != w.ID {
		t.Fatalf("the node is %q, its work %q", got.ProvisionState, got.WorkID)
	}
	f.say(bus.EventSubject("", n.UUID), e)
	f.drained()
	if got := f.node(n.UUID); got.WorkID != "" || got.ProvisionState != provision.Active {
		t.Errorf("its own group's: the node is %q, its work %q", got.ProvisionState, got.WorkID)
	}
}

// An event without the id of open work takes nothing from a node: no instance, no fault but that of its power,
// no properties.
func TestWithoutWorkNothingIsCleared(t *testing.T) {
	f := newFixture(t)
	n := f.victim("n")
	f.follow()
	raise := harm(n, "rack-b")
	f.say(bus.EventSubject("rack-b", n.UUID), raise)
	f.drained()
	loose := func(change func(*work.Event)) work.Event {
		e := work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: n.UUID, Group: "rack-b", Rackd: "thief", Time: time.Now().UTC(), Power: "power on"}
		change(&e)
		return e
	}
	for what, change := range map[string]func(*work.Event){
		"the instance": func(e *work.Event) { e.ClearInstance = true },
		"properties":   func(e *work.Event) { e.Properties = map[string]any{"vendor": "evil"} },
		"internal": func(e *work.Event) {
			e.Internal = map[string]json.RawMessage{"agent_url": json.RawMessage(`"https://evil"`)}
		},
		"another fault":   func(e *work.Event) { e.Fault = "clean failure"; e.SetMaintenance = true },
		"maintenance":     func(e *work.Event) { e.SetMaintenance = true },
		"another's clear": func(e *work.Event) { e.Cleared = "clean failure" },
		"an unknown work": func(e *work.Event) { e.Work, e.ClearInstance = uuid.NewString(), true },
	} {
		f.say(bus.EventSubject("rack-b", n.UUID), loose(change))
		f.drained()
		got := f.node(n.UUID)
		if got.InstanceUUID != n.UUID || got.Properties["vendor"] != nil || got.DriverInternalInfo["agent_url"] != nil || got.ObservedFault != node.PowerFailure || got.FaultNumber != 1 || got.PowerState != "power off" {
			t.Fatalf("%s: instance %q, properties %v, internal %v, fault %q (%d), power %q", what, got.InstanceUUID, got.Properties, got.DriverInternalInfo, got.ObservedFault, got.FaultNumber, got.PowerState)
		}
	}
	f.say(bus.EventSubject("rack-b", n.UUID), loose(func(e *work.Event) { e.Cleared = node.PowerFailure }))
	f.drained()
	if got := f.node(n.UUID); got.ObservedFault != "" || got.PowerState != "power on" {
		t.Errorf("the power's own fault: %q, power %q", got.ObservedFault, got.PowerState)
	}
}

// A site's stream is believed about the groups of that site.
func TestEventsOfAnotherSiteChangeNothing(t *testing.T) {
	f := newFixture(t)
	n := f.victim("n")
	f.ingest = ingest.New(ingest.Config{Store: f.store, Metrics: metrics.New(f.store.Statements), Log: slog.New(slog.DiscardHandler),
		SiteOf: func(group string) string {
			if group == "rack-b" {
				return "elsewhere"
			}
			return ""
		}})
	f.follow()
	f.say(bus.EventSubject("rack-b", n.UUID), harm(n, "rack-b"))
	own := storetest.NewNode("own")
	own.ConductorGroup = "rack-a"
	storetest.Insert(t, f.store, own)
	f.say(bus.EventSubject("rack-a", own.UUID), harm(own, "rack-a"))
	f.drained()
	if got := f.node(n.UUID); got.PowerState != n.PowerState || got.ObservedFault != "" {
		t.Errorf("of another site: power %q, fault %q", got.PowerState, got.ObservedFault)
	}
	if got := f.node(own.UUID); got.PowerState != "power off" {
		t.Errorf("of the site: power %q", got.PowerState)
	}
}

// Each event that is not believed is counted; the log has an alarm, and is not filled.
func TestLyingEventsAreCountedAndAlarmed(t *testing.T) {
	f := newFixture(t)
	n := f.victim("n")
	var log strings.Builder
	m := metrics.New(f.store.Statements)
	f.ingest = ingest.New(ingest.Config{Store: f.store, Metrics: m, Log: slog.New(slog.NewTextHandler(&log, nil))})
	stop := f.follow()
	for range 100 {
		f.say(bus.EventSubject("rack-a", n.UUID), harm(n, "rack-a"))
		f.say(bus.EventSubject("rack-a", n.UUID), harm(n, "rack-b"))
	}
	f.drained()
	stop()
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if want := `ironyard_central_events_dropped_total{reason="lying",site=""} 200`; !strings.Contains(page.Body.String(), want) {
		t.Errorf("the metrics do not say %s", want)
	}
	if got := strings.Count(log.String(), "ALARM"); got == 0 || got > 10 {
		t.Errorf("the log has %d alarms: %s", got, log.String())
	}
}

// A node has changed its group, or is deleted, while events of it waited: they change
// nothing and hold nothing up.
func TestLateEventsOfAFormerGroup(t *testing.T) {
	f := newFixture(t)
	n, gone, next := f.victim("n"), f.victim("gone"), f.victim("next")
	f.say(bus.EventSubject("rack-b", n.UUID), harm(n, "rack-b"))
	f.say(bus.EventSubject("rack-b", gone.UUID), harm(gone, "rack-b"))
	f.say(bus.EventSubject("rack-b", next.UUID), harm(next, "rack-b"))
	err := f.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		moved, err := tx.Node(ctx, n.UUID)
		if err != nil {
			return err
		}
		moved.ConductorGroup = "rack-a"
		if err := tx.UpdateNode(ctx, moved); err != nil {
			return err
		}
		return tx.DeleteNode(ctx, gone.UUID)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.follow()
	f.drained()
	if got := f.node(n.UUID); got.PowerState != n.PowerState || got.ObservedFault != "" {
		t.Errorf("its former group's: power %q, fault %q", got.PowerState, got.ObservedFault)
	}
	if got := f.node(next.UUID); got.PowerState != "power off" {
		t.Errorf("what comes behind it: power %q", got.PowerState)
	}
	f.say(bus.EventSubject("rack-a", n.UUID), harm(n, "rack-a"))
	f.drained()
	if got := f.node(n.UUID); got.PowerState != "power off" {
		t.Errorf("its new group's: power %q", got.PowerState)
	}
}
