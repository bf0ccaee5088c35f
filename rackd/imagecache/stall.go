package imagecache

import (
	"context"
	"fmt"
	"io"
	"time"
)

// stallWatch ends a context when nothing has come for a while.
type stallWatch struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watch derives a context that ends, with a cause that says so, when no reader of
// the watch has brought a byte for the cache's stall time. The caller stops it.
func (c *Cache) watch(ctx context.Context) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &stallWatch{after: c.stall, cancel: cancel}
	w.timer = time.AfterFunc(w.after, func() {
		cancel(fmt.Errorf("nothing came for %s", w.after))
	})
	return ctx, w
}

func (w *stallWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *stallWatch) reader(r io.Reader) io.Reader { return stallReader{r, w} }

type stallReader struct {
	r io.Reader
	w *stallWatch
}

func (s stallReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if n > 0 {
		s.w.timer.Reset(s.w.after)
	}
	return n, err
}
