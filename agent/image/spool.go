package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// randomFile is a file that can be read anywhere.
type randomFile interface {
	io.ReaderAt
	Close() error
	// whole returns once all of the file has come: nil if its checksum is right.
	whole() error
}

// kept is a verified file in the spool.
type kept struct{ *os.File }

func (kept) whole() error { return nil }

// file makes the file at url readable anywhere: in the spool if it fits, else by range requests. It has its checksum verified before, but
// for a file that is read while it comes.
func (a *attempt) file(ctx context.Context, url string) (_ randomFile, err error) {
	s, err := a.open(ctx, url)
	if err != nil {
		return nil, err
	}
	mine := true
	defer func() {
		if mine {
			s.Close()
		}
	}()
	// The size is known before the download, so a disk that is too small is too.
	head := make([]byte, headLen)
	n, err := io.ReadFull(s.plain, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, a.ending(s, url, err)
	}
	head = head[:n]
	if err := a.spec.sniff(head, url); err != nil {
		return nil, err
	}
	h, err := a.spec.qcow2Header(bytes.NewReader(head))
	if err != nil {
		return nil, err
	}
	if err := a.fits(h); err != nil {
		return nil, err
	}
	plain := io.MultiReader(bytes.NewReader(head), s.plain)
	limit := a.w.SpoolLimit()
	if a.spec.Compression == "" && s.length > limit {
		return a.twice(ctx, url, s, plain)
	}
	f, err := os.CreateTemp(a.w.SpoolDir, "image-*")
	if err != nil {
		return nil, fmt.Errorf("keeping the image: %w", err)
	}
	// Unlinked at once: the space is freed whatever happens to us.
	os.Remove(f.Name())
	if a.spec.Compression == "" && s.length > 0 {
		mine = false
		return a.arrive(s, url, plain, f), nil
	}
	if err := a.keep(s, url, plain, limit, f.Write); err != nil {
		f.Close()
		return nil, err
	}
	return kept{f}, nil
}

// keep gives the whole file to write, limit bytes at most, and verifies it.
func (a *attempt) keep(s *stream, url string, plain io.Reader, limit int64, write func([]byte) (int, error)) error {
	var n int64
	err := a.pump(io.LimitReader(plain, limit+1), func(p []byte) error {
		m, err := write(p)
		n += int64(m)
		if err != nil {
			return &keepError{err}
		}
		return nil
	})
	if full, ok := errors.AsType[*keepError](err); ok {
		return full
	}
	if r, ok := errors.AsType[*readError](err); ok {
		return a.ending(s, url, r.err)
	}
	if n > limit && a.spec.Compression == "" && s.length >= 0 {
		return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf("%s sent more than the %d bytes that the download began with: it is another file", redact(url), s.length)}
	}
	if n > limit && a.spec.Compression == "" {
		return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf(
			"%s has more than the %d bytes of memory that the agent has for it, and its server tells no length: serve it with a Content-Length, so that it is read by ranges", redact(url), limit)}
	}
	if n > limit {
		return &FormatError{Image: a.spec.ID, Reason: fmt.Sprintf(
			"%s unpacks to more than the %d bytes of memory that the agent has for it: serve the qcow2 file without outer compression (qcow2 compresses by itself), or serve a raw image", redact(url), limit)}
	}
	return a.verify(s, url)
}

// keepError is the spool's.
type keepError struct{ err error }

func (e *keepError) Error() string { return fmt.Sprintf("keeping the image: %v", e.err) }
func (e *keepError) Unwrap() error { return e.err }

const block = 1 << 20

// ranges reads a file by range requests and compares each block with the one that
// was seen when the whole file's checksum was verified.
type ranges struct {
	a    *attempt
	ctx  context.Context
	url  string
	size int64
	sums [][sha256.Size]byte
	// cache holds the newest blocks; a qcow2 file is mostly read in order.
	cache map[int64][]byte
	order []int64
}

const cachedBlocks = 16

// twice is the first pass over a file too large to keep.
func (a *attempt) twice(ctx context.Context, url string, s *stream, plain io.Reader) (randomFile, error) {
	r := &ranges{a: a, ctx: ctx, cache: map[int64][]byte{}}
	err := a.pump(plain, func(p []byte) error {
		r.sums = append(r.sums, sha256.Sum256(p))
		r.size += int64(len(p))
		return nil
	})
	if read, ok := errors.AsType[*readError](err); ok {
		err = read.err
	}
	if err == nil {
		err = a.verify(s, url)
	}
	if err != nil {
		return nil, err
	}
	r.url = s.urls[0]
	return r, nil
}

func (r *ranges) Close() error { return nil }

func (r *ranges) whole() error { return nil }

func (r *ranges) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		if at < 0 || at >= r.size {
			return done, io.EOF
		}
		b, err := r.block(at / block)
		if err != nil {
			return done, err
		}
		done += copy(p[done:], b[at%block:])
	}
	return done, nil
}

func (r *ranges) block(i int64) ([]byte, error) {
	if b, ok := r.cache[i]; ok {
		return b, nil
	}
	data := make([]byte, min(block, r.size-i*block))
	// Any server will do: what it sends is compared with what was verified.
	failed := 0
	_, err := r.a.w.insist(r.ctx, from(r.a.spec.URLs, r.url), &failed, func(url string) (*body, error) {
		src, err := r.a.w.get(r.ctx, url, part{off: i * block, n: int64(len(data))})
		if err != nil {
			return nil, err
		}
		defer src.Close()
		if _, err := io.ReadFull(src, data); err != nil {
			return nil, &transient{err: err, bytes: i * block}
		}
		r.url = url // the next block too
		return src, nil
	})
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(data); got != r.sums[i] {
		return nil, &ChecksumError{URL: redact(r.url), Algo: "sha256", Want: fmt.Sprintf("%x of its MiB %d", r.sums[i], i),
			Got: fmt.Sprintf("%x (the file changed while it was read)", got), Bytes: r.size}
	}
	if len(r.order) == cachedBlocks {
		delete(r.cache, r.order[0])
		r.order = r.order[1:]
	}
	r.cache[i], r.order = data, append(r.order, i)
	return data, nil
}
