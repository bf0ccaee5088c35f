package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// What an older program, or one that shares no commits, has left without a number gets one,
// and what is written after that the next.
func TestNumbersGoOnAfterThoseOfOthers(t *testing.T) {
	s := openNumbered(t)
	insert := func() error {
		n := &Node{UUID: NewID(), Driver: "fake-hardware", AcceptedState: provision.Available}
		return s.Update(t.Context(), func(ctx context.Context, tx *Tx) error { return tx.InsertNode(ctx, n) })
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	other := &Change{UUID: NewID(), Resource: "node", Object: "o", Action: "power_set", Phases: "start"}
	if _, err := s.engine.exec(t.Context(), changeLedger.texts[0], fields(changeColumns, other)...); err != nil {
		t.Fatal(err)
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	if did, err := s.NumberChanges(t.Context(), 10); err != nil || did != (Numbered{Count: 1, After: 4, Last: 5}) {
		t.Errorf("numbered %+v, error %v", did, err)
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	list, err := s.Changes(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{2, 4, 5, 7} {
		if i >= len(list) || list[i].Seq != want || (list[i].Object == "o") != (want == 5) {
			t.Fatalf("change %d of %d: want number %d", i, len(list), want)
		}
	}
	// Without its counter the database is not one of ours.
	if _, err := s.engine.exec(t.Context(), "DELETE FROM change_numbers"); err != nil {
		t.Fatal(err)
	}
	if err := insert(); !errors.Is(err, errNoCounter) {
		t.Errorf("without a counter: %v", err)
	}
}

func openNumbered(t *testing.T) *Store {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "central.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Kept rows are numbered by their phases, from wherever, as often as is asked.
func TestCount(t *testing.T) {
	var k kept
	for _, phases := range []string{"start,end", "success", ""} {
		args, err := appendValues(nil, changeColumns, &Change{UUID: NewID(), Phases: phases})
		if err != nil {
			t.Fatal(err)
		}
		k.add(changeLedger, nil, args)
	}
	a := k.before("")[0]
	for _, after := range []int64{0, 7} {
		if last := a.count(after); last != after+4 {
			t.Errorf("three changes after %d end at %d", after, last)
		}
		if seqs := columnOf[int64](a, changeSeq); seqs[0] != after+2 || seqs[1] != after+3 || seqs[2] != after+4 {
			t.Errorf("their numbers after %d are %v", after, seqs)
		}
	}
}
