package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// storyOrders are the fields besides its time by which a node's history may be sorted, by
// their API names. What they leave equal stays in the order of the time.
var storyOrders = map[string]func(a, b *HistoryEntry) int{
	"conductor":              by(func(h *HistoryEntry) string { return h.Conductor }),
	"duration_seconds":       by(func(h *HistoryEntry) float64 { return h.Seconds }),
	"event":                  by(func(h *HistoryEntry) string { return h.Event }),
	"event_type":             by(func(h *HistoryEntry) string { return h.EventType }),
	"project":                by(func(h *HistoryEntry) string { return h.Project }),
	"severity":               by(func(h *HistoryEntry) string { return h.Severity }),
	"state":                  by(func(h *HistoryEntry) string { return string(h.State) }),
	"target_provision_state": by(func(h *HistoryEntry) string { return string(h.Target) }),
	"user":                   by(func(h *HistoryEntry) string { return h.User }),
}

func by[V cmp.Ordered](field func(*HistoryEntry) V) func(a, b *HistoryEntry) int {
	return func(a, b *HistoryEntry) int { return cmp.Compare(field(a), field(b)) }
}

// storyBy is Story in another order than that of the time. It reads all of the node's
// history: no index has these orders, and hardly anybody asks for one.
func (s *Store) storyBy(ctx context.Context, node string, p Page, order func(a, b *HistoryEntry) int) ([]*HistoryEntry, error) {
	var all []*HistoryEntry
	for next := (Page{Limit: 1000}); ; next.Marker = all[len(all)-1].UUID {
		page, err := s.Story(ctx, node, next)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < next.Limit {
			break
		}
	}
	slices.SortStableFunc(all, order)
	if p.Desc {
		slices.Reverse(all)
	}
	if p.Marker != "" {
		at := slices.IndexFunc(all, func(h *HistoryEntry) bool { return h.UUID == p.Marker })
		if at < 0 {
			return nil, fmt.Errorf("history entry %s of node %s: %w", p.Marker, node, ErrNotFound)
		}
		all = all[at+1:]
	}
	if p.Limit > 0 && len(all) > p.Limit {
		all = all[:p.Limit]
	}
	return all, nil
}
