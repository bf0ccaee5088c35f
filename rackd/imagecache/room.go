package imagecache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// reserve grants f room for total bytes, evicting what is not in use.
func (c *Cache) reserve(f *flight, total int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := total - f.reserved
	if more <= 0 {
		return nil
	}
	bound := c.bound()
	if total > bound {
		return fmt.Errorf("%w: %s has at least %d bytes, and the cache holds at most %d (its limit is %d; %s)", ErrTooLarge, show(f.from.url), total, bound, c.max, c.room())
	}
	if !c.makeRoom(more, f.copy) {
		return fmt.Errorf("%w: %s needs %d bytes; of the cache's %d bytes only %d are not in use or being fetched; %s; try again when downloads have ended, or enlarge the cache",
			ErrFull, show(f.from.url), total, bound, bound-c.stored-c.reserved+f.reserved, c.room())
	}
	c.reserved += more
	f.reserved = total
	return nil
}

// makeRoom evicts the longest unused entries until need bytes fit, also on the disk. It reports whether
// they do. Caller holds mu.
func (c *Cache) makeRoom(need int64, forCopy bool) bool {
	for bound := c.bound(); c.stored+c.reserved+need > bound || c.crowded(need); {
		if !c.evict(forCopy) {
			return false
		}
	}
	return true
}

// evict drops the longest unused entry that may go, and reports whether there was one. Caller
// holds mu.
func (c *Cache) evict(forCopy bool) bool {
	id, e := c.coldest(func(x *entry) bool { return c.now().Sub(x.wanted()) >= handOver })
	if e == nil && !forCopy {
		id, e = c.coldest(func(x *entry) bool { return x.copied })
	}
	if e == nil {
		return false
	}
	c.log.Info("image evicted from the cache", "image", id, "bytes", e.size, "copy", e.copied, "unused_since", e.used)
	c.metrics.evictions.Inc()
	c.drop(id, e)
	return true
}

// wanted is when an entry was last needed. A copy is marked as used while a neighbour works
// with it: else two copies would take each other's place again and again.
func (e *entry) wanted() time.Time {
	if e.copied {
		return e.used
	}
	return e.handed
}

// coldest is the longest unused of the entries that may go and are not being served, nil for
// none. Caller holds mu. A cache has dozens of entries, so a walk is cheap beside an eviction.
func (c *Cache) coldest(may func(*entry) bool) (id string, e *entry) {
	for i, x := range c.entries {
		if x.refs > 0 || !may(x) {
			continue
		}
		if e == nil || x.used.Before(e.used) || x.used.Equal(e.used) && i < id {
			id, e = i, x
		}
	}
	return id, e
}

// drop forgets an entry and removes its file. Caller holds mu.
func (c *Cache) drop(id string, e *entry) {
	delete(c.entries, id)
	c.stored -= e.size
	if err := os.Remove(filepath.Join(c.dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Error("image cannot be removed from the cache's folder; it takes space until rackd starts again", "image", id, "dir", c.dir, "error", err)
	}
}
