package groupkeys

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

const (
	// readEvery is how often the numbers are read, and readTimeout bounds that.
	readEvery   = time.Second
	readTimeout = 5 * time.Second
	// believed is for how long numbers count that were read: a replica that cannot read them seals
	// nothing for racks.
	believed = 30 * time.Second
)

// Keys are the keys of all conductor groups, as the database's numbers say. It is safe for concurrent use.
type Keys struct {
	fleet *seal.Key
	store *store.Store

	mu      sync.Mutex
	read    time.Time // before the rows were read
	rows    map[string]store.GroupKey
	derived map[string]*seal.Key // from rows, by group as it was asked for
	changed chan struct{}
}

// maxDerived bounds what is remembered of groups without a row.
const maxDerived = 4096

// Open reads the numbers. The keys are derived from fleet. They stay what they are until Run.
func Open(ctx context.Context, db *store.Store, fleet *seal.Key) (*Keys, error) {
	k := &Keys{fleet: fleet, store: db, derived: map[string]*seal.Key{}, changed: make(chan struct{})}
	return k, k.refresh(ctx)
}

// Run keeps the numbers up to date until ctx ends.
func (k *Keys) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := k.refresh(ctx); err != nil && ctx.Err() == nil {
			log.Warn("generations of the conductor groups' keys not read, trying again", "error", err)
		}
	}
}

func (k *Keys) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := time.Now()
	list, err := k.store.GroupKeys(ctx)
	if err != nil {
		return err
	}
	rows := map[string]store.GroupKey{}
	for _, g := range list {
		row := *g
		row.Counted, row.CountedOf = 0, "" // no number of a generation
		rows[g.Group] = row
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if began.Before(k.read) {
		return nil // others have read them since
	}
	if !maps.Equal(rows, k.rows) {
		close(k.changed)
		k.changed = make(chan struct{})
		clear(k.derived)
	}
	k.read, k.rows = began, rows
	return nil
}

// Changed is closed when the numbers have changed.
func (k *Keys) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// ForGroup returns a group's key: the generation that central seals with now, and those that count besides.
func (k *Keys) ForGroup(group string) (*seal.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := time.Since(k.read); age > believed {
		return nil, fmt.Errorf("key of conductor group %q: central last read its current generation from the database %s ago, and seals nothing until the database answers", group, age.Round(time.Second))
	}
	if key := k.derived[group]; key != nil {
		return key, nil
	}
	g := store.GroupKey{Group: strings.ToLower(group)}
	if row, there := k.rows[g.Group]; there {
		g = row
	}
	key, err := Derive(k.fleet, &g)
	if err != nil {
		return nil, err
	}
	if len(k.derived) >= maxDerived {
		clear(k.derived)
	}
	k.derived[group] = key
	return key, nil
}

// Sealing is the id of the key that central seals with for a group; empty while that is not known.
func (k *Keys) Sealing(group string) string {
	key, err := k.ForGroup(group)
	if err != nil {
		return ""
	}
	return key.ID()
}

// IDs returns the ids of the keys that members are handed out now, by group in lower case: of the groups
// of a site that have rackds that are members, and of all groups whose key was ever replaced.
func (k *Keys) IDs(ctx context.Context, site string) (map[string][]string, error) {
	members, err := k.store.SiteMembers(ctx, site)
	if err != nil {
		return nil, err
	}
	rows := map[string]*store.GroupKey{}
	for _, m := range members {
		if m.Scope.Role != join.Rackd || !m.EndedAt.IsZero() {
			continue
		}
		for _, group := range append([]string{m.Scope.Group}, m.Scope.FailoverOf...) {
			group = strings.ToLower(group)
			rows[group] = &store.GroupKey{Group: group}
		}
	}
	list, err := k.store.GroupKeys(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range list {
		rows[g.Group] = g
	}
	ids := map[string][]string{}
	for group, g := range rows {
		key, err := Derive(k.fleet, g)
		if err != nil {
			return nil, err
		}
		ids[group] = key.IDs()
	}
	return ids, nil
}
