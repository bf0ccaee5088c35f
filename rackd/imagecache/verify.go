package imagecache

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// verifyAfter is how long an image counts as whole after its bytes were last compared with its
// checksum. One that another process left is compared before it is first given.
const verifyAfter = 24 * time.Hour

// Verify compares an image with its checksum, past the kernel's cache, and drops it if it is damaged:
// the next Ensure fetches it again. It reports whether the image is here and whole.
func (c *Cache) Verify(ctx context.Context, id string) (bool, error) {
	select {
	case c.verifying <- struct{}{}: // one at a time: it reads as fast as the disk does
		defer func() { <-c.verifying }()
	case <-ctx.Done():
		return false, fmt.Errorf("verify image %s: %w", id, context.Cause(ctx))
	}
	return c.verify(ctx, id)
}

func (c *Cache) verify(ctx context.Context, id string) (bool, error) {
	sum, named := parseID(id)
	e := c.acquire(id)
	if e == nil || !named {
		return false, nil
	}
	defer c.release(e)
	got, err := c.sumOf(ctx, id, sum)
	if ctx.Err() != nil {
		return false, fmt.Errorf("verify image %s: %w", id, context.Cause(ctx))
	}
	if err == nil && got == sum.value {
		c.mu.Lock()
		e.verified = c.now()
		c.mu.Unlock()
		return true, nil
	}
	c.log.Error("an image in the cache is damaged; rackd drops it, and fetches it again when a machine needs it", "image", id, "dir", c.dir, "has", got, "error", err,
		"todo", "check the disk of this folder and the machine's memory")
	c.metrics.damaged.Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[id] == e {
		c.drop(id, e)
	}
	return false, nil
}

// sumOf reads an image's file whole.
func (c *Cache) sumOf(ctx context.Context, id string, sum checksum) (string, error) {
	f, err := os.Open(filepath.Join(c.dir, id))
	if err != nil {
		return "", err
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // advice: what is on the disk counts
	hash, buf := sum.hash(), make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		hash.Write(buf[:n])
		if err == io.EOF || ctx.Err() != nil {
			return fmt.Sprintf("%x", hash.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// whole reports whether an image may be given: it was verified lately, or is now.
func (c *Cache) whole(ctx context.Context, id string) (bool, error) {
	due := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		e := c.entries[id]
		return e != nil && c.now().Sub(e.verified) >= verifyAfter
	}
	if !due() {
		return true, nil
	}
	select {
	case c.verifying <- struct{}{}:
		defer func() { <-c.verifying }()
	case <-ctx.Done():
		return false, fmt.Errorf("verify image %s: %w", id, context.Cause(ctx))
	}
	if !due() { // another caller has
		return true, nil
	}
	return c.verify(ctx, id)
}
