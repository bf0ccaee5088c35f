package imagecache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ironyard/ironyard/protocol/trickle"
)

// derivedFile keeps, in the cache's folder, what was made of which image.
const derivedFile = "derived.json"

// mostMaking is how many images are made at once. Who may deploy decides how many are wanted, and each may take a processor and
// gigabytes of memory.
const mostMaking = 4

// derivedScheme marks what is made of an image: its ID stands for an address.
const derivedScheme = "image"

// Maker makes one image of another.
type Maker interface {
	// Way names what is made: of one image in one way comes one content.
	Way() string
	// Need returns a bound of the size of what Make will write, in bytes. The cache holds room bytes at most: one more says that it is
	// too large, whatever it would be.
	Need(ctx context.Context, in *os.File, room int64) (int64, error)
	// Make writes at most that many bytes to out.
	Make(ctx context.Context, in, out *os.File, most int64) error
}

// Derive returns what m makes of an image that is here. It is made once, and kept under its own checksum like any other image;
// who may have the one may have the other. Errors of m are returned as they are.
func (c *Cache) Derive(ctx context.Context, from Entry, m Maker) (Entry, error) {
	key := from.ID + " " + m.Way()
	ended, err := c.turn(ctx, key)
	if err != nil {
		return Entry{}, fmt.Errorf("convert image %s: %w", from.ID, err)
	}
	defer ended()
	c.mu.Lock()
	id := c.derived[key]
	c.mu.Unlock()
	if e, ok, err := c.given(ctx, id); ok || err != nil {
		return e, err
	}
	select {
	case c.conversions <- struct{}{}:
		defer func() { <-c.conversions }()
	case <-ctx.Done():
		return Entry{}, fmt.Errorf("convert image %s: it waits for %d others: %w", from.ID, mostMaking, context.Cause(ctx))
	}
	in, done, err := c.File(from.ID)
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	defer done()
	f := &flight{sum: checksum{algo: "sha256"}, from: supplier{url: derivedScheme + ":" + from.ID}}
	defer func() {
		c.mu.Lock()
		c.giveBack(f)
		c.mu.Unlock()
	}()
	size, err := c.make(ctx, f, in, m)
	if err != nil {
		return Entry{}, err
	}
	c.keep(f, size)
	c.noteDerived(key, f.sum.id())
	e, here := c.held(f.sum.id())
	if !here {
		return Entry{}, fmt.Errorf("%w: what image %s was converted to was evicted before it could be used", ErrFull, from.ID)
	}
	return e, nil
}

// make has m write a file, and takes it into the folder under its checksum, which f is told.
func (c *Cache) make(ctx context.Context, f *flight, in *os.File, m Maker) (size int64, err error) {
	need, err := m.Need(ctx, in, c.bound())
	if err != nil {
		return 0, err
	}
	if err := c.reserve(f, need); err != nil {
		return 0, err
	}
	part, err := os.CreateTemp(c.dir, "derived.*"+partSuffix)
	if err != nil {
		return 0, c.diskError(f, err)
	}
	defer func() {
		part.Close()
		if err == nil {
			return
		}
		if left := os.Remove(part.Name()); left != nil && !errors.Is(left, fs.ErrNotExist) {
			c.log.Warn("what a failed conversion wrote stays until rackd starts again", "file", part.Name(), "error", left)
		}
	}()
	c.mu.Lock()
	c.making[f] = part
	c.mu.Unlock()
	err = m.Make(ctx, in, part, need)
	c.mu.Lock()
	delete(c.making, f)
	f.written = min(onMedium(part), f.reserved) // that takes no room that is granted still
	c.written += f.written
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return 0, c.diskError(f, err)
	}
	hash := f.sum.hash()
	buf := make([]byte, trickle.Least)
	if size, err = io.CopyBuffer(struct{ io.Writer }{hash}, whileWanted{ctx, part}, buf); err != nil {
		return 0, c.diskError(f, err)
	}
	f.sum.value = fmt.Sprintf("%x", hash.Sum(nil))
	return size, c.settle(f, part)
}

// whileWanted reads until its context ends.
type whileWanted struct {
	ctx context.Context
	io.Reader
}

func (r whileWanted) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// noteDerived remembers what was made; that it cannot be written costs one conversion after the next start.
func (c *Cache) noteDerived(key, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.derived[key] = id
	for k, made := range c.derived {
		if c.entries[made] == nil {
			delete(c.derived, k)
		}
	}
	body, err := json.Marshal(c.derived)
	path := filepath.Join(c.dir, derivedFile)
	if err == nil {
		if err = os.WriteFile(path+partSuffix, body, 0o600); err == nil {
			err = os.Rename(path+partSuffix, path)
		}
	}
	if err != nil {
		c.log.Warn("list of converted images not saved", "file", path, "error", err)
	}
}

// loadDerived reads what a former process made; what is unreadable is made again.
func (c *Cache) loadDerived() {
	body, err := os.ReadFile(filepath.Join(c.dir, derivedFile))
	if err == nil {
		err = json.Unmarshal(body, &c.derived)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("list of converted images cannot be read; rackd converts them again", "error", err)
	}
	if c.derived == nil {
		c.derived = map[string]string{}
	}
}
