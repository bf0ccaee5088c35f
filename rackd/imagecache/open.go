package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ironyard/ironyard/rackd/ociimage"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// File opens an image that is in the cache, and keeps it from eviction until done is called. The error wraps
// fs.ErrNotExist for one that is not here.
func (c *Cache) File(id string) (f *os.File, done func(), err error) {
	e := c.acquire(id)
	if e == nil {
		return nil, nil, fmt.Errorf("image %s in the rack's cache: %w", id, fs.ErrNotExist)
	}
	if f, err = os.Open(filepath.Join(c.dir, id)); err != nil {
		c.release(e)
		return nil, nil, err
	}
	return f, func() { f.Close(); c.release(e) }, nil
}

// request is what is asked of an address.
type request struct {
	from supplier
	// known is what is known of the address; nil: nothing, and nothing is to be noted.
	known *address
	// copy: another rackd's cache may answer.
	copy bool
	// consent: whether it would be given is all that is asked; the body is none.
	consent bool
}

// open opens an address; size is -1 if it is not known. Given what is known of the
// address, it returns no body when that has not changed, and else tells known the
// version that it opened. Errors are of this package.
func (c *Cache) open(ctx context.Context, ask request) (body io.ReadCloser, size int64, err error) {
	raw, known := ask.from.url, ask.known
	u, err := parseURL(raw)
	if err != nil {
		return nil, 0, err
	}
	if u.Scheme == "file" {
		return c.openFile(u.Path, known)
	}
	ctx = outbound.Through(ctx, ask.from.via)
	if u.Scheme == ociimage.Scheme {
		return c.openBlob(ctx, ask.from)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s", ErrSource, show(raw))
	}
	// The checksum is of the file as it is stored, not of what a transfer coding hides.
	req.Header.Set("Accept-Encoding", "identity")
	if known != nil && known.ETag != "" {
		req.Header.Set("If-None-Match", known.ETag)
	} else if known != nil && known.Modified != "" {
		req.Header.Set("If-Modified-Since", known.Modified)
	}
	if ask.from.authorization != "" {
		req.Header.Set("Authorization", ask.from.authorization)
	}
	if ask.consent {
		req.Header.Set("Range", "bytes=0-0")
	}
	res, err := c.client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the address, which may hold secrets
		}
		return nil, 0, fmt.Errorf("%w: GET %s: %w", dialError(err), show(raw), err)
	}
	if res.Header.Get(headerImage) != "" && !ask.copy {
		res.Body.Close()
		return nil, 0, fmt.Errorf("%w: %s is the image cache of a rackd, which cannot be a source of images; give the address of the original server", ErrSource, show(raw))
	}
	agreed := res.StatusCode == http.StatusPartialContent || res.StatusCode == http.StatusRequestedRangeNotSatisfiable // of an empty file
	if res.StatusCode == http.StatusOK || ask.consent && agreed {
		if known != nil {
			*known = address{ETag: res.Header.Get("ETag"), Modified: settled(res.Header)}
		}
		return res.Body, res.ContentLength, nil
	}
	res.Body.Close()
	if res.StatusCode == http.StatusNotModified && known != nil && known.ID != "" {
		return nil, 0, nil
	}
	return nil, 0, fmt.Errorf("%w: GET %s answered %d %s", statusError(res.StatusCode), show(raw), res.StatusCode, http.StatusText(res.StatusCode))
}

// modifiedSettles is how much older than the answer a Last-Modified has to be. It counts seconds: what is written twice within one has
// the same (RFC 9110, 8.8.2.2).
const modifiedSettles = 2 * time.Second

// settled is the Last-Modified of an answer that tells its version from any later one; empty: there is none.
func settled(h http.Header) string {
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return ""
	}
	answered, err := http.ParseTime(h.Get("Date"))
	if err != nil || answered.Sub(modified) < modifiedSettles {
		return ""
	}
	return h.Get("Last-Modified")
}

// dialError tells an address that is not dialled from a server that does not answer.
func dialError(err error) error {
	if _, refused := errors.AsType[*outbound.RefusedError](err); refused {
		return ErrSource
	}
	return ErrUnavailable
}

// statusError tells the refusals that stay from those that pass.
func statusError(code int) error {
	switch {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code == http.StatusTooEarly:
		return ErrUnavailable
	case code >= 400 && code < 500:
		return ErrNotFound
	}
	return ErrUnavailable
}

// openFile opens path if it is in an allowed folder. os.Root keeps symbolic links
// from leading out of it.
func (c *Cache) openFile(path string, known *address) (io.ReadCloser, int64, error) {
	path = filepath.Clean(path)
	for _, dir := range c.allowed {
		rel, err := filepath.Rel(filepath.Clean(dir), path)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		return openIn(dir, rel, path, known)
	}
	return nil, 0, fmt.Errorf("%w: file://%s is in none of the folders from which this rackd may read images (--image-dirs)", ErrSource, path)
}

func openIn(dir, rel, path string, known *address) (io.ReadCloser, int64, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, fileError(path, err)
	}
	defer root.Close()
	// Not blocking: a named pipe would hold the fetch for ever.
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, fileError(path, err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if known != nil {
			version := versionOf(info)
			if known.ETag == version {
				f.Close()
				return nil, 0, nil
			}
			*known = address{ETag: version}
		}
		return &steady{File: f, path: path, opened: info}, info.Size(), nil
	}
	f.Close()
	if err != nil {
		return nil, 0, fileError(path, err)
	}
	return nil, 0, fmt.Errorf("%w: file://%s is not a regular file", ErrSource, path)
}

// versionOf tells versions of a file from each other.
func versionOf(info fs.FileInfo) string {
	return fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())
}

// steady is a file that ends with an error where it was written to while it was read: half of it may be of the former version.
type steady struct {
	*os.File
	path   string
	opened fs.FileInfo
	read   int64
}

func (s *steady) Read(p []byte) (int, error) {
	n, err := s.File.Read(p)
	s.read += int64(n)
	if err == nil && s.read < s.opened.Size() {
		return n, nil
	}
	now, statErr := s.Stat()
	if statErr != nil {
		return 0, fileError(s.path, statErr)
	}
	if versionOf(now) != versionOf(s.opened) {
		return 0, fmt.Errorf("file://%s on this rackd's machine was written to while rackd read it; "+
			"put a new image beside it and rename that to its name", s.path)
	}
	return n, err
}

func fileError(path string, err error) error {
	kind := ErrUnavailable
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		kind = ErrNotFound
	case errors.As(err, new(*fs.PathError)):
		kind = ErrSource // a link out of the folder, or a folder
	}
	return fmt.Errorf("%w: file://%s on this rackd's machine: %w", kind, path, err)
}
