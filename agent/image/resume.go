package image

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/trickle"
)

const (
	// resumes is how often a download that broke off is asked to go on. The count begins again
	// when trickle.Least has come. With the pauses, a server has the time to start again.
	resumes = 10
	// longestPause is between two of them.
	longestPause = 10 * time.Second
)

// download is a file on its way. Where a server breaks off, the rest comes from
// whichever has the same file by its entity tag: the rackd that serves an image may
// die in the middle, and its neighbours have a copy.
type download struct {
	w    *Writer
	ctx  context.Context
	urls []string // that of body first
	*body
	length int64 // of the file; -1: not known
	n      int64 // bytes of the file that were read
	etag   string
	broken error // why body ended early
	failed int   // times that it was to go on since it last brought trickle.Least
	fresh  int64 // bytes since then
}

// download begins to fetch the file at url, one of urls.
func (w *Writer) download(ctx context.Context, urls []string, url string) (*download, error) {
	b, err := w.get(ctx, url, part{})
	if err != nil {
		return nil, err
	}
	return &download{w: w, ctx: ctx, urls: from(urls, url), body: b, length: b.length, etag: b.etag}, nil
}

// from returns urls in their order, beginning with url.
func from(urls []string, url string) []string {
	for i, u := range urls {
		if u == url {
			return append(append([]string{}, urls[i:]...), urls[:i]...)
		}
	}
	return []string{url}
}

func (d *download) Read(p []byte) (int, error) {
	for {
		if d.broken != nil {
			if err := d.resume(); err != nil {
				return 0, err
			}
		}
		n, err := d.body.Read(p)
		d.n += int64(n)
		if d.fresh += int64(n); d.fresh >= trickle.Least {
			d.failed, d.fresh = 0, 0
		}
		if _, broke := isTransient(err); !broke {
			return n, err
		}
		d.broken = err
		if n > 0 {
			return n, nil
		}
	}
}

// resume replaces the body that broke by one with the rest of the file. Its error is
// why the download broke off in the first place.
func (d *download) resume() error {
	// A weak tag, or none, does not tell whether the other bytes are the same.
	if len(d.etag) < 2 || d.etag[0] != '"' || d.n == 0 || d.failed >= resumes || d.ctx.Err() != nil {
		return d.giveUp()
	}
	urls := append(append([]string{}, d.urls[1:]...), d.urls[0]) // the others first
	b, err := d.w.insist(d.ctx, urls, &d.failed, func(url string) (*body, error) {
		b, err := d.w.get(d.ctx, url, part{off: d.n, etag: d.etag})
		if err == nil {
			d.urls = from(d.urls, url)
		}
		return b, err
	})
	if err != nil {
		return d.giveUp()
	}
	d.failed++ // until it has brought enough
	d.body.Close()
	d.body, d.broken = b, nil
	return nil
}

func (d *download) giveUp() error {
	err := d.broken
	if t, ok := isTransient(err); ok {
		t.bytes = d.n
	}
	return err
}

// insist asks the servers at urls in turn, with growing pauses once one has failed,
// until one gives what get asks it for, all have refused, or failed has come to
// resumes.
func (w *Writer) insist(ctx context.Context, urls []string, failed *int, get func(url string) (*body, error)) (*body, error) {
	for {
		if *failed > 0 {
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("writing image: %w", context.Cause(ctx))
			case <-time.After(min(w.firstPause()<<(*failed-1), longestPause)):
			}
		}
		b, err := get(urls[0])
		if err == nil {
			return b, nil
		}
		if _, refused := errors.AsType[*StatusError](err); refused {
			if urls = urls[1:]; len(urls) == 0 {
				return nil, err
			}
			continue
		}
		if _, ok := isTransient(err); !ok {
			return nil, err
		}
		if *failed++; *failed >= resumes {
			return nil, err
		}
		urls = append(append([]string{}, urls[1:]...), urls[0])
	}
}

func (w *Writer) firstPause() time.Duration {
	if w.Pause == 0 {
		return 2 * time.Second
	}
	return w.Pause
}
