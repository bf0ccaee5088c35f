package imagecache

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/ironyard/ironyard/protocol/trickle"
	"github.com/ironyard/ironyard/rackd/ociimage"
)

// maxSums bounds a file of checksums, in bytes.
const maxSums = 1 << 20

// resolve finds the checksum that the source must have, by fetching the file of
// checksums if the source names one, or by asking the registry. It returns the source of that very content.
func (c *Cache) resolve(ctx context.Context, src Source) (Source, checksum, error) {
	u, err := parseURL(src.URL)
	if err != nil {
		return src, checksum{}, err
	}
	if u.Scheme == ociimage.Scheme {
		return c.pick(ctx, src)
	}
	if src.HashValue == "" {
		return src, checksum{}, fmt.Errorf("%w: %s has no checksum; set image_os_hash_algo and image_os_hash_value", ErrSource, show(src.URL))
	}
	if !strings.Contains(src.HashValue, "://") {
		sum, err := parseChecksum(src.HashAlgo, src.HashValue)
		return src, sum, err
	}
	sum, err := c.listed(ctx, src, u)
	return src, sum, err
}

// listed finds the checksum of the image at u in the file of checksums that src names.
func (c *Cache) listed(ctx context.Context, src Source, u *url.URL) (checksum, error) {
	from := supplier{url: src.HashValue, via: src.Proxies}
	if sameServer(u, src.HashValue) {
		from.authorization = src.Authorization
	}
	ctx, watch := trickle.Begin(ctx, show(src.HashValue), c.stall)
	defer watch.Stop()
	body, _, err := c.open(ctx, request{from: from})
	if err != nil {
		return checksum{}, fmt.Errorf("checksums of %s: %w", show(src.URL), err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(watch.Reader(body), maxSums+1))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return checksum{}, fmt.Errorf("%w: checksums %s: %w", ErrUnavailable, show(src.HashValue), err)
	}
	if len(text) > maxSums {
		return checksum{}, fmt.Errorf("%w: checksums %s are longer than %d bytes", ErrSource, show(src.HashValue), maxSums)
	}
	sum, err := findSum(string(text), src.HashAlgo, imageName(u))
	if err != nil {
		return checksum{}, fmt.Errorf("checksums %s: %w", show(src.HashValue), err)
	}
	return sum, nil
}

// sameServer reports whether what may be sent to the server of u may be sent to raw's: scheme, host and port are the same.
func sameServer(u *url.URL, raw string) bool {
	other, err := url.Parse(raw)
	return err == nil && other.Scheme == u.Scheme && strings.EqualFold(other.Host, u.Host)
}

func imageName(u *url.URL) string { return path.Base(u.Path) }

// findSum finds name in text, which is as the coreutils write it ("hex  name",
// "hex *name"), as BSD does ("SHA256 (name) = hex"), or one checksum alone.
func findSum(text, algo, name string) (checksum, error) {
	lone, lines := "", 0
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		value, file := "", ""
		if head, tail, ok := strings.Cut(line, ") = "); ok {
			_, file, _ = strings.Cut(head, " (")
			value = tail
		} else {
			value, file, _ = strings.Cut(line, " ")
			file = strings.TrimPrefix(strings.TrimLeft(file, " "), "*")
		}
		if file == "" {
			lone = value
		}
		if file == "" || path.Base(file) != name {
			continue
		}
		// A file may list one image by several algorithms: go on until one fits.
		if sum, err := parseChecksum(algo, value); err == nil {
			return sum, nil
		}
	}
	if err := s.Err(); err != nil {
		return checksum{}, fmt.Errorf("%w: %w", ErrSource, err)
	}
	if lines == 1 && lone != "" {
		if sum, err := parseChecksum(algo, lone); err == nil {
			return sum, nil
		}
		// What the line says may be another's: who names the URL is told nothing of an answer that is no list.
		return checksum{}, fmt.Errorf("%w: its one line of %d bytes is no checksum by %s", ErrSource, len(lone), orAny(algo))
	}
	return checksum{}, fmt.Errorf("%w: no %s for %.200q among %d lines", ErrSource, orAny(algo), name, lines)
}

func orAny(algo string) string {
	if algo == "" {
		return "sha256 or sha512"
	}
	return algo
}
