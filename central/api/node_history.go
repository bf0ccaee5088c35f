package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// historyTable is every field of an entry of a node's history.
var historyTable = fields.New("history entry",
	fields.Text("uuid", 78, func(h *store.HistoryEntry) *string { return &h.UUID }).List().Sort(), // grows with the time
	fields.Text("conductor", 78, func(h *store.HistoryEntry) *string { return &h.Conductor }).Sort(),
	fields.Time("created_at", 78, func(h *store.HistoryEntry) time.Time { return h.CreatedAt }).List().Sort(),
	fields.Text("event", 78, func(h *store.HistoryEntry) *string { return &h.Event }).List().Sort(),
	fields.Computed("duration_seconds", 115, duration).Sort().Early(fields.Sorting),
	fields.Text("event_type", 78, func(h *store.HistoryEntry) *string { return &h.EventType }).Sort(),
	fields.Text("project", 113, func(h *store.HistoryEntry) *string { return &h.Project }).Sort().Early(fields.Sorting),
	fields.Text("severity", 78, func(h *store.HistoryEntry) *string { return &h.Severity }).List().Sort(),
	fields.Text("state", 115, func(h *store.HistoryEntry) *string { return (*string)(&h.State) }).Sort().Early(fields.Sorting),
	fields.Text("target_provision_state", 115, func(h *store.HistoryEntry) *string { return (*string)(&h.Target) }).Sort().Early(fields.Sorting),
	fields.Text("user", 78, func(h *store.HistoryEntry) *string { return &h.User }).Sort(),
).Order("uuid", "created_at", "severity", "event_type", "event", "conductor", "user", "project", "state", "target_provision_state", "duration_seconds")

// duration is how many whole seconds, as in Ironic, what came before the entry took, null
// where nobody measured.
func duration(h *store.HistoryEntry) any {
	if h.Seconds == 0 {
		return nil
	}
	return int64(h.Seconds)
}

// maxShortEvent bounds the text of an entry in a list that does not ask for details.
const maxShortEvent = 255

func (s *Server) nodeHistory() Resource {
	const policy, all = "baremetal:node:history:get", "nodes/{node}/history"
	return Resource{Since: 78, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: policy, Handle: s.listHistory},
		{Method: http.MethodGet, Path: all + "/{event}", Policy: policy, Handle: s.showHistory},
	}}
}

func (s *Server) appendHistory(b []byte, r *Request, sel fields.Selection, h *store.HistoryEntry) []byte {
	if sel.Chosen && len(h.Event) > maxShortEvent {
		short := *h
		short.Event = strings.ToValidUTF8(h.Event[:maxShortEvent-len("...")], "") + "..."
		h = &short
	}
	b = historyTable.Append(append(b, '{'), sel, h)
	b = wire.AppendString(append(b, `,"links":[{"href":`...), r.Base+"/v1/nodes/"+h.Node+"/history/"+h.UUID)
	return append(b, `,"rel":"self"}]}`...)
}

func (s *Server) listHistory(r *Request) (Reply, error) {
	if err := r.Query.Allow(append(wire.PageArguments, "detail")...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, historyTable, false, 8, 43)
	if err != nil {
		return Reply{}, err
	}
	p, err := r.Query.Page("created_at")
	if err != nil {
		return Reply{}, err
	}
	if err := historyTable.CheckSort(r.Version, p.SortKey); err != nil {
		return Reply{}, err
	}
	if marker, given := r.Query["marker"]; given && marker == "" {
		return Reply{}, wire.Invalid("Expected UUID for marker: ")
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	page, err := storePage(p)
	if err != nil {
		return Reply{}, err
	}
	entries, err := s.Store.Story(r.Context(), n.UUID, page)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, historyMissing(p.Marker)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := []byte(`{"history":[`)
	for i, h := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendHistory(b, r, sel, h)
	}
	b = append(b, ']')
	if len(entries) == p.Limit {
		next := r.Query.Next(r.Base, "nodes/"+n.UUID+"/history", p, entries[len(entries)-1].UUID, nil)
		b = wire.AppendString(wire.AppendName(b, "next"), next)
	}
	return ok(append(b, '}'))
}

func (s *Server) showHistory(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	id, err := nameOrUUID(r, r.Param(1)) // no entry has a name: those are not found
	if err != nil {
		return Reply{}, wire.Invalid("Expected UUID or name for event: %.80s", r.Param(1))
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	h, err := s.Store.StoryEntry(r.Context(), n.UUID, id)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, historyMissing(id)
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	return ok(s.appendHistory(nil, r, historyTable.All(r.Version), h))
}

func historyMissing(id string) error {
	return wire.Errorf(http.StatusNotFound, "Node history record %.80s could not be found.", id)
}
