package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/protocol/ask"
)

const (
	// openedWithin is for how long central asks again to open a viewer that the rackd or its BMC cannot open now.
	openedWithin = 5 * time.Second
	// farewell bounds the giving back of a viewer whose session has ended.
	farewell = 3 * time.Second
)

// viewer is the client of a graphical console. What it sends waits in queue, in pieces of ask.ConsoleTyped at most, so that many small
// messages go in one question, and a BMC that takes nothing costs little.
type viewer struct {
	of    ask.Viewer
	queue chan []byte
}

func newViewer() *viewer {
	return &viewer{of: ask.Viewer{ID: rand.Text()}, queue: make(chan []byte, 64)}
}

// pictures carries a graphical console: it opens a viewer at the rackd and writes to the client what the BMC sends. Nothing is left out
// and nothing doubled: a question that was not answered is asked again, and the viewer ends where that is in vain.
func (s *Session) pictures(ctx context.Context) error {
	v := newViewer()
	defer func() { // also of one that was not seen to open: it has a place at the rackd
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = s.rack.CloseViewer(leaving, v.of) // else the rackd closes it a little later
	}()
	if err := s.insist(ctx, openedWithin, func() error { return s.rack.OpenViewer(ctx, v.of) }); err != nil {
		_ = s.note(Note{State: err.Error()}) // a close message is short
		return err
	}
	s.viewer.Store(v)
	if err := s.note(Note{State: ask.ConsoleOpen}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := s.send(ctx, v); err != nil {
			cancel(err)
		}
	}()
	err := s.shown(ctx, v)
	cancel(nil)
	<-sent
	return err
}

// shown writes to the client what the BMC sends.
func (s *Session) shown(ctx context.Context, v *viewer) error {
	at := ask.ViewerRead{Viewer: v.of, WaitMS: quietFor.Milliseconds()}
	for {
		if ctx.Err() != nil {
			return s.over(ctx)
		}
		var out ask.ViewerOutput
		err := s.insist(ctx, ask.ViewerSilent, func() (err error) {
			out, err = s.rack.ReadViewer(ctx, at)
			return err
		})
		if err != nil {
			return err
		}
		at.From += int64(len(out.Data))
		if len(out.Data) > 0 {
			s.use()
			if err := s.write(websocket.MessageBinary, out.Data); err != nil {
				return err
			}
		}
		if out.Ended != "" {
			_ = s.note(Note{State: out.Ended})
			return &end{websocket.StatusGoingAway, out.Ended}
		}
	}
}

// send sends to the BMC what the client has sent.
func (s *Session) send(ctx context.Context, v *viewer) error {
	var rest []byte // of a message
	for at := int64(0); ; {
		if len(rest) == 0 {
			select {
			case rest = <-v.queue:
			case <-ctx.Done():
				return nil
			}
		}
		for more := true; more && len(rest) < ask.ConsoleTyped; {
			select {
			case next := <-v.queue:
				rest = append(rest, next...)
			default:
				more = false
			}
		}
		q := ask.ViewerInput{Viewer: v.of, At: at, Data: rest[:min(len(rest), ask.ConsoleTyped)]}
		if err := s.insist(ctx, ask.ViewerSilent, func() error { return s.rack.WriteViewer(ctx, q) }); err != nil {
			return err
		}
		at += int64(len(q.Data))
		rest = rest[len(q.Data):]
	}
}

// take hands over what the client has sent. It waits while the BMC takes nothing.
func (v *viewer) take(ctx context.Context, p []byte) error {
	for piece := range slices.Chunk(p, ask.ConsoleTyped) {
		select {
		case v.queue <- piece:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// insist asks until there is an answer, or a refusal, or within has passed without either. What is asked may be asked again.
func (s *Session) insist(ctx context.Context, within time.Duration, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return s.over(ctx)
		case !comesBack(err):
			return &end{websocket.StatusPolicyViolation, err.Error()}
		case time.Since(began) > within:
			return &end{websocket.StatusTryAgainLater, err.Error()}
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

// comesBack reports whether an error is over soon: no rackd has answered, or the one that did says so.
func comesBack(err error) bool {
	own := interface{ HTTPStatus() int }(nil)
	return !errors.As(err, &own) || own.HTTPStatus() == http.StatusServiceUnavailable || own.HTTPStatus() == http.StatusGatewayTimeout
}
