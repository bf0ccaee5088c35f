//go:build !race

package ingest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A stolen rackd of one group makes up events about a node of that group. Those of the site's other groups do not wait for them, and the
// database does not grow by more than the bytes that were sent.
func TestEventsThatMakeMuchOfFewBytes(t *testing.T) {
	t.Parallel()
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

// A stolen rackd makes up events that no database takes. They leave room for what the database refuses of others,
// which would hold up the site without it.
func TestEventsThatAreMadeUpLeaveRoom(t *testing.T) {
	t.Parallel()
	f, m, exec := onPostgres(t)
	_, stolen := f.deploy("stolen")
	bad, badWork := f.deploy("bad")
	good, goodWork := f.deploy("good")
	exec(refusing(bad.UUID))
	const more, full = 5, 4 // full events leave no room for another member of the node's driver_internal_info
	for seq := range uint64(full + ingest.MostUnfit + more) {
		members := 500
		if seq >= full {
			members = 1
		}
		f.raw(stolen.Node, large(t, stolen, work.HardwareObserved, seq+1, "internal", "{", "}", members, func(i int) string { return fmt.Sprintf(`"m%d.%d":1`, seq, i) }))
	}
	for _, w := range []work.Event{about(badWork, work.WorkEnded, 1), about(goodWork, work.WorkEnded, 1)} {
		w.State, w.Error = provision.Active, "a text that this database refuses of one node"
		f.publish(w)
	}
	f.follow()
	f.drained()
	if got := f.node(good.UUID); got.ProvisionState != provision.Active {
		t.Errorf("the other node is %q", got.ProvisionState)
	}
	if got := f.setAside(); got != ingest.MostUnfit+1 {
		t.Errorf("%d events are set aside, want %d and one", got, ingest.MostUnfit)
	}
	if got := counted(t, m, `ironyard_central_events_dropped_total{reason="refused",site=""}`); got != more {
		t.Errorf("%v are counted as dropped, want %d", got, more)
	}
}

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
