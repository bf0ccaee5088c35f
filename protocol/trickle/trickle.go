// Package trickle ends a download whose server sends too little.
//
// It may import nothing of the project. Invariant: a reader waits Within at most for each Least bytes of a
// body, the answer's head included. Only the time in which a reader waits for the server counts: a slow disk
// at the reader's end is not blamed on the server.
package trickle

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// Least is how many bytes a server must send in each Within: 17 KiB/s. A link of a few hundred KiB/s that
	// ten downloads share still passes. An image of n MiB makes its reader wait for n minutes at most.
	Least = 1 << 20
	// Within is the time for Least bytes. A server may pause for almost as long between two of them.
	Within = time.Minute
)

// Error says which server sent how little, and in which time.
type Error struct {
	From  string
	Bytes int64
	In    time.Duration
}

func (e *Error) Error() string {
	sent := "nothing"
	if e.Bytes > 0 {
		sent = fmt.Sprintf("%d bytes", e.Bytes)
	}
	return fmt.Sprintf("%s sent %s in %s, less than the minimum of %d bytes; look at that server's load and at the network to it", e.From, sent, e.In, Least)
}

// Watch is of one download. Its methods may be called from several goroutines.
type Watch struct {
	from   string
	within time.Duration
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration // of within, when since was noted
	since time.Time     // since when a reader waits; zero: no reader waits
	bytes int64         // since within began
}

// Begin derives a context that ends with an *Error as its cause once the server sends too little. The time
// counts from now on, so that it bounds the connection and the answer's head too. The caller stops the watch.
// from names the server in the error; it must hold no secret.
func Begin(ctx context.Context, from string, within time.Duration) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{from: from, within: within, cancel: cancel, left: within, since: time.Now()}
	w.timer = time.AfterFunc(within, w.end)
	return ctx, w
}

// Stop ends the watch and its context.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// Reader counts what r brings, and the time that it takes.
func (w *Watch) Reader(r io.Reader) io.Reader { return &reader{r, w} }

func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() || time.Since(w.since) < w.left {
		return // bytes came while the timer fired
	}
	w.cancel(&Error{From: w.from, Bytes: w.bytes, In: w.within})
}

// waits notes that a reader waits from now on.
func (w *Watch) waits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		return // since Begin
	}
	w.since = time.Now()
	w.timer.Reset(w.left)
}

// came notes that a reader waits no longer, and what it was given.
func (w *Watch) came(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.left -= time.Since(w.since)
	w.since = time.Time{}
	if w.bytes += int64(n); w.bytes >= Least {
		w.left, w.bytes = w.within, 0
	}
}

type reader struct {
	r io.Reader
	w *Watch
}

func (r *reader) Read(p []byte) (int, error) {
	r.w.waits()
	n, err := r.r.Read(p)
	r.w.came(n)
	return n, err
}
