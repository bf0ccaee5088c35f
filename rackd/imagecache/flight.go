package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/protocol/trickle"
)

// flight is one fetch and those who wait for it.
type flight struct {
	sum    checksum
	from   supplier
	size   int64 // of the image in bytes, as its registry's manifest says; 0: nothing says it
	copy   bool  // for a copy
	cancel context.CancelFunc
	done   chan struct{} // closed at the end; err is valid from then on
	err    error

	// Guarded by Cache.mu.
	waiters  int
	reserved int64
	written  int64 // of reserved
}

// serves reports whether a caller of src may wait for the fetch. Who deploys chooses an image's server, which may send slowly on purpose.
// It makes those alone wait who name it, too. No tenant chooses the cache of another rackd.
func (f *flight) serves(src Source) bool {
	return f.copy || !src.copying && place(f.from.url) == place(src.URL) && f.from.via == src.Proxies
}

// join finds a fetch of sum that may serve src, or begins one, and counts the caller in; the
// caller must wait. The fetch has the values of the caller's context, not its end.
func (c *Cache) join(ctx context.Context, sum checksum, src Source) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := sum.id()
	if i := slices.IndexFunc(c.flights[id], func(f *flight) bool { return f.serves(src) }); i >= 0 {
		f := c.flights[id][i]
		f.waiters++
		c.metrics.shared.Inc()
		return f
	}
	f := &flight{sum: sum, from: src.supplier(), size: src.size, copy: src.copying, waiters: 1, done: make(chan struct{})}
	if c.entries[id] != nil { // came in since the caller looked
		f.cancel = func() {}
		close(f.done)
		return f
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.flights[id] = append(c.flights[id], f)
	go func() {
		defer close(f.done)
		defer f.cancel()
		f.err = c.fetch(ctx, f)
		c.metrics.fetched(f.err)
	}()
	return f
}

// wait waits for f. The last of its waiters to give up ends it and sees it end, so
// that no fetch outlives the calls that wanted it.
func (c *Cache) wait(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	if last {
		c.ended(f) // who comes now begins anew
	}
	c.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
	return ctx.Err()
}

// fetch brings f's image into the folder and the table.
func (c *Cache) fetch(ctx context.Context, f *flight) error {
	size, err := c.download(ctx, f, nil)
	if err == nil {
		c.keep(f, size)
		if !f.copy {
			c.gave(f.sum.id(), f.from)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack(f)
	c.ended(f)
	return err
}

// ended forgets a fetch. Its caller holds mu.
func (c *Cache) ended(f *flight) {
	id := f.sum.id()
	if c.flights[id] = slices.DeleteFunc(c.flights[id], func(other *flight) bool { return other == f }); len(c.flights[id]) == 0 {
		delete(c.flights, id)
	}
}

// keep takes the file of a download into the table.
func (c *Cache) keep(f *flight, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[f.sum.id()] == nil { // else: given up and begun anew, or from two servers, and both came home
		c.entries[f.sum.id()] = c.added(f, size)
		c.stored += size
	}
	// What was reserved for it is now counted as stored.
	c.giveBack(f)
}

// giveBack ends what was granted to f. Its caller holds mu.
func (c *Cache) giveBack(f *flight) {
	c.reserved -= f.reserved
	c.written -= f.written
	f.reserved, f.written = 0, 0
}

// added is the entry of a download. A copy was handed to no one.
func (c *Cache) added(f *flight, size int64) *entry {
	e := &entry{size: size, used: c.now(), copied: f.copy, verified: c.now()}
	if !f.copy {
		e.handed = e.used
	}
	return e
}

// download writes the file; on an error nothing of it remains. Without a checksum in
// f it notes the one that the content has, unless the address still holds known: then
// there is no download, f stays as it is, and known is told the version.
func (c *Cache) download(ctx context.Context, f *flight, known *address) (size int64, err error) {
	begun := c.now()
	ctx, watch := trickle.Begin(ctx, show(f.from.url), c.stall)
	defer watch.Stop()
	body, announced, err := c.open(ctx, request{from: f.from, known: known, copy: f.copy})
	if err != nil || body == nil {
		return 0, err
	}
	defer body.Close()
	if f.size > 0 && announced >= 0 && announced != f.size {
		return 0, fmt.Errorf("%w: its server announces %d bytes of %s, and its manifest says %d; push the image again", ErrChecksum, announced, show(f.from.url), f.size)
	}
	if announced < 0 && f.size > 0 {
		announced = f.size
	}
	if announced > 0 { // refuse early what will not fit
		if err := c.reserve(f, announced); err != nil {
			return 0, err
		}
	}
	part, err := os.CreateTemp(c.dir, f.sum.id()+".*"+partSuffix)
	if err != nil {
		return 0, c.diskError(f, err)
	}
	defer func() {
		part.Close()
		if err != nil {
			os.Remove(part.Name())
		}
	}()
	hash := f.sum.hash()
	in := watch.Reader(body)
	buf := make([]byte, 1<<20)
	for {
		n, readErr := in.Read(buf)
		if announced >= 0 && size+int64(n) > announced { // other images are not evicted for it
			return 0, fmt.Errorf("%w: %s sends more than the %d bytes that it has announced", ErrChecksum, show(f.from.url), announced)
		}
		if n > 0 {
			if err := c.reserve(f, size+int64(n)); err != nil {
				return 0, err
			}
			hash.Write(buf[:n])
			if err := c.put(f, part, buf[:n]); err != nil {
				return 0, c.diskError(f, err)
			}
			size += int64(n)
			c.metrics.fetchedBytes.Add(float64(n))
		}
		if ctx.Err() != nil {
			readErr = context.Cause(ctx)
		}
		if errors.Is(readErr, io.EOF) && (announced < 0 || size == announced) {
			break
		}
		if readErr != nil {
			return 0, fmt.Errorf("%w: %s broke off after %d bytes: %w", ErrUnavailable, show(f.from.url), size, readErr)
		}
	}
	if got := fmt.Sprintf("%x", hash.Sum(nil)); f.sum.value == "" {
		f.sum.value = got
	} else if got != f.sum.value {
		return 0, fmt.Errorf("%w: %s (%d bytes) has %s %s, expected %s; correct the checksum of the node's image or replace the file",
			ErrChecksum, show(f.from.url), size, f.sum.algo, got, f.sum.value)
	}
	if err := c.settle(f, part); err != nil {
		return 0, err
	}
	took := c.now().Sub(begun)
	c.log.Info("image fetched and verified", "image", f.sum.id(), "from", show(f.from.url), "bytes", size,
		"took", took.Round(time.Millisecond), "mb_per_s", int64(float64(size)/1e6/max(took.Seconds(), 1e-3)))
	return size, nil
}

// settle makes a whole file the image that f's checksum names.
func (c *Cache) settle(f *flight, part *os.File) error {
	if err := part.Sync(); err != nil {
		return c.diskError(f, err)
	}
	final := filepath.Join(c.dir, f.sum.id())
	if err := os.Rename(part.Name(), final); err != nil {
		return c.diskError(f, err)
	}
	if err := syncDir(c.dir); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.entries[f.sum.id()] == nil { // else it has taken the place of the same image, which machines may be loading
			err = errors.Join(err, os.Remove(final))
		}
		return c.diskError(f, err)
	}
	return nil
}

// put writes p to the file of f. On a full disk, which others fill too, it evicts and goes on.
func (c *Cache) put(f *flight, part io.Writer, p []byte) error {
	for {
		n, err := part.Write(p)
		p = p[n:]
		c.mu.Lock()
		f.written += int64(n)
		c.written += int64(n)
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		again := full && c.evict(f.copy)
		c.mu.Unlock()
		if err == nil || !again {
			return err
		}
	}
}

// syncDir makes a rename in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (c *Cache) diskError(f *flight, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: no space for %s, and no image can be evicted: %s; free some space, or try again when downloads have ended: %w", ErrFull, show(f.from.url), c.room(), err)
	}
	return fmt.Errorf("%w: write %s to %s: %w", ErrDisk, show(f.from.url), c.dir, err)
}
