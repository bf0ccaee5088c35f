package groupkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Bound is for how long a stage waits for rackds, or for work: rackds renew daily, some hours more or less.
const Bound = 27 * time.Hour

const (
	// lookEvery is how often the keeper looks at the replacements.
	lookEvery = 5 * time.Second
	// settled is when no replica of central seals with numbers of before any more.
	settled = believed + 5*time.Second
	// committed is how long after its request, at most, a piece of work is in the database.
	committed = time.Minute
	// countEvery is how often the row is told for how long its stage has been watched.
	countEvery = 5 * time.Minute
	// page is how many rows are read at once, and batch how many nodes one transaction publishes.
	page, batch = 1000, 250
)

// Keeper moves replacements on. Each replica of central may run one.
type Keeper struct {
	Store *store.Store
	Keys  *Keys
	Log   *slog.Logger
	// Rackds are those that live, of all sites.
	Rackds func() []bus.Member
	// Failover returns the groups that stand in for a group by central's configuration; nil: there is no other way than membership.
	Failover func(group string) []string
	// Away says why the rackds of a group are not known; nil: they are.
	Away   func(group string) error
	SiteOf func(group string) string
	Pace
	Now func() time.Time // nil: time.Now

	told   map[string]string // what it waits for, by group
	stages map[string]*stay
}

// stay is a stage of a group's replacement, as this keeper has seen it. Times in rows are of other replicas' clocks: a stage is as old as
// its keepers have watched it, and what it waits for is what was there then. A keeper that begins again goes on from what the row says.
type stay struct {
	row    store.GroupKey
	before time.Duration // for how long the stage had been watched by then, as the row said
	since  time.Time
	works  map[string]bool // those that were open when all of before were in the database, by id; nil: not read yet
}

// stay returns how the keeper has seen a stage.
func (k *Keeper) stay(g *store.GroupKey) *stay {
	s := k.stages[g.Group]
	if s == nil || s.row.Stage != g.Stage || s.row.Newest != g.Newest {
		s = &stay{row: *g, before: counted(g), since: k.Now()}
		k.stages[g.Group] = s
	}
	return s
}

// age is for how long a stage has been watched, by this keeper or another.
func (k *Keeper) age(g *store.GroupKey) time.Duration {
	s := k.stay(g)
	return max(s.before+k.Now().Sub(s.since), counted(g))
}

// count has the row tell for how long its stage has been watched, for keepers that begin later. No keeper says more than has passed, so the
// most that one says counts.
func (k *Keeper) count(ctx context.Context, seen *store.GroupKey) error {
	age := k.age(seen)
	if age-counted(seen) < countEvery {
		return nil
	}
	return k.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		g, err := tx.GroupKey(ctx, seen.Group)
		if err != nil || stageOf(g) != stageOf(seen) || counted(g) >= age {
			return err
		}
		g.Counted, g.CountedOf = int64(age/time.Second), stageOf(g)
		return tx.PutGroupKey(ctx, g)
	})
}

// Pace is how fast replacements go on; 0: as usual. Tests are faster.
type Pace struct {
	// Every is how often the keeper looks.
	Every time.Duration
	// Settled is how long the stage sealing takes: then no replica of central seals with numbers of before.
	Settled time.Duration
	// Committed is how long after its request, at most, a piece of work is in the database.
	Committed time.Duration
}

// withDefaults fills in what is not given.
func (p Pace) withDefaults() Pace {
	return Pace{cmp.Or(p.Every, lookEvery), cmp.Or(p.Settled, settled), cmp.Or(p.Committed, committed)}
}

// Run moves replacements on until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.prepare()
	tick := time.NewTicker(k.Every)
	defer tick.Stop()
	for {
		if err := k.look(ctx); err != nil && ctx.Err() == nil {
			k.Log.Warn("replacement of conductor groups' keys: trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (k *Keeper) prepare() {
	k.Pace, k.told, k.stages = k.withDefaults(), map[string]string{}, map[string]*stay{}
	if k.Now == nil {
		k.Now = time.Now
	}
}

// look looks at each replacement once.
func (k *Keeper) look(ctx context.Context) error {
	rows, err := k.Store.GroupKeys(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range rows {
		if g.Stage == "" {
			continue
		}
		why, err := k.waits(ctx, g)
		switch {
		case err == nil && why == "":
			err = k.moveOn(ctx, g)
		case err == nil:
			err = k.count(ctx, g)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key of conductor group %q, stage %q: %w", g.Group, g.Stage, err))
		}
		if said := g.Stage + why; err == nil && why != "" && k.told[g.Group] != said {
			k.told[g.Group] = said
			k.Log.Info("a conductor group's key is being replaced", "group", g.Group, "stage", g.Stage, "waits_for", why, "since", g.BeganAt)
		}
	}
	return errors.Join(errs...)
}

// waits says what the group's stage waits for; empty if it is over.
func (k *Keeper) waits(ctx context.Context, g *store.GroupKey) (string, error) {
	seen, age := k.stay(g), k.age(g)
	if g.Stage == Sealing {
		if age < k.Settled {
			return Waits(Sealing), nil
		}
		return "", nil
	}
	if g.Hastened != 0 {
		return "", nil
	}
	if g.Stage == Ending {
		if age >= Bound {
			return "", nil
		}
		return k.unfinished(ctx, seen, age)
	}
	if err := k.Away(g.Group); err != nil {
		return "the site: " + err.Error(), nil
	}
	if g.Stage == Publishing && age < Bound {
		if why, err := k.unpublished(ctx, g); why != "" || err != nil {
			return why, err
		}
	}
	return k.rackds(ctx, g, age >= Bound)
}

// rackds says which of the group's rackds the stage waits for. When it is overdue it waits only for one
// that has the key that central is to seal with.
func (k *Keeper) rackds(ctx context.Context, g *store.GroupKey, overdue bool) (string, error) {
	living, err := k.living(ctx, g.Group)
	if err != nil {
		return "", err
	}
	newest, err := k.Keys.fleet.ForGroupAt(g.Group, uint64(g.Newest))
	if err != nil {
		return "", err
	}
	all, err := Derive(k.Keys.fleet, g)
	if err != nil {
		return "", err
	}
	var late []string
	for _, m := range living {
		if !ready(g.Stage, m.Keys[g.Group], newest, all) {
			late = append(late, m.Name)
		}
	}
	switch {
	case len(late) == 0, overdue && g.Stage != HandingOut, overdue && len(late) < len(living):
		return "", nil
	}
	return fmt.Sprintf("rackds %q, %s", late, Waits(g.Stage)), nil
}

// ready reports whether a rackd with keys of these ids has done what the stage waits for.
func ready(stage string, ids []string, newest, all *seal.Key) bool {
	switch stage {
	case HandingOut:
		return !slices.ContainsFunc(newest.IDs(), func(id string) bool { return !slices.Contains(ids, id) })
	case Publishing:
		return len(ids) > 0 && ids[0] == all.ID()
	}
	return slices.Equal(ids, all.IDs())
}

// living are the live rackds that have a key of the group, or are to have it: of the group, and those that stand in for it and
// say that they have one. What the others say is not heard: a stolen rackd of another group would hold each stage up. A member
// that was revoked may go on saying so for as long as its site's servers let it.
func (k *Keeper) living(ctx context.Context, group string) (list []bus.Member, err error) {
	members, err := k.Store.SiteMembers(ctx, k.SiteOf(group))
	if err != nil {
		return nil, err
	}
	ended, standsIn := map[string]bool{}, map[string]bool{}
	for _, m := range members {
		if name := m.Scope.Name; m.Scope.Role == join.Rackd {
			before, known := ended[name]
			ended[name] = !m.EndedAt.IsZero() && (before || !known)
			standsIn[name] = standsIn[name] || m.EndedAt.IsZero() && among(m.Scope.FailoverOf, group)
		}
	}
	var failover []string
	if k.Failover != nil {
		failover = k.Failover(group)
	}
	for _, m := range k.Rackds() {
		_, has := m.Keys[group]
		name := strings.ToLower(m.Name)
		has = has && (standsIn[name] || among(failover, m.Group))
		if (has || strings.EqualFold(m.Group, group)) && !ended[name] {
			list = append(list, m)
		}
	}
	return list, nil
}

func among(groups []string, group string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return strings.EqualFold(g, group) })
}

// unpublished says that the site waits for documents of before the stage began; empty if it does not.
func (k *Keeper) unpublished(ctx context.Context, g *store.GroupKey) (string, error) {
	waiting, err := k.Store.OutboxBacklog(ctx)
	if err != nil {
		return "", err
	}
	for _, b := range waiting {
		if b.Site == k.SiteOf(g.Group) && !b.Oldest.After(g.StageAt) {
			return fmt.Sprintf("%d entries of the outbox for site %q, the oldest of %s", b.Entries, b.Site, b.Oldest.Format(time.RFC3339)), nil
		}
	}
	return "", nil
}

// unfinished says that work goes on that began before all sealed with the new generation; empty if not. Work that began a little later is
// waited for, too.
func (k *Keeper) unfinished(ctx context.Context, seen *stay, age time.Duration) (string, error) {
	if age < k.Committed {
		return Waits(Ending), nil
	}
	open := map[string]bool{}
	for after := ""; ; {
		works, err := k.Store.OpenWorks(ctx, after, page)
		if err != nil {
			return "", err
		}
		for _, w := range works {
			after = w.Node
			if strings.EqualFold(w.Group, seen.row.Group) && (seen.works == nil || seen.works[w.ID]) {
				open[w.ID] = true
			}
		}
		if len(works) < page {
			break
		}
	}
	if seen.works = open; len(open) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d pieces of work that began under the old key", len(open)), nil
}

// moveOn begins the next stage, unless another replica has, or the replacement has begun once more.
func (k *Keeper) moveOn(ctx context.Context, seen *store.GroupKey) error {
	if seen.Stage == Sealing {
		if err := k.publish(ctx, seen.Group); err != nil {
			return err
		}
	}
	moved := false
	err := k.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		g, err := tx.GroupKey(ctx, seen.Group)
		if moved = err == nil && g.Stage == seen.Stage && g.Newest == seen.Newest; !moved {
			return err
		}
		switch g.Stage {
		case HandingOut:
			g.Sealing = g.Newest
			move(g, Sealing, k.Now())
		case Sealing:
			move(g, Publishing, k.Now())
		case Publishing:
			move(g, Ending, k.Now())
		case Ending:
			g.Oldest = g.Newest
			move(g, Withdrawing, k.Now())
		default:
			move(g, "", k.Now())
		}
		seen = g
		return tx.PutGroupKey(ctx, g)
	})
	if err == nil && moved {
		k.stay(seen)
		k.Log.Info("a conductor group's key is being replaced", "group", seen.Group, "stage", seen.Stage, "done", seen.Stage == "", "since", seen.BeganAt)
	}
	return err
}

// publish has the relay look at all nodes of a group: it writes those whose documents are not sealed with
// the newest generation.
func (k *Keeper) publish(ctx context.Context, group string) error {
	for after := ""; ; {
		keys, err := k.Store.NodeKeys(ctx, after, page)
		if err != nil || len(keys) == 0 {
			return err
		}
		after = keys[len(keys)-1].UUID
		keys = slices.DeleteFunc(keys, func(n store.NodeKey) bool { return !strings.EqualFold(n.Group, group) })
		for part := range slices.Chunk(keys, batch) {
			var entries []*store.Outbox
			for _, n := range part {
				entries = append(entries, &store.Outbox{Kind: store.OutboxNode, Node: n.UUID, Group: n.Group})
			}
			if err := k.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return tx.Enqueue(ctx, entries...) }); err != nil {
				return err
			}
		}
	}
}
