package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store"
)

type eventCommand struct {
	List  listEvents `cmd:"" help:"List the events of racks that were set aside, because the database refuses them or they cannot be read."`
	Show  showEvent  `cmd:"" help:"Print one event as the rack sent it."`
	Apply applyEvent `cmd:"" help:"Apply one event after its cause is gone, and remove it from the list. If it ends an inspection, give the inspection flags of 'serve' too."`
	Drop  dropEvent  `cmd:"" help:"Delete one event. What it reports is lost."`
}

type listEvents struct {
	database
	JSON bool `help:"Print JSON, one object on each line." name:"json"`
}

// setAside is a line of the list.
type setAside struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Site   string    `json:"site"`
	Node   string    `json:"node"`
	Kind   string    `json:"kind,omitempty"`
	Reason string    `json:"reason"`
	Error  string    `json:"error"`
	Bytes  int       `json:"bytes"`
}

// Run is called by kong.
func (c *listEvents) Run(ctx context.Context, out io.Writer) error {
	return withUsed(ctx, c.Database, func(db *store.Store) error {
		var list []setAside
		for after, more := "", true; more; {
			page, err := db.SetAsides(ctx, after, pageOfEvents)
			if err != nil {
				return err
			}
			for _, a := range page {
				after = a.ID
				list = append(list, setAside{a.ID, a.At, a.Site, a.Node, a.Kind, a.Reason, a.Error, len(a.Body)})
			}
			more = len(page) == pageOfEvents
		}
		slices.SortFunc(list, func(a, b setAside) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
		if c.JSON {
			lines := json.NewEncoder(out)
			for _, a := range list {
				if err := lines.Encode(a); err != nil {
					return err
				}
			}
			return nil
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tSINCE\tSITE\tNODE\tKIND\tREASON\tBYTES\tERROR")
		for _, a := range list {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", a.ID, a.At.Format(time.DateTime), cmp.Or(a.Site, "-"), a.Node, cmp.Or(a.Kind, "-"), a.Reason, a.Bytes, a.Error)
		}
		return table.Flush()
	})
}

// pageOfEvents is how many events are read at once: each may have a megabyte.
const pageOfEvents = 32

// withUsed opens the database of a central for f, and closes it.
func withUsed(ctx context.Context, address string, f func(*store.Store) error) error {
	db, err := openUsed(ctx, address, false)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

type oneEvent struct {
	database
	ID string `arg:"" help:"Id of the event, as 'central event list' shows it."`
}

type showEvent struct{ oneEvent }

// Run is called by kong.
func (c *showEvent) Run(ctx context.Context, out io.Writer) error {
	return withUsed(ctx, c.Database, func(db *store.Store) error {
		a, err := db.SetAside(ctx, c.ID)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", a.Body)
		return err
	})
}

type applyEvent struct {
	oneEvent
	keyFile
	inspectionFlags
}

// Run is called by kong.
func (c *applyEvent) Run(ctx context.Context, log *slog.Logger) error {
	key, err := c.key(log)
	if err != nil {
		return err
	}
	inspection, err := c.processor()
	if err != nil {
		return err
	}
	return withUsed(ctx, c.Database, func(db *store.Store) error {
		a, err := db.SetAside(ctx, c.ID)
		if err != nil {
			return err
		}
		in := ingest.New(ingest.Config{Store: db, Key: key, Inspection: inspection, Metrics: metrics.New(db.Statements), Log: log})
		what, err := in.Replay(ctx, a)
		if err != nil {
			return err
		}
		if what != ingest.Applied {
			return fmt.Errorf("event %s would change nothing now (%s): delete it with 'central event drop'", c.ID, what)
		}
		log.Info("event applied, and forgotten here", "event", c.ID, "node", a.Node, "kind", a.Kind)
		return nil
	})
}

type dropEvent struct{ oneEvent }

// Run is called by kong.
func (c *dropEvent) Run(ctx context.Context, log *slog.Logger) error {
	return withUsed(ctx, c.Database, func(db *store.Store) error {
		err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.DropSetAside(ctx, c.ID) })
		if err == nil {
			log.Info("event forgotten", "event", c.ID)
		}
		return err
	})
}
