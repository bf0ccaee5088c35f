package store

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestTheTableFillsInWhatANewNodeLeavesOut: a node is read as the same, whichever of the two
// ledgers has added it.
func TestTheTableFillsInWhatANewNodeLeavesOut(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func(uuid string, l *ledger, row []any) *Node {
		t.Helper()
		err := s.Update(t.Context(), func(ctx context.Context, tx *Tx) error {
			return tx.addLater(ctx, l, func(err error) error { return err }, row)
		})
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Node(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		n.UUID = ""
		return n
	}
	made := func(uuid string) *Node {
		return &Node{UUID: uuid, Revision: 7, CreatedAt: time.UnixMicro(7).UTC(), Driver: "fake-hardware", ObservedGeneration: -1, AcceptedState: "enroll",
			Extra: map[string]any{"a": "b"}}
	}
	const short, long, odd = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000003"
	l, row, err := newNodeRow(made(short))
	if err != nil || l != usualNodeLedger {
		t.Fatalf("an ordinary node has columns that are not usual: %v, %v", unusual(row), err)
	}
	first := read(short, l, row)
	row[1+indexOf(usualColumns, "uuid")] = long
	second := read(long, nodeLedger, append(row[:len(row):len(row)], unusualDefaults...))
	if !reflect.DeepEqual(first, second) {
		t.Errorf("by the table:\n%+v\nsaid in full:\n%+v", first, second)
	}
	n := made(odd)
	n.Protected, n.Shard = true, "s"
	if l, row, err = newNodeRow(n); err != nil || l != nodeLedger {
		t.Fatalf("a protected node: %v, %v", l == usualNodeLedger, err)
	}
	if got := read(odd, l, row); !got.Protected || got.Shard != "s" {
		t.Errorf("a protected node of a shard became %+v", got)
	}
}

func indexOf(columns []column[Node], name string) int {
	for i, c := range columns {
		if c.name == name {
			return i
		}
	}
	return -1
}

// unusual names the columns of a whole row that are not as the table makes them.
func unusual(row []any) (list []string) {
	for i, c := range unusualColumns {
		if at := usualNodeLedger.width + i; at < len(row) && row[at] != unusualDefaults[i] {
			list = append(list, c.name)
		}
	}
	return list
}
