// Package qmp is a client for QEMU's machine protocol: JSON objects, one a line,
// over a unix socket (QEMU's docs/interop/qmp-spec).
//
// It owns the connection and may import nothing of the project. Invariants: events
// are delivered in order and always drained, so a slow caller never blocks QEMU's
// answers; every pending call ends when the connection does.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// maxMessage bounds one line; QEMU's longest (query-qmp-schema) is below 512 KiB.
const maxMessage = 1 << 20

// ErrClosed is returned by calls on a connection that has ended, which is how a
// client learns that QEMU exited.
var ErrClosed = errors.New("connection to QEMU is closed")

// Error is a command's refusal by QEMU.
type Error struct {
	Class       string `json:"class"`
	Description string `json:"desc"`
}

func (e *Error) Error() string { return e.Description + " (" + e.Class + ")" }

// Event is something that happened to the machine.
type Event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// Client is one connection. Safe for concurrent use.
type Client struct {
	conn  net.Conn
	done  chan struct{}
	ended error // wraps ErrClosed; to be read once done is closed
	ready chan struct{}

	mu      sync.Mutex
	next    int
	pending map[int]chan reply
}

type reply struct {
	result json.RawMessage
	err    error
}

// message is any line that QEMU sends.
type message struct {
	Greeting *json.RawMessage `json:"QMP"`
	ID       *int             `json:"id"`
	Return   json.RawMessage  `json:"return"`
	Error    *Error           `json:"error"`
	Event
}

// New speaks QMP over conn, which it owns from then on, and negotiates. QEMU may
// start to answer later, as long as ctx allows. onEvent is called from one
// goroutine, which ends with the connection; it must not call Execute.
func New(ctx context.Context, conn net.Conn, onEvent func(Event)) (*Client, error) {
	c := &Client{conn: conn, done: make(chan struct{}), ready: make(chan struct{}), pending: map[int]chan reply{}}
	go c.read(onEvent)
	select {
	case <-c.ready:
	case <-c.done:
		return nil, fmt.Errorf("waiting for QEMU's greeting: %w", c.ended)
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("waiting for QEMU's greeting: %w", ctx.Err())
	}
	if err := c.Execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Execute runs a command and decodes its result into result, unless that is nil.
// It returns an *Error if QEMU refuses and ErrClosed if QEMU is gone.
func (c *Client) Execute(ctx context.Context, command string, arguments, result any) error {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.pending[id] = answer
	line, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        int    `json:"id"`
	}{command, arguments, id})
	if err == nil {
		_, err = c.conn.Write(append(line, '\n'))
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	if err != nil {
		return fmt.Errorf("QEMU command %s: %w: %w", command, ErrClosed, err)
	}
	select {
	case r := <-answer:
		if r.err != nil {
			return fmt.Errorf("QEMU command %s: %w", command, r.err)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(r.result, result); err != nil {
			return fmt.Errorf("QEMU command %s: result: %w", command, err)
		}
		return nil
	case <-c.done:
		return fmt.Errorf("QEMU command %s: %w", command, c.ended)
	case <-ctx.Done():
		return fmt.Errorf("QEMU command %s: %w", command, ctx.Err())
	}
}

// Done is closed once the connection has ended and the last event was delivered.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for the reading goroutine. The machine runs on.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

func (c *Client) read(onEvent func(Event)) {
	defer close(c.done)
	defer c.conn.Close()
	c.ended = ErrClosed
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(nil, maxMessage)
	greeted := false
	for lines.Scan() {
		m, err := parse(lines.Bytes())
		if err != nil {
			c.ended = fmt.Errorf("%w: it said what is no message of QMP: %w", ErrClosed, err)
			return
		}
		switch {
		case m.Greeting != nil:
			if !greeted {
				greeted = true
				close(c.ready)
			}
		case m.Name != "":
			if onEvent != nil {
				onEvent(m.Event)
			}
		case m.ID != nil:
			c.mu.Lock()
			answer := c.pending[*m.ID]
			delete(c.pending, *m.ID)
			c.mu.Unlock()
			if answer == nil {
				continue // its caller gave up
			}
			r := reply{result: m.Return}
			if m.Error != nil {
				r.err = m.Error
			}
			answer <- r
		}
	}
	if err := lines.Err(); err != nil {
		c.ended = fmt.Errorf("%w: %w", ErrClosed, err)
	}
}

func parse(line []byte) (message, error) {
	var m message
	err := json.Unmarshal(line, &m)
	return m, err
}
