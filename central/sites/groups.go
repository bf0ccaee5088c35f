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

// groupAttempts bounds compare-and-set; each failure means that another replica of
// central wrote.
const groupAttempts = 5

// keepGroups keeps what a site's GROUPS say as m says, until ctx ends.
func keepGroups(ctx context.Context, m *Map, site *bus.Site, log *slog.Logger) {
	tick := time.NewTicker(groupsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := writeGroups(ctx, m, site, log); err != nil && ctx.Err() == nil {
				log.Warn("conductor groups not compared with the site's, trying again", "site", site.Name, "error", err)
			}
		}
	}
}

// writeGroups makes the keys of GROUPS fit the configuration: it writes those that
// say something else and purges those of groups without failover.
func writeGroups(ctx context.Context, m *Map, site *bus.Site, log *slog.Logger) error {
	var err error
	for range groupAttempts {
		var raced bool
		if raced, err = writeGroupsOnce(ctx, m, site, log); !raced {
			return err
		}
	}
	return fmt.Errorf("write bucket %s of site %q: somebody else wrote it each time: %w", bus.GroupsBucket, site.Name, err)
}

func writeGroupsOnce(ctx context.Context, m *Map, site *bus.Site, log *slog.Logger) (raced bool, err error) {
	there, err := site.List(ctx, site.Groups)
	if err != nil {
		return false, err
	}
	change := func(what, key string, err error) bool {
		if err == nil {
			log.Info("conductor group's failover "+what, "site", site.Name, "key", key)
		}
		raced = bus.Conflict(err)
		return err == nil
	}
	for group, to := range m.failover {
		if m.SiteOf(group) != site.Name {
			continue
		}
		key := bus.GroupKey(group)
		body, err := json.Marshal(bus.Group{Name: group, Failover: to})
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
