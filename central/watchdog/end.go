package watchdog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/release"
	"github.com/ironyard/ironyard/protocol/work"
)

// end ends a work as its rackd would have at the deadline, unless anything has
// happened to it since it was judged.
func (w *Watchdog) end(ctx context.Context, u *store.Unfinished, orphaned time.Time) error {
	done := false
	err := w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		done = false
		n, err := tx.Node(ctx, u.Node)
		if err != nil {
			return err
		}
		if n.WorkID != u.ID || n.Generation != u.Generation || n.ProvisionState != u.State || !n.ProvisionUpdatedAt.Equal(u.Since) {
			return nil
		}
		text, state, target := w.explain(n, orphaned), n.ProvisionState, n.TargetProvisionState
		fail(n, text, w.Now())
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		if n.AcceptedState == provision.ServiceFail {
			noteRamdisk(n, u)
			if err := tx.UpdateObservation(ctx, n); err != nil {
				return err
			}
		}
		if err := blame(ctx, tx, n); err != nil {
			return err
		}
		if err := tx.EndWork(ctx, u.ID, store.WorkEnded, text); err != nil {
			return err
		}
		err = tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, CreatedAt: w.Now().UTC(), Severity: "ERROR", EventType: store.FailureType(n.ProvisionState),
			Event: text, Conductor: n.Reservation, Work: u.ID, State: state, Target: target, Revision: n.Revision})
		if err != nil {
			return err
		}
		done = true
		return tx.Enqueue(ctx, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.ConductorGroup})
	})
	if err != nil {
		return fmt.Errorf("end work %s of node %s, which no live rackd can do: %w", u.ID, u.Node, err)
	}
	if done {
		w.Ended(u.Group)
		w.Log.Warn("work ended: no live rackd can do it", "node", u.Node, "work", u.ID, "verb", u.Verb, "state", u.State,
			"group", u.Group, "nobody_since", orphaned)
	}
	return nil
}

// fail moves n out of its state by the state machine's failure. Where the state rests
// (a power request, an abort that was accepted) it stays.
func fail(n *store.Node, text string, now time.Time) {
	to, target := n.ProvisionState, n.TargetProvisionState
	if !n.WorkVerb.Rests() && provision.Transient(to) {
		t, _ := provision.Next(to, provision.EventFail) // TestTransientStatesHaveDeadlineAndWayOut
		to, target = t.To, provision.TargetOf(t.To, provision.EventFail, target)
	}
	// A power request ends with the work, also one that ran beside a flow.
	n.PowerTarget, n.TargetPowerState = "", ""
	n.Accept(to, target, now)
	n.AcceptedError, n.LastError = text, text
}

// noteRamdisk notes whether a service that has failed may have left the machine in the ramdisk. What one before has left there, and the
// list of its steps, must not pass for this one's. One with disable_ramdisk boots none, whatever its steps were told as.
func noteRamdisk(n *store.Node, u *store.Unfinished) {
	booted := u.Args.InRamdisk || !u.Args.DisableRamdisk && n.ToldOfRamdisk()
	if u.Verb == work.Service {
		for _, key := range []string{work.ServiceRamdisk, "service_steps", "service_step_index"} {
			delete(n.DriverInternalInfo, key)
		}
	}
	if booted || u.Args.DisableRamdisk { // the report of its last step says nothing of that
		if n.DriverInternalInfo == nil {
			n.DriverInternalInfo = map[string]any{}
		}
		n.DriverInternalInfo[work.ServiceRamdisk] = booted
	}
}

// blame puts a node into maintenance whose cleaning or service has failed, with the fault
// that a rackd would have told of.
func blame(ctx context.Context, tx *store.Tx, n *store.Node) error {
	fault := map[provision.State]string{provision.CleanFail: "clean failure", provision.ServiceFail: "service failure"}[n.AcceptedState]
	if fault == "" {
		return nil
	}
	rows, err := tx.Observed(ctx, []string{n.UUID})
	if err != nil || rows[n.UUID] == nil {
		return err
	}
	o := rows[n.UUID]
	o.FaultNumber = max(o.FaultNumber, o.FaultAcked) + 1
	o.ObservedFault, o.FaultWhy = fault, n.AcceptedError
	return tx.SaveObserved(ctx, []*store.Node{o})
}

// explain says to an operator what happened and what to do.
func (w *Watchdog) explain(n *store.Node, orphaned time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "No live rackd can go on with %q: since %s no rackd that enables %s has lived in conductor group %q", n.WorkVerb,
		orphaned.UTC().Format(time.RFC3339), n.Driver, n.ConductorGroup)
	if stands := w.Failover(n.ConductorGroup); len(stands) > 0 {
		fmt.Fprintf(&b, " or in those that stand in for it (%q)", stands)
	}
	outdated := w.Roster.Outdated(n.Driver, n.ConductorGroup)
	for _, m := range outdated {
		fmt.Fprintf(&b, "; %s lives, of version %s, and does not read what central of version %s writes", m.Name, m.Version, release.Version)
	}
	late := w.Roster.Late(n.Driver, n.ConductorGroup)
	for _, m := range late {
		fmt.Fprintf(&b, "; %s lives and does not have the key that central seals with", m.Name)
	}
	switch {
	case n.ObservedGeneration < n.Generation || n.ObservedOwner == "":
		b.WriteString("; none ever began it")
	case n.ObservedStep != "":
		fmt.Fprintf(&b, "; the last to have it was %s, in step %s", n.ObservedOwner, n.ObservedStep)
	default:
		fmt.Fprintf(&b, "; the last to have it was %s", n.ObservedOwner)
	}
	todo := "Start a rackd"
	switch {
	case len(outdated) > 0:
		todo = "Upgrade the rackds"
	case len(late) > 0:
		todo = "Run `ironyard site renew` for the rackds"
	}
	fmt.Fprintf(&b, ". Central has ended the work; the machine was left as it was. %s of the group, then ask again.", todo)
	return b.String()
}
