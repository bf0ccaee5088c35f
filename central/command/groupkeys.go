package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/store"
)

// listKeys reads the database as it is, and needs no key: it shows numbers.
type listKeys struct {
	database
	JSON bool `help:"Print JSON, one object on each line." name:"json"`
}

// shownKey is a row of that list.
type shownKey struct {
	Group string `json:"group"`
	// Generation is the one that central seals with; Newest is handed out, Oldest still opens.
	Generation int64     `json:"generation"`
	Newest     int64     `json:"newest"`
	Oldest     int64     `json:"oldest"`
	Stage      string    `json:"stage,omitempty"`
	WaitsFor   string    `json:"waits,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Began      time.Time `json:"began,omitzero"`
}

func shownKeys(ctx context.Context, db *store.Store) (list []shownKey, err error) {
	rows, err := db.GroupKeys(ctx)
	for _, g := range rows {
		list = append(list, shownKey{Group: g.Group, Generation: g.Sealing, Newest: g.Newest, Oldest: g.Oldest, Stage: g.Stage, WaitsFor: groupkeys.Waits(g.Stage),
			Since: utc(g.StageAt), Began: utc(g.BeganAt)})
	}
	return list, err
}

// Run is called by kong.
func (c *listKeys) Run(ctx context.Context, out io.Writer) (err error) {
	db, err := openUsed(ctx, c.Database, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	list, err := shownKeys(ctx, db)
	if err != nil {
		return err
	}
	table, lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), json.NewEncoder(out)
	if !c.JSON {
		fmt.Fprintln(table, "GROUP\tGENERATION\tNEWEST\tOLDEST\tSTAGE\tSINCE\tWAITS")
	}
	for _, k := range list {
		if c.JSON {
			if err := lines.Encode(k); err != nil {
				return err
			}
			continue
		}
		stage, waits := k.Stage, k.WaitsFor
		if stage == "" {
			stage, waits = "replaced", "-"
		}
		fmt.Fprintf(table, "%q\t%d\t%d\t%d\t%s\t%s\t%s\n", k.Group, k.Generation, k.Newest, k.Oldest, stage, k.Since.Format(time.DateTime), waits)
	}
	return table.Flush()
}

// beingReplaced prints a line for each group whose key is being replaced.
func beingReplaced(ctx context.Context, out io.Writer, db *store.Store) error {
	list, err := shownKeys(ctx, db)
	for _, k := range list {
		if k.Stage == "" || err != nil {
			continue
		}
		_, err = fmt.Fprintf(out, "# the key of conductor group %q has been under replacement since %s; stage %q, %s\n", k.Group, k.Began.Format(time.DateTime), k.Stage, k.WaitsFor)
	}
	return err
}

type replaceKey struct {
	database
	Group string `arg:"" help:"Conductor group of this rackd. An empty string means the group without a name."`
}

// Run is called by kong.
func (c *replaceKey) Run(ctx context.Context, out io.Writer) (err error) {
	db, err := openUsed(ctx, c.Database, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return groupkeys.Begin(ctx, tx, c.Group, time.Now()) })
	if err != nil {
		return err
	}
	return beingReplaced(ctx, out, db)
}

type hastenKey struct {
	database
	Group string `arg:"" help:"Conductor group of this rackd. An empty string means the group without a name."`
}

// Run is called by kong.
func (c *hastenKey) Run(ctx context.Context, out io.Writer) (err error) {
	db, err := openUsed(ctx, c.Database, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	stage, err := groupkeys.Hasten(ctx, db, c.Group)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the key of conductor group %q: stage %q waits no longer %s\n", c.Group, stage, groupkeys.Waits(stage))
	return err
}
