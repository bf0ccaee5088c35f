package ingest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// large is an event of w with a member that takes up most of what the bus takes: n times what each returns.
func large(t *testing.T, w *store.Work, kind work.EventKind, seq uint64, member, open, end string, n int, each func(i int) string) []byte {
	t.Helper()
	body, err := json.Marshal(about(w, kind, seq))
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = each(i)
	}
	return fmt.Appendf(body[:len(body)-1], `,%q:%s%s%s}`, member, open, strings.Join(parts, ","), end)
}

// A stolen rackd of one group makes up events about a node of that group. Those of the site's other groups do not wait for them, and the
// database does not grow by more than the bytes that were sent.
func TestEventsThatMakeMuchOfFewBytes(t *testing.T) {
	for name, c := range map[string]func(w *store.Work, seq uint64) []byte{
		"lines": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.PhaseEntered, seq, "before", "[", "]", 300_000, func(int) string { return "{}" })
		},
		"settings": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "hardware", `{"bios":[`, "]}", 55_000, func(i int) string { return fmt.Sprintf(`{"name":"%05x"}`, i) })
		},
		"components": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "hardware", `{"firmware":[`, "]}", 45_000, func(i int) string { return fmt.Sprintf(`{"component":"%05x"}`, i) })
		},
		"internal": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "internal", `{`, "}", 80_000, func(i int) string { return fmt.Sprintf(`"%02x%05x":1`, seq, i) })
		},
		"large members": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "internal", `{`, "}", 1, func(int) string { return fmt.Sprintf(`"a%d":"%s"`, seq, strings.Repeat("x", 1_000_000)) })
		},
		"properties": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "properties", `{`, "}", 1, func(int) string { return fmt.Sprintf(`"a%d":"%s"`, seq, strings.Repeat("x", 1_000_000)) })
		},
		"a long name": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "hardware", `{"bios":[`, "]}", 1, func(int) string { return fmt.Sprintf(`{"name":"%s"}`, strings.Repeat("x", 900_000)) })
		},
		"a number that is none": func(w *store.Work, seq uint64) []byte {
			return large(t, w, work.HardwareObserved, seq, "internal", `{`, "}", 1, func(i int) string { return `"a":1e999` })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, stolen := f.deploy("stolen")
			other, fine := f.deploy("other")
			const forged = 4
			for seq := range uint64(forged) {
				body := c(stolen, seq+1)
				if len(body) > 1<<20 {
					t.Fatal(len(body))
				}
				f.raw(stolen.Node, body)
			}
			ended := about(fine, work.WorkEnded, 1)
			ended.State = provision.Active
			f.publish(ended)
			began := time.Now()
			f.follow()
			for f.node(other.UUID).ProvisionState != provision.Active {
				if time.Since(began) > 2*time.Minute {
					t.Fatalf("the other group's event waits: %v", f.ingest.Stuck(""))
				}
				time.Sleep(20 * time.Millisecond)
			}
			lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: stolen.Node, Page: store.Page{Limit: 1000_000}})
			if err != nil {
				t.Fatal(err)
			}
			n := f.node(stolen.Node)
			info, err := json.Marshal([]any{n.DriverInternalInfo, n.Properties})
			if err != nil {
				t.Fatal(err)
			}
			if len(lines) > 2*forged || len(info) > 3<<20 {
				t.Errorf("%d forged events have made %d lines of history and %d bytes of the node's fields", forged, len(lines), len(info))
			}
		})
	}
}

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
