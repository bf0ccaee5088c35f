package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// errandOpen reports whether open, the open work of n, has something to do to the machine that no rackd has told the end of.
func errandOpen(n *store.Node, open *store.Work) bool {
	return (&work.Document{Verb: open.Verb, Args: open.Args}).Errand() != "" && n.PowerObservedGeneration < open.Generation
}

// Underway refuses what would take n away from a rackd that does something to the machine beside n's flow; nil: none does.
func Underway(ctx context.Context, tx *store.Tx, n *store.Node) error {
	if n.WorkID == "" {
		return nil
	}
	open, err := tx.OpenWork(ctx, n.UUID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case errandOpen(n, open):
		return Locked(n)
	}
	return nil
}

// mayReplace refuses a request that would take the place of n's open work, and forget what that is still to do to the machine: a reboot
// may have switched it off. An abort takes that over. An undeploy switches the machine off itself: dropped is what the history says then
// of what is left undone, if anything is.
func mayReplace(ctx context.Context, tx *store.Tx, n *store.Node, t provision.Transition) (dropped string, err error) {
	if n.WorkID == "" || t.Event == provision.EventAbort {
		return "", nil
	}
	open, err := tx.OpenWork(ctx, n.UUID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case !errandOpen(n, open):
		return "", nil
	case t.Event != provision.EventDelete:
		return "", Locked(n)
	}
	asked := "a change of its machine"
	if open.Args.PowerTarget != "" {
		asked = open.Args.PowerTarget
	}
	return fmt.Sprintf("; %s, asked for beside it, is given up, and may have been done in part", asked), nil
}
