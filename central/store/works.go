package store

import (
	"context"
	"fmt"
)

// workColumns is the works table in the order in which it is read.
var workColumns = []column[Work]{
	{"id", key, func(w *Work) any { return &w.ID }},
	{"node", key, func(w *Work) any { return &w.Node }},
	{"conductor_group", key, func(w *Work) any { return &w.Group }},
	{"generation", key, func(w *Work) any { return &w.Generation }},
	{"verb", key, func(w *Work) any { return &w.Verb }},
	{"args", key, func(w *Work) any { return asObject(&w.Args) }},
	{"request_id", key, func(w *Work) any { return &w.RequestID }},
	{"entry", key, func(w *Work) any { return &w.Entry }},
	{"entry_target", key, func(w *Work) any { return &w.EntryTarget }},
	{"state", key, func(w *Work) any { return &w.State }},
	{"owner", key, func(w *Work) any { return &w.Owner }},
	{"requested_at", key, func(w *Work) any { return &w.RequestedAt }},
	{"ended_at", key, func(w *Work) any { return &w.EndedAt }},
	{"error", key, func(w *Work) any { return &w.Error }},
}

var (
	selectWorks       = "SELECT " + names(workColumns, "w.") + " FROM works w"
	selectWork        = register(selectWorks + " WHERE w.id = $1")
	selectOpenWork    = register(selectWorks + " WHERE w.node = $1 AND w.state = 'open'")
	selectOpenWorks   = register(selectWorks + " WHERE w.state = 'open' AND w.node > $1 ORDER BY w.node LIMIT $2")
	selectWorksOfNode = register(selectWorks + " WHERE w.node = $1 ORDER BY w.generation")
	insertWork        = register("INSERT INTO works (" + names(workColumns, "") + ") VALUES (" + placeholders(1, len(workColumns)) + ")")
	endWork           = register("UPDATE works SET state = $2, ended_at = $3, error = $4 WHERE id = $1 AND state = 'open'")
)

func endWorks(n int) string {
	return "WITH v (id, ended_at, error) AS (VALUES " + valueRows(n, 3, []string{"TEXT", "BIGINT", "TEXT"}) +
		") UPDATE works SET state = 'ended', ended_at = v.ended_at, error = v.error FROM v WHERE works.id = v.id AND works.state = 'open'"
}

func init() {
	builders = append(builders, func() []string { return []string{endWorks(2)} })
}

func readWorks(ctx context.Context, c conn, stmt string, args ...any) ([]*Work, error) {
	var list []*Work
	r, err := c.query(ctx, stmt, args...)
	err = scanAll(r, err, func(r rows) error {
		w := new(Work)
		list = append(list, w)
		return r.Scan(fields(workColumns, w)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read works: %w", err)
	}
	return list, nil
}

func readWork(ctx context.Context, c conn, stmt, what string) (*Work, error) {
	list, err := readWorks(ctx, c, stmt, what)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("work of %s: %w", what, ErrNotFound)
	}
	return list[0], nil
}

// Work returns the work with that id, or ErrNotFound.
func (s *Store) Work(ctx context.Context, id string) (*Work, error) {
	return readWork(ctx, s.engine, selectWork, id)
}

// Works returns all works of a node, oldest first.
func (s *Store) Works(ctx context.Context, node string) ([]*Work, error) {
	return readWorks(ctx, s.engine, selectWorksOfNode, node)
}

// OpenWorks returns up to limit open works of nodes after afterNode, in order of
// the node.
func (s *Store) OpenWorks(ctx context.Context, afterNode string, limit int) ([]*Work, error) {
	return readWorks(ctx, s.engine, selectOpenWorks, afterNode, limit)
}

// OpenWork returns the node's open work, or ErrNotFound. Node.WorkID already says
// whether there is one.
func (tx *Tx) OpenWork(ctx context.Context, node string) (*Work, error) {
	return readWork(ctx, tx.conn, selectOpenWork, node)
}

// Work returns the work with that id, or ErrNotFound.
func (tx *Tx) Work(ctx context.Context, id string) (*Work, error) {
	return readWork(ctx, tx.conn, selectWork, id)
}

// InsertWork adds w as the node's open work. A node with open work: *DuplicateError
// with Field "work".
func (tx *Tx) InsertWork(ctx context.Context, w *Work) error {
	if w.State == "" {
		w.State = WorkOpen
	}
	if w.RequestedAt.IsZero() {
		w.RequestedAt = tx.s.now()
	}
	tx.verb = string(w.Verb)
	return tx.write(ctx, func(err error) error {
		return fmt.Errorf("insert work %s of node %s: %w", w.Verb, w.Node, tx.s.taken(err, func(string) string { return w.Node }))
	}, insertWork, fields(workColumns, w)...)
}

// EndWork closes an open work as ended or superseded, with an error text or none.
// ErrNotFound when it is not open.
func (tx *Tx) EndWork(ctx context.Context, id string, state WorkState, errorText string) error {
	rows, err := tx.conn.exec(ctx, endWork, id, string(state), tx.s.now().UnixMicro(), errorText)
	if err == nil && rows == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("close work %s: %w", id, err)
	}
	return nil
}

// EndWorks closes several works as ended now, by this clock, in one statement; those that are closed
// already stay as they are. ID and Error of each are used.
func (tx *Tx) EndWorks(ctx context.Context, works []*Work) error {
	if len(works) == 0 {
		return nil
	}
	var args []any
	for _, w := range works {
		args = append(args, w.ID, tx.s.now().UnixMicro(), w.Error)
	}
	if _, err := tx.conn.exec(ctx, endWorks(len(works)), args...); err != nil {
		return fmt.Errorf("close %d works: %w", len(works), err)
	}
	return nil
}
