// Package serialline makes the console of a machine (driver.Line) of a connection that carries its bytes: an SSH session, a
// WebSocket, a stream of libvirt.
//
// It may import rackd/driver, rackd/driver/bmc and protocol. Invariants:
//   - The fence is asked before each write.
//   - A write that does not end in its time ends the line: a part of it may have reached the machine.
//   - The other end is asked from time to time whether it is there. A line whose other end is silent ends.
//   - A line that has ended says why, and names its node.
package serialline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Stream is an open connection. One goroutine reads and one writes; any may call Alive and Close meanwhile.
type Stream interface {
	// Read waits for what the machine writes. io.EOF: the other end has ended the stream.
	Read(p []byte) (int, error)
	// Write returns once the connection has taken all of p.
	Write(p []byte) error
	// Break sends a break, or returns driver.ErrUnsupported.
	Break() error
	// Alive waits for an answer of the other end, as long as ctx allows.
	Alive(ctx context.Context) error
	// Close ends the connection. Read, Write and Break return then. It may be called again.
	Close()
}

// Options say whose console a stream is. Node, Fence and What must be set.
type Options struct {
	Node  *node.Document
	Fence driver.Fence
	// What is read, for errors, as in "the serial console of https://10.0.0.5 by SSH".
	What string
	// Secrets are taken out of errors.
	Secrets []string
	// Every is how often the other end is asked whether it is there, and how long it may take to answer; default 30 s.
	Every time.Duration
}

// errEnded is why a line has ended whose other end gave no reason.
var errEnded = errors.New("the other end has ended it: another session may have taken it, or the machine's host has restarted")

// errClosed is why a line has ended that was closed here.
var errClosed = errors.New("it was closed here")

// line implements driver.Line.
type line struct {
	stream Stream
	opts   Options
	ended  chan struct{}

	mu  sync.Mutex
	why error // nil while it is open
}

// New makes a line of a stream, which it owns from here on.
func New(s Stream, o Options) driver.Line {
	if o.Every <= 0 {
		o.Every = 30 * time.Second
	}
	l := &line{stream: s, opts: o, ended: make(chan struct{})}
	go l.watch()
	return l
}

// end ends the line, unless it has ended. It returns the first reason.
func (l *line) end(why error) error {
	if errors.Is(why, io.EOF) {
		why = errEnded
	}
	l.mu.Lock()
	first := l.why == nil
	if first {
		l.why = why
		close(l.ended)
	}
	why = l.why
	l.mu.Unlock()
	if first {
		l.stream.Close()
	}
	return why
}

// over is why the line has ended, nil while it is open.
func (l *line) over() error { l.mu.Lock(); defer l.mu.Unlock(); return l.why }

// watch asks the other end whether it is there, until the line ends.
func (l *line) watch() {
	tick := time.NewTicker(l.opts.Every)
	defer tick.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), l.opts.Every)
		err := l.stream.Alive(ctx)
		cancel()
		if err != nil {
			_ = l.end(fmt.Errorf("the other end does not answer: %s", l.clean(err)))
			return
		}
	}
}

func (l *line) clean(err error) string { return bmc.Clean(err.Error(), l.opts.Secrets...) }

// Read implements driver.Line.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.stream.Read(p)
	if err != nil {
		err = fmt.Errorf("node %s: %s is no longer open: %s: %w", l.opts.Node.Label(), l.opts.What, l.clean(l.end(err)), driver.ErrUnreachable)
	}
	return n, err
}

// Write implements driver.Line.
func (l *line) Write(ctx context.Context, p []byte) error {
	return l.send(ctx, func() error { return l.stream.Write(p) })
}

// Break implements driver.Line.
func (l *line) Break(ctx context.Context) error { return l.send(ctx, l.stream.Break) }

// send runs do behind the fence, no longer than ctx allows.
func (l *line) send(ctx context.Context, do func() error) error {
	nothing := func(why string) error {
		return fmt.Errorf("node %s: nothing was sent to %s: %s: %w", l.opts.Node.Label(), l.opts.What, why, driver.ErrUnreachable)
	}
	if why := l.over(); why != nil {
		return nothing(l.clean(why))
	}
	if err := l.opts.Fence.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nothing(context.Cause(ctx).Error())
	}
	sent := make(chan error, 1)
	go func() { sent <- do() }() // end makes it return
	var err error
	select {
	case err = <-sent:
	case <-ctx.Done():
		err = fmt.Errorf("it took nothing more: %w", context.Cause(ctx))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUnsupported):
		return fmt.Errorf("node %s: %s: %w", l.opts.Node.Label(), l.opts.What, err)
	}
	return fmt.Errorf("node %s: a part may have been sent to %s: %s: %w", l.opts.Node.Label(), l.opts.What, l.clean(l.end(err)), driver.ErrUnknown)
}

// Close implements driver.Line.
func (l *line) Close(context.Context) { _ = l.end(errClosed) }
