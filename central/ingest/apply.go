package ingest

import (
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// dropped says why an event changes nothing; empty: it was applied.
type dropped string

// The reasons, as the metric shows them.
const (
	applied       dropped = ""
	unreadable    dropped = "unreadable"
	lying         dropped = "lying"
	unknownNode   dropped = "unknown_node"
	closedWork    dropped = "closed_work"
	oldGeneration dropped = "old_generation"
	oldEpoch      dropped = "old_epoch"
	repeated      dropped = "repeated"
	refused       dropped = "refused"
)

// effects are what the events of a batch ask for besides the nodes' observations.
type effects struct {
	history   []*store.HistoryEntry
	ended     []*store.Work
	inventory map[string]*work.Event // node → newest
	// rare are the events that change columns which a batch does not write.
	rare  map[string][]*work.Event // by node, in their order
	dirty map[string]bool          // nodes whose site must see the change
	// corrections are the power states that machines are to be brought back into, by node.
	corrections map[string]string
	// records: none is to be made, the states that machines are found in are recorded.
	records bool
	// inspected are the ends of inspections whose data is still to be processed, by node.
	inspected map[string]*work.Event
}

func newEffects() *effects {
	return &effects{inventory: map[string]*work.Event{}, rare: map[string][]*work.Event{}, dirty: map[string]bool{}, corrections: map[string]string{}, inspected: map[string]*work.Event{}}
}

// apply folds e into n, a row as Tx.Observed reads it. It looks at nothing but its
// arguments.
func apply(n *store.Node, e *work.Event, fx *effects) dropped {
	if e.Work == "" {
		return applyLoose(n, e, fx)
	}
	switch {
	case n.WorkID != e.Work:
		return closedWork
	case e.Generation != n.Generation:
		return oldGeneration
	case n.ObservedGeneration == e.Generation && e.Epoch < n.ObservedEpoch:
		return oldEpoch
	case n.ObservedGeneration == e.Generation && e.Epoch == n.ObservedEpoch && e.Seq <= n.ObservedSeq:
		return repeated
	}
	said := saidAgain(n, e)
	n.Observe(e.Generation)
	n.ObservedEpoch, n.ObservedSeq, n.ObservedOwner = e.Epoch, e.Seq, e.Rackd
	for _, l := range e.Lines() {
		fx.passed(e, l)
	}
	switch e.Kind {
	case work.StateChanged:
		if !said {
			enter(n, e)
			fx.add(e, "INFO", "provisioning", entered(e))
		}
		n.ObservedStep, n.ObservedStepInfo = e.Step, string(e.StepInfo)
		if e.Power != "" {
			power(n, e)
		}
	case work.WorkEnded:
		end(n, e, fx)
	case work.PowerObserved:
		power(n, e)
	case work.ErrandEnded:
		errand(n, e, fx)
	case work.PhaseEntered:
		n.ObservedStep, n.ObservedStepInfo = e.Step, string(e.StepInfo)
	case work.InventoryFound:
		if e.Inventory != nil {
			fx.inventory[e.Node] = e
		}
	}
	besides(n, e, fx, said)
	return applied
}

// saidAgain reports whether e says no more than that the node is in the state in which it is: racks say so every
// few minutes, and when they take work over. It has entered nothing then, and why something had failed is still to be read. Of work whose
// document was lost before any rackd had it the rows know the epoch, and nothing was said yet.
func saidAgain(n *store.Node, e *work.Event) bool {
	heard := n.ObservedGeneration == e.Generation && (n.ObservedOwner != "" || n.ObservedSeq > 0)
	return e.Kind == work.StateChanged && e.Error == "" && heard && n.ObservedState == e.State && n.ObservedTarget == e.Target
}

// applyLoose folds in an event that is not part of any work.
func applyLoose(n *store.Node, e *work.Event, fx *effects) dropped {
	if e.Kind == work.PowerObserved {
		switch want, keep := onRecord(n, e); {
		case fx.records:
			power(n, e)
		case want != "":
			fx.corrections[n.UUID] = want
		case !keep:
			power(n, e)
		}
	}
	for _, l := range e.Lines() {
		fx.said(e, l)
	}
	if e.Fault != "" { // that of a work is told with its end
		fx.add(e, "ERROR", "monitoring", e.Fault+optional(": ", e.Error))
	}
	besides(n, e, fx, false)
	return applied
}

// enter moves the node to the state that e reports.
func enter(n *store.Node, e *work.Event) {
	if n.ObservedState != e.State || n.ObservedTarget != e.Target {
		n.ObservedAt = at(e)
	}
	text := e.Error
	if e.Verb == work.Abort && text == "" {
		text = n.LastError // why the node is in this state was said when the request was accepted
	}
	n.ObservedState, n.ObservedTarget, n.ObservedError = e.State, e.Target, text
	n.ProvisionState, n.TargetProvisionState, n.ProvisionUpdatedAt, n.LastError = e.State, e.Target, n.ObservedAt, text
}

func end(n *store.Node, e *work.Event, fx *effects) {
	told := *e
	if e.Error != "" { // the history has the state in which work failed, as Ironic's does
		told.State, told.Target = n.ProvisionState, n.TargetProvisionState
	}
	enter(n, e)
	n.ObservedStep, n.ObservedStepInfo = "", ""
	n.PowerObservedGeneration = e.Generation
	if n.PowerGeneration <= e.Generation {
		n.TargetPowerState = "" // the row computes it so; what tells of the change reads it here
	}
	if e.Power != "" {
		power(n, e)
	}
	tooLate := e.Verb == work.Abort && e.Source != "" && e.State == provision.Manageable // for an inspection that has ended well
	if e.Verb == work.Inspect && e.Error == "" || tooLate {
		if n.InspectionFinished = at(e); n.InspectionFinished.Before(n.InspectionStarted) { // by a replica's clock
			n.InspectionFinished = n.InspectionStarted
		}
		fx.inspected[n.UUID] = e
	}
	n.WorkID = "" // whatever follows about this work is dropped
	fx.ended = append(fx.ended, &store.Work{ID: e.Work, Error: e.Error})
	fx.dirty[n.UUID] = true
	text, severity := endedWell(e), "INFO"
	kind := "provisioning"
	switch e.Verb {
	case work.Power:
		text, kind = "power request ended", "power"
	case work.Adjust:
		text, kind = "the change was made", "management"
	}
	if e.Error != "" {
		severity, text = "ERROR", e.Error
		if kind == "provisioning" {
			kind = store.FailureType(e.State)
		}
	}
	fx.add(&told, severity, kind, text)
}

// endedWell is the line of history about work that has ended well.
func endedWell(e *work.Event) string { return fmt.Sprintf("%s ended: the node is %s", e.Verb, e.State) }

// errand takes in what became of a request that was carried out beside the flow.
func errand(n *store.Node, e *work.Event, fx *effects) {
	if n.PowerObservedGeneration >= e.Generation { // racks say it again every few minutes
		return
	}
	enter(n, e)
	n.ObservedStep, n.ObservedStepInfo = e.Step, string(e.StepInfo)
	n.PowerObservedGeneration = e.Generation
	if n.PowerGeneration <= e.Generation {
		n.TargetPowerState = ""
	}
	kind, text, severity := "management", "the change was made", "INFO"
	if e.Power != "" {
		power(n, e)
		kind, text = "power", "power request ended"
	}
	if e.Error != "" {
		severity, text = "ERROR", e.Error
	}
	fx.add(e, severity, kind, text)
}

// power takes in an observed power state. The order of the stream says which is the
// newest: rackds' clocks may be off, one against the other or against their own past.
func power(n *store.Node, e *work.Event) { n.PowerState, n.PowerAt = e.Power, at(e) }

// onRecord returns the power state that n's machine is to be brought back into, because e reports another and its rackd
// forces power; empty: none. keep: the state on record stays, since work has begun that knows better.
func onRecord(n *store.Node, e *work.Event) (want string, keep bool) {
	switch {
	case !e.ForcePower || !onOrOff(n.PowerState) || !onOrOff(e.Power) || n.PowerState == e.Power:
		return "", false
	case n.WorkID != "":
		return "", true
	case !n.ProvisionState.In(provision.PowerForced) || n.Maintenance || n.DisablePowerOff:
		return "", false
	}
	return n.PowerState, false
}

func onOrOff(power string) bool { return power == "power on" || power == "power off" }

// besides takes in what any kind of event may carry. said: what e tells of driver_internal_info may well be there.
func besides(n *store.Node, e *work.Event, fx *effects, said bool) {
	if (e.SetMaintenance || e.Fault != "") && !overshadowed(n, e) {
		n.FaultNumber = max(n.FaultNumber, n.FaultAcked) + 1
		n.ObservedFault, n.FaultWhy = e.Fault, e.Error
		fx.dirty[n.UUID] = true
	}
	if e.Cleared != "" && e.Cleared == n.ObservedFault && n.FaultNumber > n.FaultAcked {
		n.FaultNumber, n.ObservedFault, n.FaultWhy = n.FaultAcked, "", ""
		fx.dirty[n.UUID] = true
		fx.add(e, "INFO", "monitoring", e.Cleared+": over")
	}
	failed := e.State == provision.RescueFail // its password goes
	if e.ClearInstance || failed || len(e.Internal) > 0 || len(e.Properties) > 0 || len(e.Secrets) > 0 || e.Hardware != nil {
		fx.rare[n.UUID] = append(fx.rare[n.UUID], e)
		if e.ClearInstance || failed || len(e.Internal) > 0 && !said || len(e.Properties) > 0 || e.Hardware != nil && (e.Hardware.Kept != nil || e.Hardware.RAID != nil || e.Hardware.BootSet != nil || e.Hardware.LogMark != nil || e.Hardware.InstanceFiles != nil || e.Hardware.DeployBootMode != nil || e.Hardware.SecureBootBefore != nil) { // else nothing that the document shows
			fx.dirty[n.UUID] = true
		}
	}
}

// overshadowed reports whether the fault of e leaves that of n as it is: there is one column of
// faults, as in Ironic. A power failure passes by itself, and its end would take a node out
// of maintenance that has another reason. Any other fault takes the place of a power failure.
func overshadowed(n *store.Node, e *work.Event) bool {
	return e.Fault == node.PowerFailure && n.FaultNumber > n.FaultAcked && n.ObservedFault != node.PowerFailure
}

// passed writes a line of history for a phase that e tells of.
func (fx *effects) passed(e *work.Event, l work.Line) {
	told := *e
	told.Time, told.Phase, told.Seconds, told.State, told.Target = l.Time, l.Phase, l.Seconds, "", ""
	fx.add(&told, "INFO", "phase", l.Phase+optional(": ", l.Detail))
}

// said writes a line of history for something that a machine told while no work was at it.
func (fx *effects) said(e *work.Event, l work.Line) {
	told := *e
	told.Time, told.Phase, told.Seconds, told.State, told.Target = l.Time, l.Phase, l.Seconds, "", ""
	fx.add(&told, "INFO", "monitoring", l.Phase+optional(": ", l.Detail))
}

// add writes a line of history. Ironic calls the writer's host the conductor.
func (fx *effects) add(e *work.Event, severity, kind, text string) {
	fx.history = append(fx.history, &store.HistoryEntry{Node: e.Node, CreatedAt: at(e), Severity: severity, EventType: kind,
		Event: text, Conductor: e.Rackd, Work: e.Work, Phase: e.Phase, Seconds: e.Seconds, State: e.State, Target: e.Target})
}

func entered(e *work.Event) string {
	text := fmt.Sprintf("entered state %q", e.State)
	if e.Target != provision.NoState {
		text += fmt.Sprintf(", bound for %q", e.Target)
	}
	return text + optional(": ", e.Error)
}

func optional(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// by is e with no time later than now: what has come in has happened. A rackd whose clock is ahead holds up no deadline that
// counts from its events, and its lines do not stand before those of days to come.
func by(e *work.Event, now time.Time) *work.Event {
	late := func(l work.Line) bool { return l.Time.After(now) }
	if !e.Time.After(now) && !slices.ContainsFunc(e.Before, late) {
		return e
	}
	told := *e
	if e.Time.After(now) {
		told.Time = now
	}
	told.Before = slices.Clone(e.Before)
	for i, l := range told.Before {
		if late(l) {
			told.Before[i].Time = now
		}
	}
	return &told
}

// at returns when e happened, to the microsecond that the database keeps.
func at(e *work.Event) time.Time { return e.Time.UTC().Truncate(time.Microsecond) }
