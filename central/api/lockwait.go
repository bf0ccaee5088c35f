package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/central/dispatch"
)

// DefaultLockWait is how long Ironic tries to lock a node before it refuses a request: three
// times, a second apart (its options conductor/node_locked_retry_attempts and _interval).
// Clients ask for power and for the next thing at once, and count on it.
const DefaultLockWait = 3 * time.Second

// The pauses between two looks at a node that is waited for.
const (
	shortestLook = 10 * time.Millisecond
	longestLook  = 200 * time.Millisecond
)

// lockWaits counts the requests that wait for a node. It is safe for concurrent use.
type lockWaits struct {
	now atomic.Int64
	max int64 // 0: no bound
}

// carryOut runs a handler; again, when it was refused because of work that has ended
// within LockWait. What was refused has changed nothing, so that doing it again is safe.
func (s *Server) carryOut(r *Request, handle Handler) (Reply, error) {
	if s.LockWait <= 0 || !recorded(r.Method) {
		return handle(r)
	}
	body := &replay{ReadCloser: r.Body}
	r.Body = body
	asked := *r
	end := time.Now().Add(s.LockWait)
	for {
		reply, err := handle(r)
		refusal, refused := errors.AsType[*dispatch.Refusal](err)
		if !refused || refusal.Locked == "" || !s.waitFor(r.Context(), refusal.Locked, end) {
			return reply, err
		}
		body.rewind()
		*r = asked
		r.Body = body
	}
}

// waitFor reports whether the node is free before end: its work has ended or, having been
// busy, does nothing but wait.
func (s *Server) waitFor(ctx context.Context, node string, end time.Time) bool {
	w := &s.lockWaits
	defer w.now.Add(-1)
	if now := w.now.Add(1); w.max > 0 && now > w.max {
		return false
	}
	busy := false
	for pause := shortestLook; ; pause = min(2*pause, longestLook) {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return false
		}
		n, err := s.Store.Node(ctx, node)
		if err != nil {
			return true // the handler will say why
		}
		now := dispatch.Busy(n) || n.TargetPowerState != ""
		if n.WorkID == "" || busy && !now {
			return true
		}
		busy = now
	}
}

// replay is a body that can be read again.
type replay struct {
	io.ReadCloser
	read  bytes.Buffer // what was read of the body
	again bytes.Reader // of that, what is to be read once more
}

func (b *replay) Read(p []byte) (int, error) {
	if b.again.Len() > 0 {
		return b.again.Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	return n, err
}

func (b *replay) rewind() { b.again.Reset(b.read.Bytes()) }
