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
	maxWord       = 1000 // bytes of a name; indexes take no longer ones
	maxInternal   = 2 << 20
	internalKeys  = 2000
	internalLimit = "driver_internal_info of node %s would have %d members and %d bytes, more than the %d and %d that a node may have"
)

// bounded refuses an event that is larger than any rack's.
func bounded(e *work.Event) error {
	counts := map[string][2]int{"lines of history": {len(e.Before), maxLines}, "members of driver_internal_info": {len(e.Internal), maxMembers},
		"members of properties": {len(e.Properties), maxMembers}}
	if e.Hardware != nil {
		counts["BIOS settings"], counts["firmware components"] = [2]int{len(e.Hardware.BIOS), maxItems}, [2]int{len(e.Hardware.Firmware), maxItems}
	}
	for what, c := range counts {
		if c[0] > c[1] {
			return fmt.Errorf("event has %d %s, more than %d", c[0], what, c[1])
		}
	}
	words := map[string]string{"kind": string(e.Kind), "rackd": e.Rackd, "verb": string(e.Verb), "work": e.Work, "state": string(e.State), "target": string(e.Target),
		"step": e.Step, "power": e.Power, "phase": e.Phase, "fault": e.Fault, "cleared": e.Cleared}
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

// roomFor refuses what makes a node's driver_internal_info larger with each event.
func roomFor(n *store.Node) error {
	raw, err := json.Marshal(n.DriverInternalInfo)
	if err != nil {
		return contentError{fmt.Errorf("driver_internal_info of node %s: %w", n.UUID, err)}
	}
	if len(n.DriverInternalInfo) > internalKeys || len(raw) > maxInternal {
		return contentError{fmt.Errorf(internalLimit, n.UUID, len(n.DriverInternalInfo), len(raw), internalKeys, maxInternal)}
	}
	return nil
}
