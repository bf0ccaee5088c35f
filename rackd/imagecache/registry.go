package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ironyard/ironyard/protocol/trickle"
	"github.com/ironyard/ironyard/rackd/ociimage"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// pick asks a registry which file src means, and returns the source of that file: the registry names it by its checksum.
func (c *Cache) pick(ctx context.Context, src Source) (Source, checksum, error) {
	ctx, watch := trickle.Begin(outbound.Through(ctx, src.Proxies), show(src.URL), c.stall)
	defer watch.Stop()
	blob, err := c.oci.Resolve(ctx, src.URL, src.Arch, src.supplier().access())
	if err != nil {
		return src, checksum{}, c.registryError(ctx, src.URL, err)
	}
	sum, err := parseChecksum(blob.Algorithm, blob.Checksum)
	if err != nil {
		return src, checksum{}, fmt.Errorf("registry of %s: %w", show(src.URL), err)
	}
	if src.HashValue != "" { // Ironic ignores it; here it is one more promise
		said, err := parseChecksum(src.HashAlgo, src.HashValue)
		if err != nil {
			return src, checksum{}, err
		}
		if said != sum {
			return src, checksum{}, fmt.Errorf("%w: the registry's file for %s has %s %s, expected %s %s; correct the checksum, or remove it",
				ErrChecksum, show(src.URL), sum.algo, sum.value, said.algo, said.value)
		}
	}
	src.URL, src.size = blob.URL, blob.Size
	return src, sum, nil
}

// openBlob opens a file that pick has found.
func (c *Cache) openBlob(ctx context.Context, from supplier) (io.ReadCloser, int64, error) {
	body, size, err := c.oci.Open(ctx, from.url, from.access())
	if err != nil {
		return nil, 0, c.registryError(ctx, from.url, err)
	}
	return body, size, nil
}

// registryError is an error of a registry in the words of this package.
func (c *Cache) registryError(ctx context.Context, raw string, err error) error {
	kind := dialError(err)
	switch {
	case errors.Is(err, ociimage.ErrReference), errors.Is(err, ociimage.ErrInTheClear):
		kind = ErrSource
	case errors.Is(err, ociimage.ErrRefused):
		kind = ErrNotFound
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("%w: %s: %w", kind, show(raw), err)
}

// latestOfRegistry is Latest for an address of a registry. While that does not answer, what it gave last is returned.
func (c *Cache) latestOfRegistry(ctx context.Context, url string) (Entry, error) {
	e, err := c.Ensure(ctx, Source{URL: url})
	if err == nil {
		c.remember(url, address{ID: e.ID})
		return e, nil
	}
	c.mu.Lock()
	known := c.addresses[url]
	c.mu.Unlock()
	if had, here := c.held(known.ID); here && !Permanent(err) && ctx.Err() == nil {
		c.log.Warn("no newer version could be asked for; rackd uses the copy in the cache", "address", show(url), "image", had.ID, "error", err)
		return had, nil
	}
	return Entry{}, err
}
