package ingest

import (
	"encoding/json"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
)

// The bounds of what an event may hold. A rackd that was stolen, or a BMC that lies to an honest one, may make many rows of few bytes, in
// statements that no database takes: that would hold up the events of the whole site. Racks send a small part of each.
const (
	maxLines      = 500  // of history, by one event
	maxItems      = 5000 // BIOS settings, and firmware components
	maxMembers    = 500  // of driver_internal_info and of properties, by one event
	maxSecrets    = 16   // of driver_info, by one event
	maxWord       = 1000 // bytes of a name; indexes take no longer ones
	maxFieldBytes = 2 << 20
	maxFieldNames = 2000
)

// bounded refuses an event that is larger than any rack's.
func bounded(e *work.Event) error {
	counts := map[string][2]int{"lines of history": {len(e.Before), maxLines}, "members of driver_internal_info": {len(e.Internal), maxMembers},
		"members of properties": {len(e.Properties), maxMembers}, "secrets": {len(e.Secrets), maxSecrets}}
	words := map[string]string{"kind": string(e.Kind), "rackd": e.Rackd, "verb": string(e.Verb), "work": e.Work, "state": string(e.State), "target": string(e.Target),
		"step": e.Step, "power": e.Power, "phase": e.Phase, "fault": e.Fault, "cleared": e.Cleared}
	if h := e.Hardware; h != nil {
		counts["BIOS settings"], counts["firmware components"] = [2]int{len(h.BIOS), maxItems}, [2]int{len(h.Firmware), maxItems}
		if h.Health != nil {
			words["health"] = *h.Health
		}
		if h.BootMode != nil {
			words["boot mode"] = *h.BootMode
		}
	}
	for what, c := range counts {
		if c[0] > c[1] {
			return fmt.Errorf("event has %d %s, more than %d", c[0], what, c[1])
		}
	}
	for what, text := range words {
		if len(text) > maxWord {
			return fmt.Errorf("event has a %s of %d bytes, more than %d", what, len(text), maxWord)
		}
	}
	for _, l := range e.Before {
		if len(l.Phase) > maxWord {
			return fmt.Errorf("event has a phase of %d bytes, more than %d", len(l.Phase), maxWord)
		}
	}
	return nil
}

// roomFor refuses what makes a node's driver_internal_info or properties larger with each event.
func roomFor(n *store.Node) error {
	for name, field := range map[string]map[string]any{"driver_internal_info": n.DriverInternalInfo, "properties": n.Properties} {
		if len(field) > maxFieldNames { // before they are written: who makes up events makes up many
			return contentError{fmt.Errorf("%s of node %s would have %d members, more than the %d that a rack may report", name, n.UUID, len(field), maxFieldNames)}
		}
		raw, err := json.Marshal(field)
		if err != nil {
			return contentError{fmt.Errorf("%s of node %s: %w", name, n.UUID, err)}
		}
		if len(raw) > maxFieldBytes {
			return contentError{fmt.Errorf("%s of node %s would have %d bytes, more than the %d that a rack may report", name, n.UUID, len(raw), maxFieldBytes)}
		}
	}
	return nil
}
