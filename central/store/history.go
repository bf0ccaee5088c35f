package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/protocol/provision"
)

// historyColumns is node_history in the order in which it is read.
var historyColumns = []column[HistoryEntry]{
	{"uuid", key, func(h *HistoryEntry) any { return &h.UUID }},
	{"node", key, func(h *HistoryEntry) any { return &h.Node }},
	{"created_at", key, func(h *HistoryEntry) any { return &h.CreatedAt }},
	{"severity", key, func(h *HistoryEntry) any { return &h.Severity }},
	{"event_type", key, func(h *HistoryEntry) any { return &h.EventType }},
	{"event", key, func(h *HistoryEntry) any { return &h.Event }},
	{"conductor", key, func(h *HistoryEntry) any { return &h.Conductor }},
	{"user_id", key, func(h *HistoryEntry) any { return &h.User }},
	{"work", key, func(h *HistoryEntry) any { return &h.Work }},
	{"phase", key, func(h *HistoryEntry) any { return &h.Phase }},
	{"seconds", key, func(h *HistoryEntry) any { return &h.Seconds }},
	{"project", key, func(h *HistoryEntry) any { return &h.Project }},
	{"state", key, func(h *HistoryEntry) any { return &h.State }},
	{"target", key, func(h *HistoryEntry) any { return &h.Target }},
	{"revision", key, func(h *HistoryEntry) any { return &h.Revision }},
}

var (
	selectHistory       = "SELECT " + names(historyColumns, "h.") + " FROM node_history h"
	selectHistoryExists = register("SELECT uuid FROM node_history WHERE uuid = $1")
	selectHistoryEntry  = register(selectHistory + " WHERE h.node = $1 AND h.uuid = $2")
	selectRevision      = register("SELECT revision FROM nodes WHERE uuid = $1")
)

func insertHistory(n int) string {
	return "INSERT INTO node_history (" + names(historyColumns, "") + ") VALUES " + valueRows(n, len(historyColumns), nil)
}

func historyStatement(q HistoryQuery) (string, []any, error) {
	if q.SortKey != "" && q.SortKey != "created_at" && q.SortKey != "uuid" {
		return "", nil, &InvalidSortError{q.SortKey}
	}
	var f filter
	f.add("h.node = ?", q.Node)
	f.equal("h.work", q.Work)
	f.equal("h.severity", q.Severity)
	f.equal("h.event_type", q.EventType)
	tail := f.page(q.Page, "node_history", "h", "created_at")
	return selectHistory + tail, f.args, nil
}

func init() {
	builders = append(builders, func() []string {
		asc, _, _ := historyStatement(HistoryQuery{Page: Page{Marker: "m"}, Node: "n", Work: "w", Severity: "s", EventType: "e"})
		desc, _, _ := historyStatement(HistoryQuery{Page: Page{Desc: true}, Node: "n"})
		return []string{insertHistory(2), asc, desc}
	})
}

func readHistory(ctx context.Context, c conn, stmt string, args ...any) ([]*HistoryEntry, error) {
	var list []*HistoryEntry
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		h := new(HistoryEntry)
		list = append(list, h)
		return r.Scan(fields(historyColumns, h)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return list, nil
}

// History returns a page of a node's history, oldest first unless Desc. A marker
// that does not exist is ErrNotFound.
func (s *Store) History(ctx context.Context, q HistoryQuery) ([]*HistoryEntry, error) {
	stmt, args, err := historyStatement(q)
	if err != nil {
		return nil, err
	}
	list, err := readHistory(ctx, s.engine, stmt, args...)
	if err == nil && len(list) == 0 && q.Marker != "" {
		err = s.markerExists(ctx, selectHistoryExists, "history entry", q.Marker)
	}
	return list, err
}

// HistoryEntry returns one entry of a node's history, or ErrNotFound.
func (s *Store) HistoryEntry(ctx context.Context, node, id string) (*HistoryEntry, error) {
	list, err := readHistory(ctx, s.engine, selectHistoryEntry, node, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("history entry %s of node %s: %w", id, node, ErrNotFound)
	}
	return list[0], nil
}

// AppendHistory adds entries in one statement. Those without a revision of their node cost a read of it.
func (tx *Tx) AppendHistory(ctx context.Context, entries ...*HistoryEntry) error {
	if len(entries) == 0 {
		return nil
	}
	for _, h := range entries {
		if h.UUID == "" {
			h.UUID = NewID()
		}
		if h.CreatedAt.IsZero() {
			h.CreatedAt = tx.s.now()
		}
		if h.Severity == "" {
			h.Severity = "INFO"
		}
		if h.Revision == 0 {
			if err := tx.readRevision(ctx, h); err != nil {
				return err
			}
		}
	}
	for part := range slices.Chunk(entries, maxRows) { // a statement has a bounded number of values
		var args []any
		for _, h := range part {
			args = append(args, fields(historyColumns, h)...)
		}
		fail := func(err error) error { return fmt.Errorf("append history of node %s: %w", part[0].Node, err) }
		if err := tx.write(ctx, fail, insertHistory(len(part)), args...); err != nil {
			return err
		}
	}
	return nil
}

// readRevision sets that of the entry's node as it is now; it stays 0 where there is no such node.
func (tx *Tx) readRevision(ctx context.Context, h *HistoryEntry) error {
	r, err := tx.conn.query(ctx, selectRevision, h.Node)
	if err := scanAll(r, err, func(r rows) error { return r.Scan(&h.Revision) }); err != nil {
		return fmt.Errorf("read revision of node %s: %w", h.Node, err)
	}
	return nil
}

// failureTypes are what Ironic's history calls the failures that leave a node in a state.
var failureTypes = map[provision.State]string{
	provision.Enroll: "verify", provision.InspectFail: "introspection", provision.CleanFail: "cleaning", provision.DeployFail: "deploying",
	provision.ServiceFail: "servicing", provision.RescueFail: "rescue", provision.UnrescueFail: "rescue", provision.AdoptFail: "adoption",
	provision.Error: "unprovision",
}

// FailureType is the event type of a failure that has left a node in a state.
func FailureType(s provision.State) string { return cmp.Or(failureTypes[s], "provisioning") }
