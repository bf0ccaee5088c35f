package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Change is a row of changes: something that the API shows has become different. It is
// written in the transaction that made it so. Transactions are not committed in the order
// of their ids, so those who follow go by Seq, which is in the order of the commits
// (decisions 18 and 42).
type Change struct {
	UUID string // time-ordered
	// Seq numbers the change, and with it its phases: a change with two phases has the
	// numbers Seq-1 and Seq. 0: not numbered yet, which NumberChanges does.
	Seq      int64
	At       time.Time
	Resource string // "node", "port", "chassis", …
	Object   string // UUID
	Node     string // UUID of the node that it is about, empty for none
	// Action is what Ironic's notifications call it ("create", "provision_set"); empty: a
	// change that Ironic does not tell of.
	Action string
	// Phases are "start", "end", "success" or "error", in their order, with commas between.
	Phases    string
	User      string
	RequestID string
	// Facts are what held when it was written: the object itself may have moved on since.
	Facts map[string]any
}

// Numbers is how many numbers the change takes: one for each phase.
func (c *Change) Numbers() int64 { return numbersOf(c.Phases) }

func numbersOf(phases string) int64 { return 1 + int64(strings.Count(phases, ",")) }

var changeColumns = []column[Change]{
	{"uuid", key, func(c *Change) any { return &c.UUID }},
	{"seq", key, func(c *Change) any { return &c.Seq }},
	{"created_at", key, func(c *Change) any { return &c.At }},
	{"resource", key, func(c *Change) any { return &c.Resource }},
	{"object", key, func(c *Change) any { return &c.Object }},
	{"node", key, func(c *Change) any { return &c.Node }},
	{"event", key, func(c *Change) any { return &c.Action }},
	{"phases", key, func(c *Change) any { return &c.Phases }},
	{"user_name", key, func(c *Change) any { return &c.User }},
	{"request_id", key, func(c *Change) any { return &c.RequestID }},
	{"facts", key, func(c *Change) any { return &c.Facts }},
}

var changeLedger = newLedger("changes", names(changeColumns, ""), len(changeColumns))

// whole are the phases of what is done as soon as it is committed.
const whole = "start,end"

// note remembers a change for record. Of several changes of one object that are called
// nothing, or that follow its creation, the first is enough.
func (tx *Tx) note(c *Change) {
	for i, old := range tx.changes {
		if old.Object != c.Object || old.Resource != c.Resource {
			continue
		}
		switch {
		case c.Action == "delete":
			tx.changes[i] = c
			return
		case c.Action == "" || old.Action == c.Action || old.Action == "create" && c.Action == "update":
			return
		case old.Action == "":
			tx.changes[i] = c
			return
		}
	}
	tx.changes = append(tx.changes, c)
}

// noteRow notes what was done to a row that is no node.
func (tx *Tx) noteRow(resource, object, node, action string) {
	tx.note(&Change{Resource: resource, Object: object, Node: node, Action: action, Phases: whole})
}

func (tx *Tx) insertChanges(ctx context.Context, cause *Cause) error {
	fresh := tx.changes[len(tx.noted):]
	if len(fresh) == 0 {
		return nil
	}
	var err error
	args := make([]any, 0, len(fresh)*changeLedger.width)
	for _, c := range fresh {
		c.UUID, c.At = NewID(), tx.s.now()
		if cause != nil && cause.Audit != nil {
			c.User, c.RequestID = cause.Audit.User, cause.Audit.RequestID
		}
		if args, err = appendValues(args, changeColumns, c); err != nil {
			return err
		}
	}
	tx.noted = tx.changes
	return tx.addLater(ctx, changeLedger, func(err error) error { return fmt.Errorf("write %d changes: %w", len(fresh), err) }, args)
}

// shown is what the API shows of a node's progress, to tell what a write has changed.
type shown struct {
	state, target      provision.State
	power, targetPower string
	lastError, fault   string
	step               string
	maintenance, held  bool
}

func (n *Node) shown() shown {
	return shown{n.ProvisionState, n.TargetProvisionState, n.PowerState, n.TargetPowerState, n.LastError, n.Fault,
		n.ObservedStep, n.Maintenance, n.WorkID != ""}
}

// noteNode notes what is different about a node since it was read. always: the write
// may have changed more than shown compares.
func (tx *Tx) noteNode(ctx context.Context, n *Node, always bool) {
	was, is, cause := n.read, n.shown(), causeOf(ctx)
	n.read = is
	about := func(action, phases string, facts map[string]any) {
		tx.note(&Change{Resource: "node", Object: n.UUID, Node: n.UUID, Action: action, Phases: phases, Facts: facts})
	}
	if cause != nil && cause.Action != "" {
		about(cause.Action, whole, nil)
		return
	}
	told := false
	if was.state != is.state || was.target != is.target {
		told = true
		about("provision_set", provisionPhase(was.state, is), map[string]any{"previous_provision_state": was.state,
			"previous_target_provision_state": was.target, "provision_state": is.state, "target_provision_state": is.target, "last_error": is.lastError})
	}
	if was.power != is.power || was.targetPower != is.targetPower {
		told = true
		facts := map[string]any{"from_power": was.power, "power_state": is.power, "target_power_state": is.targetPower}
		switch {
		case is.targetPower != "" && is.targetPower != was.targetPower:
			facts["to_power"] = is.targetPower
			about("power_set", "start", facts)
		case was.targetPower != "" && is.targetPower == "":
			facts["to_power"] = was.targetPower
			phase := "end"
			if is.lastError != "" && is.lastError != was.lastError {
				phase, facts["last_error"] = "error", is.lastError
			}
			about("power_set", phase, facts)
		case is.targetPower == "":
			about("power_state_corrected", "success", facts)
		default:
			about("", "", nil) // on the way to what was asked for
		}
	}
	if was.maintenance != is.maintenance {
		told = true
		about("maintenance_set", whole, map[string]any{"maintenance": is.maintenance, "fault": is.fault})
	}
	switch {
	case told:
	case cause != nil:
		about("update", whole, nil)
	case always || was != is:
		about("", "", nil) // a rack's report that Ironic tells nobody of
	}
}

// noteDeletedNode keeps what a notification says of a node that is gone.
func (tx *Tx) noteDeletedNode(id string) {
	c := &Change{Resource: "node", Object: id, Node: id, Action: "delete", Phases: whole, Facts: map[string]any{}}
	for _, n := range tx.nodes {
		if n.UUID == id {
			c.Facts = map[string]any{"name": n.Name, "driver": n.Driver, "owner": n.Owner, "lessee": n.Lessee, "conductor_group": n.ConductorGroup,
				"instance_uuid": n.InstanceUUID, "resource_class": n.ResourceClass, "provision_state": n.ProvisionState, "power_state": n.PowerState}
		}
	}
	tx.note(c)
}

// provisionPhase is Ironic's: work begins, ends, goes on, or has failed.
func provisionPhase(was provision.State, is shown) string {
	busy := func(s provision.State) bool {
		d, _ := provision.Describe(s)
		return d.Kind == provision.Busy || d.Kind == provision.Waiting
	}
	d, _ := provision.Describe(is.state)
	switch {
	case d.Kind == provision.Failed || is.state == provision.Error:
		return "error"
	case was == provision.Verifying && is.state == provision.Enroll:
		return "error" // a failed verification rests where it began
	case !busy(was) && busy(is.state):
		return "start"
	case busy(was) && !busy(is.state):
		return "end"
	}
	return "success"
}
