package work

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/provision"
)

// EventKind says what an event reports.
type EventKind string

// The kinds of event.
const (
	// StateChanged: the node entered State, bound for Target.
	StateChanged EventKind = "state"
	// WorkEnded: the work is over; State, Target and Error say how.
	WorkEnded EventKind = "ended"
	// PowerObserved: the node's power state is Power. Not part of any work; the end of
	// work says in which state it leaves the machine.
	PowerObserved EventKind = "power"
	// PhaseEntered: something worth a line in the node's history happened.
	PhaseEntered EventKind = "phase"
	// InventoryFound: the agent's inventory.
	InventoryFound EventKind = "inventory"
	// ErrandEnded: what was asked of the machine while its flow waits is done, or has failed
	// with Error; the flow goes on.
	ErrandEnded EventKind = "errand"
	// HardwareObserved: what Hardware says was read from the machine; of a work or not.
	HardwareObserved EventKind = "hardware"
	// SecretsReplaced: the BMC takes Secrets now. Only open work tells of it.
	SecretsReplaced EventKind = "secrets"
)

// Line is something worth a line in a node's history: a phase, and how long the one
// before took.
type Line struct {
	Time    time.Time `json:"time"`
	Phase   string    `json:"phase"`
	Detail  string    `json:"detail,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`

	Unknown Unknown `json:"-"`
}

// Event is one message of the EVENTS stream.
type Event struct {
	ID         string    `json:"id"` // message id, see EventID
	Kind       EventKind `json:"kind"`
	Node       string    `json:"node"`
	Group      string    `json:"group,omitempty"`
	Rackd      string    `json:"rackd"`
	Time       time.Time `json:"time"`
	Work       string    `json:"work,omitempty"` // empty: not part of any work
	Verb       Verb      `json:"verb,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Epoch      uint64    `json:"epoch,omitempty"`
	Seq        uint64    `json:"seq,omitempty"`

	State  provision.State `json:"state,omitempty"`
	Target provision.State `json:"target,omitempty"`
	// Error is the text for last_error; empty clears it.
	Error string `json:"error,omitempty"`
	// Step is the step that runs, or was running when the work failed.
	Step string `json:"step,omitempty"`
	// StepInfo is that step as the API shows it; none for a step of the conductor's own.
	StepInfo json.RawMessage `json:"step_info,omitempty"`
	Power    string          `json:"power,omitempty"` // "power on", "power off", "error"
	// ForcePower, of PowerObserved without work: central is to have the machine brought back into the power state on record, if
	// that is another. A central that does not know it records Power.
	ForcePower bool `json:"force_power,omitempty"`
	// Phase and Seconds belong to PhaseEntered: what, and how long the one before took.
	Phase   string  `json:"phase,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Before is what the work went through before what the event reports, in its order,
	// where no event of its own has told it.
	Before []Line `json:"before,omitempty"`
	// SetMaintenance and Fault ask central to put the node into maintenance.
	SetMaintenance bool   `json:"set_maintenance,omitempty"`
	Fault          string `json:"fault,omitempty"`
	// Cleared ends the maintenance that the fault of this name has caused.
	Cleared string `json:"cleared,omitempty"`
	// ClearInstance: the instance is gone; forget its fields.
	ClearInstance bool `json:"clear_instance,omitempty"`

	// Source is of the end of an inspection that went well.
	Source Source `json:"source,omitempty"`

	Inventory *agentapi.Inventory   `json:"inventory,omitempty"`
	Hardware  *hardware.Observation `json:"hardware,omitempty"`
	// Secrets of driver_info that the BMC takes now.
	Secrets []Secret `json:"secrets,omitempty"`
	// Internal is merged into driver_internal_info; null removes a key.
	Internal   map[string]json.RawMessage `json:"internal,omitempty"`
	Properties map[string]any             `json:"properties,omitempty"`
}

// Lines are the phases that e tells of, in their order.
func (e *Event) Lines() []Line {
	if e.Kind != PhaseEntered {
		return e.Before
	}
	return append(slices.Clip(e.Before), Line{Time: e.Time, Phase: e.Phase, Detail: e.Detail, Seconds: e.Seconds})
}
