package ingest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ironyard/ironyard/central/store"
)

// A stolen rackd makes up earlier works of the flow that a node's open work goes on with. What that costs the database does not grow with
// the number of events in a batch.
func TestEarlierWorksThatWereNever(t *testing.T) {
	f := newFixture(t)
	n, first := f.inspect("n")
	second := f.beside(f.beside(first)) // neither is the root
	const forged = 400
	for i := range forged {
		e := found(first, 1, uint64(i+1), 2)
		e.Work = fmt.Sprint("made up ", i)
		e.ID = e.Work
		f.publish(e)
	}
	before := f.store.Statements()
	f.follow()
	f.drained()
	if asked := f.store.Statements() - before; asked > forged/4 {
		t.Errorf("%d events made %d statements", forged, asked)
	}
	f.publish(found(first, 1, 1, 3))
	f.drained()
	if _, err := f.store.Inventory(t.Context(), n.UUID); err != nil {
		t.Errorf("what the flow's first work had found is lost: %v", err)
	}
	if got := f.node(n.UUID); got.WorkID != second.ID {
		t.Errorf("the node's work is %q, want %q", got.WorkID, second.ID)
	}
}

// That a work is of one node's flow says nothing of another's.
func TestEarlierWorkOfAnotherNode(t *testing.T) {
	f := newFixture(t)
	n, first := f.inspect("n")
	middle := f.beside(first)
	f.beside(middle)
	other, theirs := f.inspect("other")
	f.beside(f.beside(theirs))
	lie := found(middle, 1, 2, 3)
	lie.ID, lie.Node = "a lie", other.UUID
	f.publish(found(middle, 1, 1, 3))
	f.publish(lie)
	f.follow()
	f.drained()
	if _, err := f.store.Inventory(t.Context(), n.UUID); err != nil {
		t.Errorf("of its own: %v", err)
	}
	if _, err := f.store.Inventory(t.Context(), other.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other node has the inventory of this one: %v", err)
	}
}
