package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/protocol/work"
)

// writer writes to one site.
type writer struct {
	*Config
	site   *bus.Site
	nodes  jetstream.Stream // of the buckets
	works  jetstream.Stream
	drives jetstream.Stream
	log    *slog.Logger
	inbox  *inbox
	linger time.Duration        // of the next entries
	done   []string             // ids of entries that are published, not yet deleted
	ahead  map[string]time.Time // entries whose writers' clocks are ahead, and since when they are seen to wait
	memory *siteMemory
	quiet  bool // the last look found nothing that is going on at the site
	lost   lost
	spells trouble.Spells // of tasks that fail
	*repairs
}

// Writing to a site crosses a WAN: many nodes at once, each bounded in time.
const (
	parallel     = 128
	writeTimeout = 10 * time.Second
)

// target is a node's keys at a site, in the group that an entry names: the node may
// have moved to another group since.
type target struct {
	id    string // of the node
	token string // bus.GroupToken of the group
}

func (t target) key() string { return t.token + "." + t.id }

// order asks for the keys of a target to be made to fit the rows.
type order struct {
	target
	// sends are the works whose own entries gave the order, with the entries' ids.
	sends map[string]string
	// repair: the site may have lost documents that it had.
	repair bool
	left   *store.Node // as the newest entry that says so has left it
	told   int         // entries that gave the order
	// What the keys held before the rows were read.
	node, work held
	unread     bool           // neither keys nor row were read: nobody has written them
	hadWork    bool           // the work's key has held something, or a marker, in an earlier attempt
	open       string         // the open work, when the rows were read
	first      *work.Document // to be sent out
	err        error          // how it went
	drive      string         // that the node's instance needs at its site
	lost       bool           // the work's document is lost
	written    bool           // … and was written again
}

// why says why the order's work is looked at, given the works that nobody has claimed.
func (o *order) why(row *store.Snapshot, waiting map[string]bool) reason {
	if row.Work == nil {
		return told
	}
	switch _, sends := o.sends[row.Work.ID]; {
	case sends:
		return sending
	case o.repair && !waiting[row.Work.ID]:
		return repairing
	}
	return told
}

// publish does what the entries ask for and returns those that are done, and how many failed:
// the others wait until what their site has lost is there again. Nodes of
// which something failed go into blocked, and entries about blocked nodes wait.
func (w *writer) publish(ctx context.Context, batch []*store.Outbox, blocked map[string]bool) (done []*store.Outbox, failed int, err error) {
	var errs []error
	for _, o := range batch {
		if o.Kind != store.OutboxDrive || blocked[o.Node] {
			continue
		}
		if err := w.putDrive(ctx, o); err != nil {
			blocked[o.Node] = true
			errs = append(errs, err)
		}
	}
	byTarget := map[target]*order{}
	var orders []*order
	for _, o := range batch {
		if o.Kind != store.OutboxNode || blocked[o.Node] {
			continue
		}
		t := target{o.Node, bus.GroupToken(o.Group)}
		if byTarget[t] == nil {
			byTarget[t] = &order{target: t}
			orders = append(orders, byTarget[t])
		}
		byTarget[t].told++
		if o.Object != "" {
			if byTarget[t].sends == nil {
				byTarget[t].sends = map[string]string{}
			}
			byTarget[t].sends[o.Object] = o.ID
		}
		if o.Left != nil {
			byTarget[t].left = o.Left
		}
	}
	if err := w.sync(ctx, orders); err != nil {
		return nil, len(batch), errors.Join(append(errs, err)...)
	}
	for _, o := range orders {
		if o.err != nil {
			blocked[o.id] = true
			errs = append(errs, o.err)
		}
	}
	for _, o := range batch {
		switch {
		case blocked[o.Node]:
			failed++
		case o.Kind == store.OutboxNode && o.Object != "" && byTarget[target{o.Node, bus.GroupToken(o.Group)}].lost:
		case o.Kind == store.OutboxDrive, o.Kind == store.OutboxNode:
			done = append(done, o)
		default:
			failed++
			// Written by a newer version of central, which will publish it.
			errs = append(errs, fmt.Errorf("outbox entry %s of node %s has the unknown kind %q", o.ID, o.Node, o.Kind))
		}
	}
	return done, failed, errors.Join(errs...)
}

func (w *writer) putDrive(ctx context.Context, o *store.Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if _, err := w.site.Drives.PutString(ctx, o.Object, o.Payload); err != nil {
		return fmt.Errorf("put config drive %s of node %s: %w", o.Object, o.Node, err)
	}
	return nil
}

// sync makes the keys of each order's target fit the rows and leaves in the order how
// that went. It fails as a whole only when the rows cannot be read, or claims not be written.
//
// The keys are read first, then the rows, and a key is written only if it still is
// what was read: so whoever comes late, even a process that stood still for minutes
// between two of these lines, does not bring back what the rows no longer say.
func (w *writer) sync(ctx context.Context, orders []*order) error {
	for attempt := range attempts {
		var known []*order
		for _, o := range orders {
			if o.unread, o.err = attempt == 0 && w.isFirst(o), nil; !o.unread {
				known = append(known, o)
			}
		}
		w.each(ctx, known, w.read)
		rows, err := w.Store.SnapshotsWith(ctx, nodesOf(known), leftOf(known))
		if err != nil {
			return err
		}
		waiting, err := w.waiting(ctx, known, rows)
		if err != nil {
			return err
		}
		w.putNodes(ctx, orders, rows)
		w.each(ctx, slices.DeleteFunc(known, func(o *order) bool { return o.err != nil }), func(ctx context.Context, o *order) error {
			return w.syncRest(ctx, o, rows[o.id], waiting)
		})
		if err := w.sendOut(ctx, orders); err != nil {
			return err
		}
		for _, o := range orders {
			if o.lost {
				w.lost.see(o, time.Now())
			} else if o.err == nil {
				delete(w.lost, o.target)
			}
		}
		orders = slices.DeleteFunc(slices.Clone(orders), func(o *order) bool { return !isRace(o.err) })
		if len(orders) == 0 {
			return nil
		}
	}
	for _, o := range orders {
		o.err = fmt.Errorf("node %s: another central wrote its keys each time: %w", o.id, o.err)
	}
	return nil
}

// isFirst reports whether an order is for a node that this replica has created a moment ago: its
// keys never held anything, and what is written is how it was created, only if that is so. Whatever became
// of it since has an entry of its own, and leaves something in the key, be it a marker: to read keys and
// rows costs as much as to write.
func (w *writer) isFirst(o *order) bool {
	n := o.left
	return n != nil && n.IsNew() && o.told == 1 && len(o.sends) == 0 && time.Since(n.CreatedAt) < w.Takeover && w.serves(o.target, &store.Snapshot{Node: n})
}

// each calls f for many orders at once and leaves its error in each.
func (w *writer) each(ctx context.Context, orders []*order, f func(context.Context, *order) error) {
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, o := range orders {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			o.err = f(ctx, o)
			return nil
		})
	}
	g.Wait() // nil: each error is its order's
}

// leftOf are the nodes that entries have brought along. What the rows say by now is for
// the store to compare, after the keys have been read.
func leftOf(orders []*order) map[string]*store.Node {
	held := map[string]*store.Node{}
	for _, o := range orders {
		if o.left != nil && (held[o.id] == nil || held[o.id].Revision < o.left.Revision) {
			held[o.id] = o.left
		}
	}
	return held
}

func nodesOf(orders []*order) []string {
	seen := map[string]bool{}
	var ids []string
	for _, o := range orders {
		if !seen[o.id] {
			seen[o.id] = true
			ids = append(ids, o.id)
		}
	}
	return ids
}

// waiting returns the works among those that orders repair, and those whose place the
// works take that orders send out, which have certainly not been sent out: their own entries
// have yet to do that, as they will. It is read after the keys and the rows: what is not among
// them may have been at the site.
func (w *writer) waiting(ctx context.Context, orders []*order, rows map[string]*store.Snapshot) (map[string]bool, error) {
	var works []string
	for _, o := range orders {
		row := rows[o.id]
		if row == nil || row.Work == nil || !w.serves(o.target, row) {
			continue
		}
		if o.repair {
			works = append(works, row.Work.ID)
		}
		if before := row.Work.Args.Supersedes; before != "" && o.work.value == nil {
			works = append(works, before)
		}
	}
	claims, last, err := w.claimsOf(ctx, works)
	if err != nil {
		return nil, err
	}
	waiting := map[string]bool{}
	for _, o := range orders {
		row := rows[o.id]
		if row == nil || row.Work == nil || !w.serves(o.target, row) {
			continue
		}
		for _, work := range []string{row.Work.ID, row.Work.Args.Supersedes} {
			_, refused := w.memory.refused[work]
			if revision, waits := claims[work]; waits && (refused || o.tells(revision, last)) {
				waiting[work] = true
			}
		}
	}
	return waiting, nil
}

// syncRest makes fit what is not the document of a node that its site serves.
func (w *writer) syncRest(ctx context.Context, o *order, row *store.Snapshot, waiting map[string]bool) error {
	if row == nil || !w.serves(o.target, row) {
		// Deleted, or moved to a group whose own entry puts it there.
		w.dropInstanceDrive(ctx, o, nil)
		return errors.Join(w.purgeWork(ctx, o), o.node.forbid(ctx, w.site, w.site.Nodes, o.key()))
	}
	pointHalf.Hit(w.site.Name)
	if err := w.syncWork(ctx, o, row, waiting); err != nil {
		return fmt.Errorf("write the work of node %s: %w", o.id, err)
	}
	return nil
}

// attempts bounds how often a key is read and written anew because somebody else got
// on in between.
const attempts = 8
