package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/store"
)

// story has lines of the history and of the audit by turns, some in one millisecond, and
// reads them page by page from either end.
func story(t *testing.T, s *store.Store) {
	n, other := NewNode("n"), NewNode("m")
	Insert(t, s, n, other)
	at := time.UnixMilli(1_800_000_000_000).UTC()
	id := func(ms int64, last byte) string {
		v7 := uuid.Must(uuid.NewV7())
		for i := range 6 {
			v7[i] = byte((at.UnixMilli() + ms) >> (8 * (5 - i)))
		}
		copy(v7[6:], []byte{0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, last})
		return v7.String()
	}
	line := func(ms, us int64, name string) *store.HistoryEntry {
		return &store.HistoryEntry{UUID: uuid.NewString(), Node: n.UUID, CreatedAt: at.Add(time.Duration(ms*1000+us) * time.Microsecond), Event: name}
	}
	deed := func(ms int64, last byte, action, node, result string) *store.Audit {
		return &store.Audit{UUID: id(ms, last), At: at, User: "kim", UserID: "k", Project: "p", Action: action, Method: "PATCH", Path: "v1/x", Node: node, Result: result, RequestID: "r"}
	}
	const update1, traits, maintenance = "baremetal:node:update", "baremetal:node:traits:set", "baremetal:node:set_maintenance"
	if err := s.AppendAudit(t.Context(), deed(1, 1, update1, n.UUID, store.Accepted), deed(2, 2, traits, n.UUID, store.Accepted), deed(2, 1, maintenance, n.UUID, store.Accepted),
		deed(9, 1, "baremetal:port:create", n.UUID, store.Accepted), deed(3, 1, update1, n.UUID, store.Refused), deed(3, 2, "baremetal:node:set_power_state", n.UUID, store.Accepted),
		deed(3, 3, update1, other.UUID, store.Accepted)); err != nil {
		t.Fatal(err)
	}
	update(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.AppendHistory(ctx, line(0, 999, "zero"), line(2, 0, "two"), line(2, 999, "two, late"), line(4, 1, "four"))
	})
	name := func(h *store.HistoryEntry) string {
		if h.EventType != "" {
			return h.EventType
		}
		return h.Event
	}
	byTime := []string{"zero", "update", "two", "two, late", "set_maintenance", "traits:set", "four", "port:create"}
	byType := []string{"zero", "two", "two, late", "four", "port:create", "set_maintenance", "traits:set", "update"}
	for key, want := range map[string][]string{"": byTime, "event_type": byType} {
		for limit := 1; limit <= 3; limit++ {
			for _, desc := range []bool{false, true} {
				var got []string
				for page := (store.Page{Limit: limit, Desc: desc, SortKey: key}); ; {
					list, err := s.Story(t.Context(), n.UUID, page)
					if err != nil {
						t.Fatal(err)
					}
					for _, h := range list {
						got = append(got, name(h))
						page.Marker = h.UUID
						if one, err := s.StoryEntry(t.Context(), n.UUID, h.UUID); err != nil || *one != *h {
							t.Errorf("entry %s is %+v, error %v, want %+v", h.UUID, one, err, h)
						}
					}
					if len(list) < limit {
						break
					}
				}
				if desc {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("by %q, pages of %d, descending %t: %s", key, limit, desc, strings.Join(got, ", "))
				}
			}
		}
	}
	h, err := s.StoryEntry(t.Context(), n.UUID, id(1, 1))
	if err != nil || h.User != "k" || h.Project != "p" || h.Severity != "INFO" || h.Event != "update by PATCH v1/x" || !h.CreatedAt.Equal(at) {
		t.Errorf("what was done: %+v, %v", h, err)
	}
	for _, hidden := range []string{id(3, 1), id(3, 2), id(3, 3), uuid.NewString()} {
		if _, err := s.StoryEntry(t.Context(), n.UUID, hidden); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("entry %s: %v, want ErrNotFound", hidden, err)
		}
		for _, key := range []string{"", "severity"} {
			if _, err := s.Story(t.Context(), n.UUID, store.Page{Marker: hidden, SortKey: key}); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("marker %s by %q: %v, want ErrNotFound", hidden, key, err)
			}
		}
	}
}
