package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// pageSize is how many rows are read at once.
const pageSize = 1000

// listing is what commands that list the fleet have alike. They read the database as it is,
// and need no key: nothing that they show is sealed.
type listing struct {
	database
	All  bool `help:"Include entries that have ended."`
	JSON bool `help:"Print JSON, one object on each line." name:"json"`
}

// shown is a row of such a list; times that have not come are left out.
type shown struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Scope     join.Scope `json:"scope"`
	Since     time.Time  `json:"since,omitzero"`
	RenewedAt time.Time  `json:"renewed_at,omitzero"`
	ExpiresAt time.Time  `json:"expires_at,omitzero"`
	Member    string     `json:"member,omitempty"` // whom a token has made
}

// print reads the rows page by page and prints those that open lets be seen. What below prints follows a table.
func (l listing) print(ctx context.Context, out io.Writer, below func(context.Context, io.Writer, *store.Store) error, page func(ctx context.Context, db *store.Store, after string) ([]shown, error), open ...string) (err error) {
	db, err := openUsed(ctx, l.Database, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !l.JSON {
		fmt.Fprintln(table, "ROLE\tNAME\tSITE\tGROUP\tSTATE\tSINCE\tEXPIRES\tID")
	}
	lines := json.NewEncoder(out)
	for after, more := "", true; more; {
		rows, err := page(ctx, db, after)
		if err != nil {
			return err
		}
		for _, r := range rows {
			after = r.ID
			switch {
			case !l.All && !slices.Contains(open, r.State):
			case l.JSON:
				if err := lines.Encode(r); err != nil {
					return err
				}
			default:
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Scope.Role, cmp.Or(r.Scope.Name, "-"), cmp.Or(r.Scope.Site, "-"), cmp.Or(r.Scope.Group, "-"),
					r.State, r.Since.Format(time.DateTime), r.ExpiresAt.Format(time.DateTime), r.ID)
			}
		}
		more = len(rows) == pageSize
	}
	if err := table.Flush(); err != nil || l.JSON {
		return err
	}
	return below(ctx, out, db)
}

type listMembers struct{ listing }

// Run is called by kong.
func (c *listMembers) Run(ctx context.Context, out io.Writer) error {
	return c.print(ctx, out, beingReplaced, func(ctx context.Context, db *store.Store, after string) ([]shown, error) {
		members, err := db.Members(ctx, after, pageSize)
		list := make([]shown, len(members))
		for i, m := range members {
			list[i] = shown{ID: m.ID, State: "member", Scope: m.Scope, Since: m.JoinedAt.UTC(), RenewedAt: utc(m.RenewedAt), ExpiresAt: m.ExpiresAt.UTC()}
			switch {
			case !m.EndedAt.IsZero():
				list[i].State = "ended"
			case time.Now().After(m.ExpiresAt):
				list[i].State = "expired" // it has not renewed: it joins again, or is dead
			}
		}
		return list, err
	}, "member", "expired")
}

type listTokens struct{ listing }

// Run is called by kong.
func (c *listTokens) Run(ctx context.Context, out io.Writer) error {
	nothing := func(context.Context, io.Writer, *store.Store) error { return nil }
	return c.print(ctx, out, nothing, func(ctx context.Context, db *store.Store, after string) ([]shown, error) {
		tokens, err := db.JoinTokens(ctx, after, pageSize)
		list := make([]shown, len(tokens))
		for i, t := range tokens {
			list[i] = shown{ID: t.ID, State: "open", Scope: t.Scope, Since: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC(), Member: t.Member}
			switch {
			case !t.UsedAt.IsZero():
				list[i].State = "used"
			case !t.RevokedAt.IsZero():
				list[i].State = "revoked"
			case time.Now().After(t.ExpiresAt):
				list[i].State = "expired"
			}
		}
		return list, err
	}, "open")
}

// utc keeps the zero time.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}
