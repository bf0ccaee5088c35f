package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/store"
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

// lookForDrives writes again the config drives that open works name and the site has lost. Only open
// work needs one: without any the site is not asked.
func (w *writer) lookForDrives(ctx context.Context) error {
	if m := &w.memory.drives; w.quiet && m.known && !m.missed && !m.due {
		return nil
	}
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
				g.Go(func() error { return w.restoreDrive(ctx, row.Node, row.Group, name) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		more = len(page) == pageSize
	}
	return w.compareInstanceDrives(ctx)
}

// compareInstanceDrives writes again the config drives that machines of instances read and the site has lost: they lie there for as long as
// the instance is there, which may be longer than the site keeps them.
func (w *writer) compareInstanceDrives(ctx context.Context) error {
	for after, more := "", true; more; {
		page, err := w.Store.InstanceDrives(ctx, after, pageSize)
		if err != nil {
			return err
		}
		rows, err := w.Store.Snapshots(ctx, page)
		if err != nil {
			return err
		}
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, id := range page {
			after = id
			row := rows[id]
			if row == nil || w.SiteOf(row.Node.ConductorGroup) != w.site.Name {
				continue
			}
			if name := instanceDrive(row.Node); name != "" {
				g.Go(func() error { return w.restoreDrive(ctx, id, row.Node.ConductorGroup, name) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		more = len(page) == pageSize
	}
	return nil
}

// restoreDrive writes the config drive of an open work or of an instance if the site does not have it. It may be on its way
// from the outbox: then it is written twice, alike.
func (w *writer) restoreDrive(ctx context.Context, id, group, name string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := w.site.Drives.GetInfo(ctx, name); !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	sealed, err := w.drive(ctx, id, group, name)
	if errors.Is(err, store.ErrNotFound) {
		w.log.Warn("a config drive is at neither its site nor in the database; the work, or the instance's machine, will do without or fail", "node", id, "drive", name)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := w.site.Drives.PutString(ctx, name, sealed); err != nil {
		return fmt.Errorf("put config drive %s of node %s again: %w", name, id, err)
	}
	w.Metrics.Repaired.WithLabelValues(w.site.Name).Inc()
	w.log.Warn("the site had lost a config drive; it is written again", "node", id, "drive", name)
	return w.keepIfNeeded(ctx, id, name)
}

// drive is the config drive that a node keeps, sealed as dispatch seals it for the work of that name.
func (w *writer) drive(ctx context.Context, id, group, name string) (string, error) {
	var kept *store.ConfigDrive
	err := w.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		kept, err = tx.ConfigDrive(ctx, id)
		return err
	})
	if err != nil {
		return "", err
	}
	plain, err := w.Key.Open(seal.Label{Kind: seal.StoredDrive, Of: id}, kept.Drive)
	if err != nil {
		return "", fmt.Errorf("open the config drive that node %s keeps: %w", id, err)
	}
	key, err := w.Groups.ForGroup(group)
	if err != nil {
		return "", fmt.Errorf("seal the config drive of node %s: %w", id, err)
	}
	return key.Seal(seal.Label{Kind: seal.SentDrive, Of: id, Work: name}, plain), nil
}

// keepIfNeeded removes a drive again whose work or instance has ended while the drive was written: what removes drives may have come
// before.
func (w *writer) keepIfNeeded(ctx context.Context, id, name string) error {
	now, err := w.Store.Snapshots(ctx, []string{id})
	if err != nil {
		return err
	}
	if s := now[id]; s != nil && (s.Work != nil && s.Work.Args.ConfigDrive == name || instanceDrive(s.Node) == name) {
		return nil
	}
	w.removeDrive(ctx, id, name)
	return nil
}
