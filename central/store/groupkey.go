package store

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// GroupKey is a row of group_keys: which generations of a conductor group's key count, and how far
// the replacement of the key has come. A group without a row has generation 0 alone. The row holds
// numbers and no key: central/groupkeys derives the keys and says what the stages are.
type GroupKey struct {
	Group string // in lower case
	// Newest is the generation that is handed out last, Sealing the one that central seals with, and
	// Oldest the first that still opens.
	Newest, Sealing, Oldest int64
	Stage                   string    // empty: the key is not being replaced
	StageAt                 time.Time // when the stage began
	BeganAt                 time.Time // when the replacement began
	// Hastened is 1 where an operator does not want the present stage to wait for anything.
	Hastened int64
	// Counted is for how many seconds a replica has watched the stage that CountedOf names, at least. A replica of an older program
	// moves the stage on and leaves the two.
	Counted   int64
	CountedOf string
}

var groupKeyColumns = []column[GroupKey]{
	{"conductor_group", key, func(g *GroupKey) any { return &g.Group }},
	{"newest", intent, func(g *GroupKey) any { return &g.Newest }},
	{"sealing", intent, func(g *GroupKey) any { return &g.Sealing }},
	{"oldest", intent, func(g *GroupKey) any { return &g.Oldest }},
	{"stage", intent, func(g *GroupKey) any { return &g.Stage }},
	{"stage_at", intent, func(g *GroupKey) any { return &g.StageAt }},
	{"began_at", intent, func(g *GroupKey) any { return &g.BeganAt }},
	{"hastened", intent, func(g *GroupKey) any { return &g.Hastened }},
	{"counted", intent, func(g *GroupKey) any { return &g.Counted }},
	{"counted_of", intent, func(g *GroupKey) any { return &g.CountedOf }},
}

var (
	selectGroupKeys = "SELECT " + names(groupKeyColumns, "g.") + " FROM group_keys g"
	selectGroupKey  = register(selectGroupKeys + " WHERE g.conductor_group = $1")
	pageGroupKeys   = register(selectGroupKeys + " WHERE g.conductor_group >= $1 ORDER BY g.conductor_group")
	upsertGroupKey  = register("INSERT INTO group_keys (" + names(groupKeyColumns, "") + ") VALUES (" + placeholders(1, len(groupKeyColumns)) + ") " +
		"ON CONFLICT (conductor_group) DO UPDATE SET newest = excluded.newest, sealing = excluded.sealing, oldest = excluded.oldest, " +
		"stage = excluded.stage, stage_at = excluded.stage_at, began_at = excluded.began_at, hastened = excluded.hastened, counted = excluded.counted, counted_of = excluded.counted_of")
)

func readGroupKeys(ctx context.Context, c conn, stmt, group string) ([]*GroupKey, error) {
	var list []*GroupKey
	r, err := c.query(ctx, stmt, group)
	err = scanAll(r, err, func(r rows) error {
		g := new(GroupKey)
		list = append(list, g)
		return r.Scan(fields(groupKeyColumns, g)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read keys of conductor groups: %w", err)
	}
	return list, nil
}

// GroupKeys returns all rows, in order of the group: as many as groups had their key replaced.
func (s *Store) GroupKeys(ctx context.Context) ([]*GroupKey, error) {
	return readGroupKeys(ctx, s.engine, pageGroupKeys, "")
}

// GroupKey returns a group's row; that of a group without one is zero but for its name.
func (s *Store) GroupKey(ctx context.Context, group string) (*GroupKey, error) {
	return oneGroupKey(ctx, s.engine, group)
}

// GroupKey is Store.GroupKey as the transaction sees it.
func (tx *Tx) GroupKey(ctx context.Context, group string) (*GroupKey, error) {
	return oneGroupKey(ctx, tx.conn, group)
}

func oneGroupKey(ctx context.Context, c conn, group string) (*GroupKey, error) {
	group = strings.ToLower(group)
	list, err := readGroupKeys(ctx, c, selectGroupKey, group)
	if err != nil || len(list) > 0 {
		return append(list, nil)[0], err
	}
	return &GroupKey{Group: group}, nil
}

// PutGroupKey writes a group's row, which the transaction has read.
func (tx *Tx) PutGroupKey(ctx context.Context, g *GroupKey) error {
	if _, err := tx.conn.exec(ctx, upsertGroupKey, fields(groupKeyColumns, g)...); err != nil {
		return fmt.Errorf("write the key's generations of conductor group %q: %w", g.Group, err)
	}
	return nil
}
