// Package imagecache keeps images on the rack, so that each crosses the WAN once
// per site however many machines want it. It owns its folder, the fetching and the
// serving of what is in it.
//
// It may import rackd/outbound, rackd/ociimage and rackd/sendfile. Invariants:
//
//   - A file of the cache is complete and has the checksum that its name says:
//     content is verified while it streams into a .part file, synced, then renamed.
//     What comes without a checksum is named by the one that it turns out to have.
//   - Of any number of callers that want one image at once, one fetches; the fetch
//     goes on as long as one of them still waits, and never outlives the last.
//   - Files and fetches together never exceed MaxBytes, nor a share of their disk. What is being served, or was
//     handed out so lately that its download may not have begun, is not evicted. Copies of
//     neighbours' images that nothing here asked for keep no own fetch from its room.
//   - A checksum is no right: what is here is given for an address that gave it, or whose
//     server agrees, or that holds the same bytes (rights.go).
//   - An image is compared with its checksum again before it is given, if a day has passed or another
//     process has fetched it, and when an agent reports a wrong checksum (verify.go).
//   - What was made of an image (derive.go) is an image like any other, made once while both are here.
//   - The folder belongs to one process.
package imagecache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/protocol/trickle"
	"github.com/ironyard/ironyard/rackd/ociimage"
	"github.com/ironyard/ironyard/rackd/outbound"
)

const (
	// DefaultMaxBytes is the bound when Config has none.
	DefaultMaxBytes = 20 << 30
	// handOver is how long an entry is kept after Ensure, whatever the pressure: the
	// agent needs a moment until its download begins and keeps the entry by itself.
	handOver   = 5 * time.Minute
	partSuffix = ".part"
)

// Config of a cache.
type Config struct {
	Dir      string // made if missing
	MaxBytes int64  // 0: DefaultMaxBytes
	// AllowedDirs are the folders that file:// images may come from; none: no such
	// images.
	AllowedDirs []string
	Client      *http.Client // nil: outbound.Client, as it is by default
	// PlainRegistries are the hosts, with their ports, of registries that are spoken to without TLS.
	PlainRegistries []string
	Log             *slog.Logger // nil: the default logger
	Registerer      prometheus.Registerer
}

// Cache of images. Safe for concurrent use.
type Cache struct {
	dir     string
	max     int64
	allowed []string
	client  *http.Client
	oci     *ociimage.Client
	log     *slog.Logger
	metrics *collectors
	now     func() time.Time
	stall   time.Duration // in which an address must bring trickle.Least

	mu       sync.Mutex
	entries  map[string]*entry
	flights  map[string][]*flight
	stored   int64 // bytes of entries
	reserved int64 // bytes granted to fetches, written or not
	written  int64 // of reserved
	// making are the conversions, with the file that each writes by itself.
	making map[*flight]*os.File
	// By URL: what Latest knows, and whose turn it is to ask.
	addresses   map[string]address
	sources     map[string]*sources // by image, what has given it
	turns       map[string]*turn
	derived     map[string]string // by image and way, what was made of it
	verifying   chan struct{}     // held by whoever reads an image to verify it
	conversions chan struct{}     // holds a value for each image that is made of another now
}

// entry is a file of the cache; Cache.mu guards it.
type entry struct {
	size   int64
	used   time.Time // orders eviction; kept across restarts as the file's mtime
	handed time.Time // when Ensure last returned it
	refs   int       // downloads of it that run
	copied bool      // for a neighbour's work, and not asked for here
	// verified is when its bytes were last compared with its checksum.
	verified time.Time
}

// Entry is an image in the cache.
type Entry struct {
	ID   string // names it below /images/
	Path string
	Size int64 // bytes
	// HashAlgo and HashValue are the verified checksum in plain form, also when the
	// source named a file of checksums.
	HashAlgo, HashValue string
}

// Open opens the cache in cfg.Dir, takes over what a former process completed and
// removes what it left half done.
func Open(cfg Config) (*Cache, error) {
	c := &Cache{dir: cfg.Dir, max: cfg.MaxBytes, allowed: cfg.AllowedDirs, client: cfg.Client, log: cfg.Log,
		now: time.Now, stall: trickle.Within, entries: map[string]*entry{}, flights: map[string][]*flight{}, making: map[*flight]*os.File{}, sources: map[string]*sources{},
		addresses: map[string]address{}, derived: map[string]string{}, turns: map[string]*turn{}, verifying: make(chan struct{}, 1),
		conversions: make(chan struct{}, mostMaking)}
	if c.max <= 0 {
		c.max = DefaultMaxBytes
	}
	if c.client == nil {
		c.client = outbound.Client(outbound.Fetching{})
	}
	c.oci = &ociimage.Client{HTTP: c.client, Plain: cfg.PlainRegistries}
	if c.log == nil {
		c.log = slog.Default()
	}
	for _, d := range c.allowed {
		if !filepath.IsAbs(d) {
			return nil, fmt.Errorf("image cache: folder %q for file:// images must be an absolute path", d)
		}
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("image cache: %w", err)
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("image cache: read %s: %w", c.dir, err)
	}
	c.loadAddresses()
	c.loadSources()
	c.loadDerived()
	var err error
	if c.metrics, err = newCollectors(c, cfg.Registerer); err != nil {
		return nil, fmt.Errorf("image cache: register metrics: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeRoom(0, false) // the bound may be lower than the last time
	return c, nil
}

// load reads the folder. Files that are neither images nor leftovers are not ours
// and stay.
func (c *Cache) load() error {
	files, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name(), partSuffix) {
			if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil {
				return err
			}
			continue
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		if ValidID(f.Name()) && info.Mode().IsRegular() {
			c.entries[f.Name()] = &entry{size: info.Size(), used: info.ModTime()}
			c.stored += info.Size()
		}
	}
	return nil
}

// Ensure returns src from the cache, after fetching and verifying it if need be.
// The entry is safe from eviction for five minutes and while it is served. Errors
// name the image's address without its user and query; Permanent tells those that
// trying again does not cure.
func (c *Cache) Ensure(ctx context.Context, src Source) (Entry, error) {
	if e, ok, err := c.given(ctx, src.Given); ok || err != nil {
		return e, err
	}
	if src.HashValue == "" && strings.HasPrefix(src.URL, "file:") {
		return c.Latest(ctx, src.URL)
	}
	src, sum, err := c.resolve(ctx, src)
	if err != nil {
		return Entry{}, err
	}
	for {
		e, ok := c.lookup(sum, src.copying)
		if ok {
			if err := c.entitled(ctx, src, e); err != nil {
				return Entry{}, err
			}
			if ok, err := c.whole(ctx, e.ID); ok || err != nil {
				return e, err
			}
			continue // it was damaged and is dropped
		}
		f := c.join(ctx, sum, src)
		err := c.wait(ctx, f)
		switch {
		case err == nil:
			continue // looked up again: that marks it as handed over
		case ctx.Err() != nil:
			return Entry{}, fmt.Errorf("fetch image %s: %w", show(src.URL), context.Cause(ctx))
		case f.from != src.supplier() && (!errors.Is(err, ErrFull) || f.copy && !src.copying):
			continue // another address of the same image failed; try our own
		}
		return Entry{}, err
	}
}

// given returns an image that a work was given before, if it is here and whole.
func (c *Cache) given(ctx context.Context, id string) (Entry, bool, error) {
	e, ok := c.held(id)
	if !ok {
		return Entry{}, false, nil
	}
	ok, err := c.whole(ctx, id)
	return e, ok, err
}

// Copy is Ensure for a copy of what is in another rackd's cache. Own fetches may evict a
// copy as long as nothing here has asked for it.
func (c *Cache) Copy(ctx context.Context, src Source) (Entry, error) {
	src.copying = true
	return c.Ensure(ctx, src)
}

// lookup finds an entry and marks it as handed over; a copy only as used.
func (c *Cache) lookup(sum checksum, copying bool) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := sum.id()
	e := c.onDisk(id)
	if e == nil {
		return Entry{}, false
	}
	path := filepath.Join(c.dir, id)
	e.used = c.now()
	if !copying {
		e.handed, e.copied = e.used, false
	}
	os.Chtimes(path, e.used, e.used) // failing costs only the order of eviction after a restart
	return Entry{ID: id, Path: path, Size: e.size, HashAlgo: sum.algo, HashValue: sum.value}, true
}

// onDisk is the entry of an image whose file is in the folder, nil for none. What is gone there is dropped. Caller holds mu.
func (c *Cache) onDisk(id string) *entry {
	e := c.entries[id]
	if e == nil {
		return nil
	}
	if info, err := os.Stat(filepath.Join(c.dir, id)); err != nil || info.Size() != e.size {
		c.log.Warn("image is gone from the cache's folder or changed there; fetching it again", "image", id, "dir", c.dir)
		c.drop(id, e)
		return nil
	}
	return e
}
