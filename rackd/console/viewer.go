package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/rackd/driver"
)

const (
	// ahead is how much of what a BMC sends is read before its viewer has asked for it.
	ahead = 2 * ask.ViewerPiece
	// picturesPerSecond is how fast a BMC is read for one viewer. A screen of 1024 by 768 pixels without compression is 3 MiB.
	picturesPerSecond = 8 << 20
)

// viewer is one viewer of a graphical console, with its line.
type viewer struct {
	tenancy string
	sum     string // of what it was opened with
	line    driver.Line
	metrics Metrics

	mu     sync.Mutex
	used   time.Time     // when it was asked about last
	from   int64         // what its asker has
	data   []byte        // what follows
	ended  string        // why nothing follows data; empty: something may
	news   chan struct{} // closed when anything changes
	room   chan struct{} // one place: data has become shorter
	typing chan struct{} // one place: who is in it writes
	sent   int64         // what the BMC has; the holder of typing's place uses it
}

func newViewer(tenancy, sum string, line driver.Line, m Metrics) *viewer {
	return &viewer{tenancy: tenancy, sum: sum, line: line, metrics: m, used: time.Now(), news: make(chan struct{}), room: make(chan struct{}, 1), typing: make(chan struct{}, 1)}
}

// pump reads the line until it ends. It waits while its asker has not taken what was read: RFB is nothing with a byte left out.
func (v *viewer) pump(ctx context.Context) {
	pace := rate.NewLimiter(picturesPerSecond, picturesPerSecond)
	buf := make([]byte, 32<<10)
	for {
		n, err := v.line.Read(buf)
		v.mu.Lock()
		v.data = append(v.data, buf[:n]...)
		full := len(v.data) >= ahead
		v.changed()
		v.mu.Unlock()
		v.metrics.ConsoleBytes(n, 0)
		if errors.Is(err, io.EOF) {
			err = errClosed
		}
		if err != nil {
			v.end(err.Error())
			return
		}
		if pace.WaitN(ctx, n) != nil {
			return
		}
		for full {
			select {
			case <-v.room:
			case <-ctx.Done():
				return
			}
			v.mu.Lock()
			full = len(v.data) >= ahead
			v.mu.Unlock()
		}
	}
}

// changed wakes those who wait. mu is held.
func (v *viewer) changed() {
	close(v.news)
	v.news = make(chan struct{})
}

// end notes why nothing more comes. The first reason stays.
func (v *viewer) end(why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended == "" {
		v.ended = why
		v.changed()
	}
}

// silent reports whether no question about it has come for as long as it is kept.
func (v *viewer) silent() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Since(v.used) > ask.ViewerSilent
}

// read returns what follows a place, or nothing when ctx ends. ok is false where the place is gone, or has not come.
func (v *viewer) read(ctx context.Context, from int64) (out ask.ViewerOutput, ok bool) {
	for {
		v.mu.Lock()
		v.used = time.Now()
		if from < v.from || from > v.from+int64(len(v.data)) {
			v.mu.Unlock()
			return out, false
		}
		if n := from - v.from; n > 0 { // its asker has them
			v.data, v.from = v.data[:copy(v.data, v.data[n:])], from
			select {
			case v.room <- struct{}{}:
			default:
			}
		}
		out.Data = append([]byte(nil), v.data[:min(len(v.data), ask.ViewerPiece)]...)
		if len(out.Data) == len(v.data) {
			out.Ended = v.ended
		}
		news := v.news
		v.mu.Unlock()
		if len(out.Data) > 0 || out.Ended != "" {
			return out, true
		}
		select {
		case <-news:
		case <-ctx.Done():
			return out, true
		}
	}
}

// write sends what follows what was sent before. What is asked for again because its answer was lost is sent once.
func (v *viewer) write(ctx context.Context, q ask.ViewerInput) error {
	select {
	case v.typing <- struct{}{}:
		defer func() { <-v.typing }()
	case <-ctx.Done():
		return fmt.Errorf("nothing was sent: %w: %w", ctx.Err(), driver.ErrUnreachable)
	}
	v.mu.Lock()
	v.used = time.Now()
	ended := v.ended
	v.mu.Unlock()
	left := v.sent - q.At
	switch {
	case left < 0:
		return fmt.Errorf("%d bytes before it are missing: %w", -left, driver.ErrInvalid)
	case left >= int64(len(q.Data)):
		return nil
	case ended != "":
		return fmt.Errorf("%s: %w", ended, driver.ErrInvalid)
	}
	rest := q.Data[left:]
	if err := v.line.Write(ctx, rest); err != nil {
		return err
	}
	v.sent += int64(len(rest))
	v.metrics.ConsoleBytes(0, len(rest))
	return nil
}
