package dispatch

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// running is what the last report said of the step that runs.
type running struct {
	Abortable bool `json:"abortable"`
	Ramdisk   bool `json:"requires_ramdisk"`
}

// runningStep reads that report; ok is false when none is known.
func runningStep(n *store.Node) (s running, ok bool) {
	return s, n.ObservedStepInfo != "" && json.Unmarshal([]byte(n.ObservedStepInfo), &s) == nil
}

// abortsLater reports whether the node is shown in its waiting state until the running step has
// ended, which as far as central knows does not allow to be cut short. What is cut short is the
// rack's to decide, by the checkpoint.
func abortsLater(n *store.Node, t provision.Transition) bool {
	if t.Event != provision.EventAbort || !n.ProvisionState.In([]provision.State{provision.CleanWait, provision.ServiceWait, provision.DeployWait}) {
		return false
	}
	s, known := runningStep(n)
	return known && !s.Abortable
}

// endsService reports whether t is the abort of a service that failed with its machine in the
// ramdisk: then the machine has to be brought back into its instance before the node is active.
// A service that central ended, because no rackd lived, is judged by the last report of it, where nothing else is known.
func endsService(n *store.Node, t provision.Transition) bool {
	if t.Event != provision.EventAbort || t.From != provision.ServiceFail {
		return false
	}
	if booted, known := n.DriverInternalInfo[work.ServiceRamdisk].(bool); known {
		return booted
	}
	s, known := runningStep(n)
	return known && s.Ramdisk
}

// leftInRamdisk reports whether the service before, which has failed or is held, has left the machine in the ramdisk. Racks go by
// the checkpoint of one that is held; this is for central, where no rackd lives to tell of the new one.
func leftInRamdisk(ctx context.Context, tx *store.Tx, n *store.Node, from provision.State) (bool, error) {
	switch from {
	case provision.ServiceFail:
		booted, _ := n.DriverInternalInfo[work.ServiceRamdisk].(bool)
		return booted, nil
	case provision.ServiceHold:
		open, err := tx.OpenWork(ctx, n.UUID)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return err == nil && (open.Args.InRamdisk || !open.Args.DisableRamdisk && n.ToldOfRamdisk()), err
	}
	return false, nil
}

// aborting puts into w, which takes the place of n's open work, which flow it ends: the rack
// finds there what runs. What was asked of the machine beside the flow, and is not done, goes along: its end is to be told.
func aborting(ctx context.Context, tx *store.Tx, n *store.Node, w *store.Work) error {
	if n.WorkID == "" {
		return nil
	}
	open, err := tx.OpenWork(ctx, n.UUID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	w.Args = open.Args
	w.Args.ConfigDrive = ""
	if !errandOpen(n, open) {
		w.Args.PowerTarget, w.Args.TimeoutSeconds, w.Args.Change = "", 0, nil
	}
	w.Args.AbortAfter, w.Args.LetGo, w.Args.Aborts = false, "", open.Verb
	if w.Args.Continues == "" {
		w.Args.Continues = open.ID
	}
	return nil
}
