// Package askclient asks a rackd over the bus (protocol/ask) and turns what can go
// wrong into errors that say their HTTP status.
//
// It may import protocol and nats.go. It keeps what rackds' clocks showed and is safe
// for concurrent use. A question is asked once, its caller retries; one that its rackd found too
// old, and has not carried out, is asked once more if its time is not over.
package askclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
)

// MaxReply bounds a rackd's answer.
const MaxReply = 1 << 20

// Client asks rackds.
type Client struct {
	conn func(group string) (*nats.Conn, error)

	mu     sync.Mutex
	clocks map[string]reading // by the subject at which a rackd is asked
}

// reading is what a rackd's clock showed in an answer, and when that came.
type reading struct {
	clock ask.Clock
	at    time.Time // with its monotonic reading
}

// readingFor is how long a reading counts: clocks do not run alike for ever.
const readingFor = time.Hour

// until is what the clock of the rackd will show when left has passed, by its newest reading. It
// is a little early: the answer that told of the clock took its time.
func (c *Client) until(subject string, left time.Duration) ask.Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.clocks[subject]
	age := time.Since(r.at)
	if r.clock.ID == "" || age > readingFor {
		return ask.Clock{}
	}
	return r.clock.After(age + left)
}

// note keeps a reading.
func (c *Client) note(subject string, clock ask.Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clock.ID == "" {
		delete(c.clocks, subject)
		return
	}
	c.clocks[subject] = reading{clock, time.Now()}
}

// New makes a client. conn returns the connection to the site that serves a
// conductor group. An error of it that says its own HTTP status is returned as it is.
func New(conn func(group string) (*nats.Conn, error)) *Client {
	return &Client{conn: conn, clocks: map[string]reading{}}
}

// SilentError means that a rackd gave no answer: HTTP 503, worth a retry unless what was
// asked must not be done twice.
type SilentError struct {
	Conductor string
	Method    ask.Method
	Node      string
	Cause     error
	sent      bool
}

// Sent reports whether the question may have reached the rackd, so that it may have done
// what was asked.
func (e *SilentError) Sent() bool { return e.sent }

func (e *SilentError) Error() string {
	about := ""
	if e.Node != "" {
		about = " about node " + e.Node
	}
	return fmt.Sprintf("Conductor %s did not answer the question %s%s: %v. Retry; if it persists, look whether the rackd runs and its site is linked.",
		e.Conductor, e.Method, about, e.Cause)
}

func (e *SilentError) Unwrap() error { return e.Cause }

// HTTPStatus is 503.
func (e *SilentError) HTTPStatus() int { return http.StatusServiceUnavailable }

// AnswerError is a rackd's refusal, with the status that it chose.
type AnswerError struct {
	Conductor string
	Answer    ask.Error
}

func (e *AnswerError) Error() string { return e.Answer.Message }

// Unwrap is what the rackd said.
func (e *AnswerError) Unwrap() error { return &e.Answer }

// HTTPStatus is the rackd's status, 500 for a nonsensical one.
func (e *AnswerError) HTTPStatus() int {
	if e.Answer.Status < 400 || e.Answer.Status > 599 {
		return http.StatusInternalServerError
	}
	return e.Answer.Status
}

// Ask puts q to m and returns the answer's body. It fails with a *SilentError, an
// *AnswerError with what the rackd said, or at once with what there is instead of a
// connection. It takes ask.Timeout at most.
func (c *Client) Ask(ctx context.Context, m bus.Member, q ask.Request) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, ask.Timeout)
	defer cancel()
	silent := func(sent bool, cause error) error { return &SilentError{m.Name, q.Method, q.Node, cause, sent} }
	conn, err := c.conn(m.Group)
	if own := interface{ HTTPStatus() int }(nil); errors.As(err, &own) {
		return nil, fmt.Errorf("ask conductor %s %s: %w", m.Name, q.Method, err) // its site is away
	}
	if err != nil {
		return nil, silent(false, err)
	}
	if !conn.IsConnected() { // it would be kept until the connection is there again
		return nil, silent(false, errors.New("the connection to the bus is away"))
	}
	subject := bus.AskSubject(m.Group, m.Name)
	for again := true; ; again = false {
		end, _ := ctx.Deadline()
		q.Until = c.until(subject, time.Until(end))
		body, err := json.Marshal(q)
		if err != nil {
			return nil, fmt.Errorf("ask conductor %s %s: %w", m.Name, q.Method, err)
		}
		msg, err := conn.RequestWithContext(ctx, subject, body)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return nil, silent(false, errors.New("it is not connected to the bus"))
		case errors.Is(err, context.DeadlineExceeded):
			return nil, silent(true, errors.New("no answer in time"))
		case err != nil:
			return nil, silent(true, err)
		}
		answer, clock, err := read(m.Name, msg.Data)
		c.note(subject, clock)
		if late := (*AnswerError)(nil); again && errors.As(err, &late) && late.Answer.Late {
			continue // by the clock that it told now
		}
		return answer, err
	}
}

// read reads a rackd's answer.
func read(conductor string, data []byte) (json.RawMessage, ask.Clock, error) {
	var reply ask.Reply
	if len(data) > MaxReply {
		return nil, ask.Clock{}, fmt.Errorf("conductor %s sent an answer of %d bytes, more than %d", conductor, len(data), MaxReply)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, ask.Clock{}, fmt.Errorf("conductor %s sent an answer that is no JSON: %w", conductor, err)
	}
	if reply.Error != nil {
		return nil, reply.Clock, &AnswerError{conductor, *reply.Error}
	}
	return reply.Body, reply.Clock, nil
}
