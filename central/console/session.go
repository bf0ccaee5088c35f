package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/ironyard/ironyard/protocol/ask"
)

// maxMessage bounds a message of a client.
const maxMessage = 64 << 10

// Session is one WebSocket and the console behind it.
type Session struct {
	rack Rack
	conn *websocket.Conn
	// notes: the client speaks Protocol.
	notes bool
	// used is when a byte went last, in either direction, in nanoseconds.
	used atomic.Int64
	idle time.Duration
	link context.Context // of the WebSocket, while Run runs
	// listens is since when the session waits for the client's next word, in nanoseconds; 0: it hands on the last one, and hears nothing.
	listens atomic.Int64
	// viewer is there once a graphical console is open.
	viewer atomic.Pointer[viewer]
}

// Accept makes a WebSocket of a request whose origin was looked at.
func Accept(w http.ResponseWriter, r *http.Request, rack Rack) (*Session, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Protocol, binaryProtocol}, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return &Session{rack: rack, conn: conn, notes: conn.Subprotocol() == Protocol, idle: Idle}, nil
}

// end is why a session ends.
type end struct {
	code websocket.StatusCode
	why  string
}

func (e *end) Error() string { return e.why }

// Run carries the console until the client goes, its rights end, no rackd answers for silentFor, or ctx ends. It returns
// why, for the log; nil: the client has closed it.
func (s *Session) Run(ctx context.Context) error {
	ctx, release := context.WithTimeoutCause(ctx, Longest, &end{websocket.StatusGoingAway, fmt.Sprintf("a session lasts %s: open another one", Longest)})
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A WebSocket whose reader's context ends is cut without a word. It lives on until it was closed.
	link, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.link = link
	s.use()
	parts := []func(context.Context) error{s.show, s.typed, s.watch}
	done := make(chan error, len(parts))
	for _, part := range parts {
		go func() { done <- part(ctx) }()
	}
	first := <-done
	if told, ok := errors.AsType[*end](first); ok {
		s.conn.Close(told.code, shortened(told.why)) // waits for the client's answer, 5 s at most
	} else {
		s.conn.CloseNow()
	}
	cancel()
	cut()
	for range len(parts) - 1 { // the first end is the reason
		if next := <-done; errors.Is(next, errTookNothing) {
			first = next // a write that waits too long closes the connection first: the read then fails before it
		}
	}
	if websocket.CloseStatus(first) != -1 {
		return nil
	}
	return first
}

// shortened fits a reason into a close message (RFC 6455, 5.5).
func shortened(text string) string {
	const most = 120
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (s *Session) use() { s.used.Store(time.Now().UnixNano()) }

// show writes to the client what the machine writes.
func (s *Session) show(ctx context.Context) error {
	var at ask.ConsoleRead
	said, silent := "", time.Time{}
	for {
		at.WaitMS = quietFor.Milliseconds()
		out, err := s.rack.Read(ctx, at)
		if ctx.Err() != nil {
			return s.over(ctx)
		}
		if err != nil {
			if final(err) {
				return &end{websocket.StatusPolicyViolation, err.Error()}
			}
			if silent.IsZero() {
				silent = time.Now()
			}
			if time.Since(silent) > silentFor {
				return &end{websocket.StatusTryAgainLater, err.Error()}
			}
			if said != err.Error() {
				said = err.Error()
				if err := s.note(Note{State: said}); err != nil {
					return err
				}
			}
			at.State = ""
			select {
			case <-ctx.Done():
			case <-time.After(retryEvery):
			}
			continue
		}
		silent = time.Time{}
		if out.Graphical {
			return s.pictures(ctx)
		}
		if err := s.tell(at, out, &said); err != nil {
			return err
		}
		at.Log, at.From, at.State = out.Log, out.Next, out.State
	}
}

// tell writes one answer of the rackd. said is the state that the client knows.
func (s *Session) tell(at ask.ConsoleRead, out ask.ConsoleOutput, said *string) error {
	if at.Log != "" && at.Log != out.Log {
		if err := s.note(Note{NewLog: true}); err != nil {
			return err
		}
	}
	if out.Lost > 0 {
		if err := s.note(Note{Lost: out.Lost}); err != nil {
			return err
		}
	}
	if len(out.Data) > 0 {
		s.use()
		if err := s.write(websocket.MessageBinary, out.Data); err != nil {
			return err
		}
	}
	if *said != out.State {
		*said = out.State
		return s.note(Note{State: out.State})
	}
	return nil
}

func (s *Session) note(n Note) error {
	if !s.notes {
		return nil
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.write(websocket.MessageText, raw)
}

var errTookNothing = errors.New("the client took nothing")

func (s *Session) write(kind websocket.MessageType, p []byte) error {
	bounded, cancel := context.WithTimeoutCause(s.link, writeWithin, errTookNothing)
	defer cancel()
	err := s.conn.Write(bounded, kind, p)
	if err != nil && errors.Is(context.Cause(bounded), errTookNothing) {
		return fmt.Errorf("%w for %s: %w", errTookNothing, writeWithin, err)
	}
	return err
}

// typed types what the client sends.
func (s *Session) typed(ctx context.Context) error {
	pace := rate.NewLimiter(typedPerSecond, maxMessage)
	for {
		s.listens.Store(time.Now().UnixNano())
		kind, p, err := s.conn.Read(s.link)
		if err != nil {
			return err
		}
		s.listens.Store(0)
		s.use()
		if err := pace.WaitN(ctx, len(p)); err != nil {
			return s.over(ctx)
		}
		var in []ask.ConsoleInput
		if v := s.viewer.Load(); v != nil && !(kind == websocket.MessageText && s.notes) {
			if err := v.take(ctx, p); err != nil {
				return s.over(ctx)
			}
			continue
		}
		if kind == websocket.MessageText && s.notes {
			var o Order
			if err := json.Unmarshal(p, &o); err != nil {
				return &end{websocket.StatusInvalidFramePayloadData, "a text message is no order in JSON"}
			}
			if o.Break {
				in = append(in, ask.ConsoleInput{Break: true})
			}
		} else {
			for len(p) > 0 {
				n := min(len(p), ask.ConsoleTyped)
				in = append(in, ask.ConsoleInput{Data: p[:n]})
				p = p[n:]
			}
		}
		for _, q := range in {
			err := s.rack.Write(ctx, q)
			if err == nil {
				continue
			}
			if ctx.Err() != nil {
				return s.over(ctx)
			}
			if final(err) && !q.Break { // a console without breaks goes on
				return &end{websocket.StatusPolicyViolation, err.Error()}
			}
			// It may or may not have reached the machine: the person looks, and types again.
			if err := s.note(Note{Error: err.Error()}); err != nil {
				return err
			}
			break
		}
	}
}

// watch asks whether the client is there, and ends a session without use.
func (s *Session) watch(ctx context.Context) error {
	tick := time.NewTicker(min(pingEvery, s.idle/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.over(ctx)
		case <-tick.C:
		}
		if unused := time.Since(time.Unix(0, s.used.Load())); unused > s.idle {
			return &end{websocket.StatusGoingAway, fmt.Sprintf("nothing was written or typed for %s", s.idle)}
		}
		asked := time.Now().UnixNano()
		pinging, cancel := context.WithTimeout(s.link, writeWithin)
		err := s.conn.Ping(pinging)
		cancel()
		// While the machine takes nothing, the session does not hear the client's answer.
		if since := s.listens.Load(); err != nil && s.link.Err() == nil && since != 0 && since <= asked {
			return fmt.Errorf("the client does not answer: %w", err)
		}
	}
}

// over is why ctx has ended: another part of the session, or the server.
func (s *Session) over(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return &end{websocket.StatusGoingAway, "this server stops; come back"}
}

// final reports whether an error says a status that trying again does not change.
func final(err error) bool {
	own := interface{ HTTPStatus() int }(nil)
	return errors.As(err, &own) && own.HTTPStatus() >= 400 && own.HTTPStatus() < 500
}
