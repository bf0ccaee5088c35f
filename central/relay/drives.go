package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/seal"
)

// drives is what is remembered of a site's config drives. Other than in the buckets, their number falls when
// works end. So a loss shows by the stream, or by a rackd that misses a drive.
type drives struct {
	stream   witness
	known    bool
	missed   bool      // a rackd misses something
	due      bool      // the drives of open works must be looked for
	compared time.Time // when they last were
}

// drivesEvery is how often rackds that miss something have all config drives of open works looked for at most.
const drivesEvery = 5 * time.Second

// lookForDrives writes again the config drives that open works name and the site has lost.
func (w *writer) lookForDrives(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	info, err := w.drives.Info(ctx)
	if err != nil {
		return err
	}
	m, now, began := &w.memory.drives, witnessOf(info), time.Now()
	if m.known && (!now.created.Equal(m.stream.created) || now.last < m.stream.last) {
		w.log.Warn("the site has lost config drives; those of open works are written again", "created", now.created, "revision", now.last, "was", m.stream.last)
		m.due = true
	}
	m.stream, m.known = now, true
	missed := m.missed && began.Sub(m.compared) >= drivesEvery
	if m.due = m.due || missed || began.Sub(m.compared) >= w.Reconcile; !m.due {
		return nil
	}
	m.missed = m.missed && !missed
	if err := w.compareDrives(ctx); err != nil {
		return err
	}
	m.due, m.compared = false, began
	return nil
}

func (w *writer) compareDrives(ctx context.Context) error {
	for after, more := "", true; more; {
		page, err := w.Store.OpenWorks(ctx, after, pageSize)
		if err != nil {
			return err
		}
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, row := range page {
			after = row.Node
			if name := row.Args.ConfigDrive; name != "" && w.SiteOf(row.Group) == w.site.Name {
				g.Go(func() error { return w.restoreDrive(ctx, row) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		more = len(page) == pageSize
	}
	return nil
}

// restoreDrive writes the config drive of an open work if the site does not have it. It may be on its way
// from the outbox: then it is written twice, alike.
func (w *writer) restoreDrive(ctx context.Context, row *store.Work) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	name := row.Args.ConfigDrive
	if _, err := w.site.Drives.GetInfo(ctx, name); !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	sealed, err := w.drive(ctx, row)
	if errors.Is(err, store.ErrNotFound) {
		w.log.Warn("a work's config drive is at neither its site nor in the database; the work will fail when it needs it", "node", row.Node, "work", row.ID)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := w.site.Drives.PutString(ctx, name, sealed); err != nil {
		return fmt.Errorf("put config drive %s of node %s again: %w", name, row.Node, err)
	}
	w.Metrics.Repaired.WithLabelValues(w.site.Name).Inc()
	w.log.Warn("the site had lost a config drive; it is written again", "node", row.Node, "work", row.ID)
	return w.keepIfOpen(ctx, row)
}

// drive is the config drive that a work's node keeps, sealed as dispatch seals it.
func (w *writer) drive(ctx context.Context, row *store.Work) (string, error) {
	var kept *store.ConfigDrive
	err := w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		kept, err = tx.ConfigDrive(ctx, row.Node)
		return err
	})
	if err != nil {
		return "", err
	}
	plain, err := w.Key.Open(seal.Label{Kind: seal.StoredDrive, Of: row.Node}, kept.Drive)
	if err != nil {
		return "", fmt.Errorf("open the config drive that node %s keeps: %w", row.Node, err)
	}
	key, err := w.Groups.ForGroup(row.Group)
	if err != nil {
		return "", fmt.Errorf("seal the config drive of node %s: %w", row.Node, err)
	}
	return key.Seal(seal.Label{Kind: seal.SentDrive, Of: row.Node, Work: row.Args.ConfigDrive}, plain), nil
}

// keepIfOpen removes a drive again whose work has ended while the drive was written: the purge of the work's
// document, which removes drives, may have come before.
func (w *writer) keepIfOpen(ctx context.Context, row *store.Work) error {
	now, err := w.Store.Snapshots(ctx, []string{row.Node})
	if err != nil {
		return err
	}
	if s := now[row.Node]; s != nil && s.Work != nil && s.Work.Args.ConfigDrive == row.Args.ConfigDrive {
		return nil
	}
	if err := w.site.Drives.Delete(ctx, row.Args.ConfigDrive); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		w.log.Warn("the config drive of work that has ended is not removed from the site; it goes by itself later", "node", row.Node,
			"drive", row.Args.ConfigDrive, "after", bus.DrivesMaxAge, "error", err)
	}
	return nil
}
