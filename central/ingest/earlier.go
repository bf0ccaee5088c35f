package ingest

import (
	"context"
	"errors"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
)

// flows is what a batch has read to know which events are of earlier works. A rackd that was stolen makes up works; what it costs to find
// out that they are none is bounded.
type flows struct {
	open   map[string]*store.Work // by node; nil: there is none
	before map[[2]string]bool     // by node and work, whether the work is of the node's flow
	asked  map[string]int         // how many works of a node were read
}

// maxEarlier is how many works of a flow, beside its first, may have left events in one batch.
const maxEarlier = 8

func newFlows() *flows {
	return &flows{map[string]*store.Work{}, map[[2]string]bool{}, map[string]int{}}
}

// earlier reports whether e describes the machine and belongs to an earlier work of the flow that n's open work continues. A
// request beside the flow replaces the work in the rows before the rack hears of it. The rack reports what it finds until
// then once only. The end and the state of the earlier work do not count: the open work ends as the flow does.
func (f *flows) earlier(ctx context.Context, tx *store.Tx, n *store.Node, e *work.Event) (bool, error) {
	tells := e.Kind == work.InventoryFound || e.Kind == work.HardwareObserved || e.Kind == work.SecretsReplaced
	if !tells || e.Work == "" || n.WorkID == "" || e.Work == n.WorkID || e.Generation >= n.Generation {
		return false, nil
	}
	open, known := f.open[n.UUID]
	if !known {
		read, err := tx.OpenWork(ctx, n.UUID)
		if err = orNone(err); err != nil {
			return false, err
		}
		open, f.open[n.UUID] = read, read
	}
	if open == nil || open.ID != n.WorkID || open.Args.Continues == "" {
		return false, nil
	}
	root := open.Args.Continues
	is, known := f.before[[2]string{n.UUID, e.Work}]
	if known || root == e.Work || f.asked[n.UUID] >= maxEarlier {
		return is || root == e.Work, nil
	}
	f.asked[n.UUID]++
	before, err := tx.Work(ctx, e.Work)
	if err = orNone(err); err != nil {
		return false, err
	}
	is = before != nil && before.Node == n.UUID && before.Args.Continues == root
	f.before[[2]string{n.UUID, e.Work}] = is
	return is, nil
}

// orNone makes no error of a work that is not there.
func orNone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// applyEarlier takes in what an event of an earlier work of the flow tells of the machine. Generations, epochs and numbers
// tell the order, as with any event of a work: once a later work of the flow has been heard of, its owner knows better, and an event
// that is read again undoes nothing.
func applyEarlier(n *store.Node, e *work.Event, fx *effects) dropped {
	switch {
	case e.Generation < n.ObservedGeneration:
		return oldGeneration
	case e.Generation == n.ObservedGeneration && e.Epoch < n.ObservedEpoch:
		return oldEpoch
	case e.Generation == n.ObservedGeneration && e.Epoch == n.ObservedEpoch && e.Seq <= n.ObservedSeq:
		return repeated
	}
	n.Observe(e.Generation)
	n.ObservedEpoch, n.ObservedSeq = e.Epoch, e.Seq
	for _, l := range e.Lines() {
		fx.passed(e, l)
	}
	if e.Inventory != nil {
		fx.inventory[e.Node] = e
	}
	besides(n, &work.Event{Kind: e.Kind, Node: e.Node, Rackd: e.Rackd, Time: e.Time, Work: e.Work, Internal: e.Internal, Hardware: e.Hardware, Secrets: e.Secrets}, fx, false)
	return applied
}
