package reseal

import (
	"context"
	"errors"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// listedSteps seals the secrets among the arguments of steps of deploy templates and runbooks anew, also
// those of before arguments were sealed, and returns of how many templates and runbooks.
func listedSteps(ctx context.Context, db *store.Store, key *seal.Key) (count int, err error) {
	p := store.Page{Limit: page, SortKey: "uuid"}
	for {
		rows, err := db.DeployTemplates(ctx, p)
		if err != nil {
			return count, err
		}
		if len(rows) == 0 {
			break
		}
		p.Marker = rows[len(rows)-1].UUID
		for _, row := range rows {
			n, err := listed(ctx, db, key, row.UUID, row.Steps, func(ctx context.Context, tx *store.Tx) error {
				d, err := tx.DeployTemplate(ctx, row.UUID)
				if err != nil {
					return err
				}
				if d.Steps, err = sealedSteps(key, d.UUID, d.Steps); err != nil {
					return err
				}
				return tx.UpdateDeployTemplate(ctx, d)
			})
			if count += n; err != nil {
				return count, fmt.Errorf("seal deploy template %s again: %w", row.UUID, err)
			}
		}
	}
	p.Marker = ""
	for {
		rows, err := db.Runbooks(ctx, store.RunbookQuery{Page: p})
		if err != nil || len(rows) == 0 {
			return count, err
		}
		p.Marker = rows[len(rows)-1].UUID
		for _, row := range rows {
			n, err := listed(ctx, db, key, row.UUID, row.Steps, func(ctx context.Context, tx *store.Tx) error {
				r, err := tx.Runbook(ctx, row.UUID)
				if err != nil {
					return err
				}
				if r.Steps, err = sealedSteps(key, r.UUID, r.Steps); err != nil {
					return err
				}
				return tx.UpdateRunbook(ctx, r)
			})
			if count += n; err != nil {
				return count, fmt.Errorf("seal runbook %s again: %w", row.UUID, err)
			}
		}
	}
}

// listed runs update unless the steps are as they should be, and returns 1 where it has.
func listed(ctx context.Context, db *store.Store, key *seal.Key, id string, steps []store.ListedStep, update func(context.Context, *store.Tx) error) (int, error) {
	current := true
	for _, s := range steps {
		current = current && key.CurrentArgs(s.Label(id), s.Args)
	}
	if current {
		return 0, nil
	}
	err := db.Update(ctx, update)
	if errors.Is(err, store.ErrNotFound) { // deleted meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// sealedSteps are the steps of the template or runbook of that id, sealed anew.
func sealedSteps(key *seal.Key, id string, steps []store.ListedStep) ([]store.ListedStep, error) {
	out := make([]store.ListedStep, len(steps))
	for i, s := range steps {
		args, err := key.OpenArgs(s.Label(id), s.Args)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name(), err)
		}
		if s.Args, err = key.SealArgs(s.Label(id), args); err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name(), err)
		}
		out[i] = s
	}
	return out, nil
}
