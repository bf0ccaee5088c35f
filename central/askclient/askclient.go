// Package askclient asks a rackd over the bus (protocol/ask) and turns what can go
// wrong into errors that say their HTTP status.
//
// It may import protocol and nats.go. It keeps no state and is safe for concurrent
// use; a question is asked once, its caller retries.
package askclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
)

// MaxReply bounds a rackd's answer.
const MaxReply = 1 << 20

// Client asks rackds.
type Client struct {
	conn func(group string) (*nats.Conn, error)
}

// New makes a client. conn returns the connection to the site that serves a
// conductor group. An error of it that says its own HTTP status is returned as it is.
func New(conn func(group string) (*nats.Conn, error)) *Client { return &Client{conn} }

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
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("ask conductor %s %s: %w", m.Name, q.Method, err)
	}
	msg, err := conn.RequestWithContext(ctx, bus.AskSubject(m.Group, m.Name), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, silent(false, errors.New("it is not connected to the bus"))
	case errors.Is(err, context.DeadlineExceeded):
		return nil, silent(true, errors.New("no answer in time"))
	case err != nil:
		return nil, silent(true, err)
	}
	return read(m.Name, msg.Data)
}

// read reads a rackd's answer.
func read(conductor string, data []byte) (json.RawMessage, error) {
	var reply ask.Reply
	if len(data) > MaxReply {
		return nil, fmt.Errorf("conductor %s sent an answer of %d bytes, more than %d", conductor, len(data), MaxReply)
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return nil, fmt.Errorf("conductor %s sent an answer that is no JSON: %w", conductor, err)
	}
	if reply.Error != nil {
		return nil, &AnswerError{conductor, *reply.Error}
	}
	return reply.Body, nil
}
