package imagecache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/rackd/ociimage"
)

// addressFile keeps what Latest knows, in the cache's folder.
const addressFile = "addresses.json"

// address is what lay at an address when it was last fetched.
type address struct {
	ID string `json:"id"`
	// What the server said of that version.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// Latest returns what lies at an address that comes without a checksum, such as a
// kernel: it is fetched when its server says that it has changed, and kept under its
// own checksum. A server that tells no version (ETag, Last-Modified) is asked for all
// of it each time; while a server does not answer, what is here is returned. The entry
// is safe from eviction as with Ensure. A registry tells by checksum what it holds.
func (c *Cache) Latest(ctx context.Context, url string) (Entry, error) {
	if strings.HasPrefix(url, ociimage.Scheme+":") {
		return c.latestOfRegistry(ctx, url)
	}
	// One at a time for each address: those who wait get a short answer.
	done, err := c.turn(ctx, url)
	if err != nil {
		return Entry{}, fmt.Errorf("fetch %s: %w", show(url), err)
	}
	defer done()
	c.mu.Lock()
	known := c.addresses[url]
	c.mu.Unlock()
	had, here, err := c.given(ctx, known.ID)
	if err != nil {
		return Entry{}, err
	}
	if !here {
		known = address{}
	}
	f := &flight{sum: checksum{algo: "sha256"}, from: supplier{url: url}}
	size, err := c.download(ctx, f, &known)
	if err == nil && f.sum.value != "" {
		c.keep(f, size)
		known.ID = f.sum.id()
		c.remember(url, known)
		had, here = c.held(known.ID)
	}
	c.mu.Lock()
	c.giveBack(f)
	c.mu.Unlock()
	switch {
	case err == nil && here:
		return had, nil
	case err == nil:
		return Entry{}, fmt.Errorf("%w: %s was evicted before it could be used", ErrFull, show(url))
	case here && !Permanent(err) && ctx.Err() == nil:
		c.log.Warn("no newer version could be asked for; rackd uses the copy in the cache", "address", show(url), "image", had.ID, "error", err)
		return had, nil
	}
	return Entry{}, err
}

// turn is that of one address, or of one image that is made of another.
type turn struct {
	place  chan struct{}
	wanted int // callers that have it or wait for it; guarded by Cache.mu
}

// turn waits for the caller's turn, which ends with done. It is forgotten with the last who waits for it: tenants choose the addresses.
func (c *Cache) turn(ctx context.Context, of string) (done func(), err error) {
	c.mu.Lock()
	t := c.turns[of]
	if t == nil {
		t = &turn{place: make(chan struct{}, 1)}
		c.turns[of] = t
	}
	t.wanted++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.wanted--; t.wanted == 0 {
			delete(c.turns, of)
		}
	}
	select {
	case t.place <- struct{}{}:
		return func() { <-t.place; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// Holds reports whether an image is here, with its file in the folder.
func (c *Cache) Holds(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.onDisk(id) != nil
}

// Ready reports whether an image is here and was compared with its checksum lately. It reads no image.
func (c *Cache) Ready(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.onDisk(id)
	return e != nil && c.now().Sub(e.verified) < verifyAfter
}

// held is lookup by ID.
func (c *Cache) held(id string) (Entry, bool) {
	sum, ok := parseID(id)
	if !ok {
		return Entry{}, false
	}
	return c.lookup(sum, false)
}

// remember notes what lies at an address; that it cannot be written costs one fetch
// after the next start.
func (c *Cache) remember(url string, a address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses[url] = a
	for u, old := range c.addresses {
		if c.entries[old.ID] == nil {
			delete(c.addresses, u)
		}
	}
	body, err := json.Marshal(c.addresses)
	path := filepath.Join(c.dir, addressFile)
	if err == nil {
		if err = os.WriteFile(path+partSuffix, body, 0o600); err == nil {
			err = os.Rename(path+partSuffix, path)
		}
	}
	if err != nil {
		c.log.Warn("addresses of images not saved", "file", path, "error", err)
	}
}

// loadAddresses reads what a former process remembered; what is unreadable is
// fetched again.
func (c *Cache) loadAddresses() {
	body, err := os.ReadFile(filepath.Join(c.dir, addressFile))
	if err == nil {
		err = json.Unmarshal(body, &c.addresses)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("addresses of images cannot be read; rackd fetches the images again", "error", err)
	}
}
