package sites

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// groupsEvery is how often a site's GROUPS are compared with the configuration,
// besides when the site is opened. It is the cure for a bus that lost them; each
// look costs some kilobytes of the WAN.
const groupsEvery = 10 * time.Minute

// groupsAgain is the pause after an attempt that failed.
const groupsAgain = 5 * time.Second

// groupAttempts bounds compare-and-set; each failure means that another replica of
// central wrote.
const groupAttempts = 5

// keepGroups keeps what a site's GROUPS say as m says, until ctx ends.
func keepGroups(ctx context.Context, m *Map, keys Keys, site *bus.Site, log *slog.Logger) {
	tick := time.NewTicker(groupsEvery)
	defer tick.Stop()
	changed := keys.Changed()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-again:
		case <-changed:
			changed = keys.Changed()
		}
		again = nil
		if err := writeGroups(ctx, m, keys, site, log); err != nil && ctx.Err() == nil {
			log.Warn("conductor groups not compared with the site's, trying again", "site", site.Name, "error", err)
			again = time.After(groupsAgain)
		}
	}
}

// writeGroups makes the entries of GROUPS fit the configuration and the keys: it writes those that
// say something else and purges those of groups of which there is nothing to say.
func writeGroups(ctx context.Context, m *Map, keys Keys, site *bus.Site, log *slog.Logger) error {
	var err error
	for range groupAttempts {
		var raced bool
		if raced, err = writeGroupsOnce(ctx, m, keys, site, log); !raced {
			return err
		}
	}
	return fmt.Errorf("write bucket %s of site %q: another central wrote it each time: %w", bus.GroupsBucket, site.Name, err)
}

// writeGroupsOnce lists what is there before it reads what is to be: a replica that stood still in between
// replaces nothing that is newer.
func writeGroupsOnce(ctx context.Context, m *Map, keys Keys, site *bus.Site, log *slog.Logger) (raced bool, err error) {
	there, err := site.List(ctx, site.Groups)
	if err != nil {
		return false, err
	}
	wanted, err := m.groups(ctx, keys, site.Name)
	if err != nil {
		return false, err
	}
	change := func(what, key string, err error) bool {
		if err == nil {
			log.Info("conductor group's entry "+what, "site", site.Name, "key", key)
		}
		raced = bus.Conflict(err)
		return err == nil
	}
	for group, entry := range wanted {
		key := bus.GroupKey(group)
		body, err := json.Marshal(entry)
		if err != nil {
			return false, err
		}
		old := there[key]
		delete(there, key)
		switch {
		case old == nil:
			_, err = site.Groups.Create(ctx, key, body)
		case bytes.Equal(old.Value(), body):
			continue
		default:
			_, err = site.Groups.Update(ctx, key, body, old.Revision())
		}
		if !change("written", key, err) {
			return raced, fmt.Errorf("write key %s of bucket %s: %w", key, bus.GroupsBucket, err)
		}
	}
	for key, old := range there {
		if err := site.Groups.Purge(ctx, key, jetstream.LastRevision(old.Revision())); !change("removed", key, err) {
			return raced, fmt.Errorf("purge key %s of bucket %s: %w", key, bus.GroupsBucket, err)
		}
	}
	return false, nil
}

// Keys says which keys of conductor groups members are handed out (central/groupkeys). It must be safe for
// concurrent use.
type Keys interface {
	// IDs returns the ids of each group's key, by group in lower case, for what is known of a site.
	IDs(ctx context.Context, site string) (map[string][]string, error)
	// Changed is closed when they have changed.
	Changed() <-chan struct{}
}

// noKeys says nothing of keys.
type noKeys struct{}

func (noKeys) IDs(context.Context, string) (map[string][]string, error) { return nil, nil }
func (noKeys) Changed() <-chan struct{}                                 { return nil }

// groups is what GROUPS of a site is to say, by group.
func (m *Map) groups(ctx context.Context, keys Keys, site string) (map[string]bus.Group, error) {
	ids, err := keys.IDs(ctx, site)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bus.Group{}
	for group, to := range m.failover {
		if m.SiteOf(group) == site {
			wanted[group] = bus.Group{Name: group, Failover: to, Keys: ids[group]}
		}
	}
	for group, list := range ids {
		if m.SiteOf(group) == site {
			wanted[group] = bus.Group{Name: group, Failover: m.failover[group], Keys: list}
		}
	}
	return wanted, nil
}
