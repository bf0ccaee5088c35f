package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/protocol/trickle"
)

// tries runs one attempt after another over the URLs until one succeeds, fails for
// good, or Attempts network errors have happened on what is left of the URLs.
func (w *Writer) tries(ctx context.Context, urls []string, run func(url string) (int64, error)) (int64, error) {
	pause := w.firstPause()
	left := append([]string(nil), urls...)
	failures := 0
	for {
		url := left[failures%len(left)]
		n, err := run(url)
		if err == nil {
			return n, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("writing image: %w", context.Cause(ctx))
		}
		var refused *StatusError
		if errors.As(err, &refused) {
			// This server does not have it; another may.
			if left = without(left, url); len(left) == 0 {
				return 0, err
			}
			continue
		}
		t, ok := isTransient(err)
		if !ok {
			return 0, err
		}
		if failures++; failures >= Attempts {
			return 0, &DownloadError{URL: redact(url), Tries: failures, Bytes: t.bytes, Err: t.err}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("writing image: %w", context.Cause(ctx))
		case <-time.After(pause):
			pause *= 2
		}
	}
}

func without(list []string, s string) []string {
	var out []string
	for _, l := range list {
		if l != s {
			out = append(out, l)
		}
	}
	return out
}

// part is the range of a file that is asked for; the zero part is all of it.
type part struct {
	off int64
	n   int64 // 0: to the end
	// etag makes a server that has another file than this refuse the range.
	etag string
}

func (p part) whole() bool { return p.off == 0 && p.n == 0 }

// body is one answer with a file, or a part of one. It counts, and ends with a
// transient error when too little arrives.
type body struct {
	ctx    context.Context
	watch  *trickle.Watch
	rc     io.ReadCloser
	in     io.Reader // rc, watched
	length int64     // -1: not known
	etag   string
	n      int64
}

// get asks for a part of a file.
func (w *Writer) get(ctx context.Context, url string, p part) (*body, error) {
	stall := w.Stall
	if stall == 0 {
		stall = trickle.Within
	}
	ctx, watch := trickle.Begin(ctx, redact(url), stall)
	b := &body{ctx: ctx, watch: watch}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		b.Close()
		return nil, &FormatError{Image: redact(url), Reason: "the URL cannot be asked for"}
	}
	// The checksum is over the file as stored, so no encoding on the way.
	req.Header.Set("Accept-Encoding", "identity")
	want := http.StatusOK
	if !p.whole() {
		end := ""
		if p.n > 0 {
			end = strconv.FormatInt(p.off+p.n-1, 10)
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%s", p.off, end))
		want = http.StatusPartialContent
	}
	if p.etag != "" {
		req.Header.Set("If-Range", p.etag)
	}
	resp, err := w.Client.Do(req)
	if err != nil {
		err = b.cause(err)
		b.Close()
		return nil, &transient{err: err}
	}
	b.rc, b.in, b.length, b.etag = resp.Body, watch.Reader(resp.Body), resp.ContentLength, resp.Header.Get("ETag")
	if resp.StatusCode != want {
		b.Close()
		e := &StatusError{URL: redact(url), Status: resp.Status, Code: resp.StatusCode}
		if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout {
			return nil, &transient{err: errors.New("the server answered " + resp.Status)}
		}
		return nil, e
	}
	return b, nil
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.n += int64(n)
	if err != nil && err != io.EOF {
		err = &transient{err: b.cause(err), bytes: b.n}
	}
	return n, err
}

// cause prefers why we gave up over "context canceled".
func (b *body) cause(err error) error {
	if c := context.Cause(b.ctx); c != nil {
		return c
	}
	return err
}

func (b *body) Close() {
	if b.rc != nil {
		b.rc.Close()
	}
	b.watch.Stop()
}
