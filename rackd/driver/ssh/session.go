package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	xssh "golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// longest is how much of what a command prints is read.
const longest = 4 << 20

// session is a connection to a host. The holder of the host's turn uses it.
type session struct {
	client *xssh.Client
	opts   bmc.WebOptions
	found  map[string]string // machines by the MAC addresses they were looked for by
	over   chan struct{}     // closed when the connection has ended
	broken bool              // a command had no end: nothing more is asked here
}

// errOver: the connection has ended before a command was sent.
var errOver = errors.New("the host has ended the connection")

// open dials a host and logs in.
func open(ctx context.Context, t target, o bmc.WebOptions) (*session, error) {
	dial, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	host := bmc.SSH{Address: t.address(), User: t.user, Password: t.password, Key: t.signer, HostKey: t.hostKey, HostKeyField: fieldHostKey}
	if t.signer != nil {
		host.Password = "" // it is the passphrase of the key
	}
	client, err := host.Dial(dial, o.ConnectTimeout, o.Networks)
	if err != nil {
		return nil, err
	}
	s := &session{client, o, map[string]string{}, make(chan struct{}), false}
	go func() {
		defer close(s.over)
		_ = s.client.Wait() // until the connection ends: Drop ends it, too
	}()
	return s, nil
}

// Close implements bmc.Session.
func (s *session) Close(context.Context) { s.Drop() }

// Drop implements bmc.Session.
func (s *session) Drop() { s.client.Close() }

// bounded keeps the first bytes of what is written.
type bounded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Write(p[:min(len(p), longest-b.b.Len())])
	return len(p), nil
}

func (b *bounded) String() string { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// run runs a command. left: the host may have begun it. A command that fails is a *bmc.Failure.
func (s *session) run(ctx context.Context, command, input string) (out string, left bool, err error) {
	if err := ctx.Err(); err != nil {
		return "", false, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.AnswerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.client.Close() })
	defer stop()
	channel, err := s.channel(ctx)
	if err != nil {
		s.broken = true
		return "", false, cause(ctx, err)
	}
	defer channel.Close()
	var said, complaint bounded
	channel.Stdout, channel.Stderr, channel.Stdin = &said, &complaint, io.Reader(strings.NewReader(input))
	err = channel.Run(command)
	if exit, failed := errors.AsType[*xssh.ExitError](err); failed && exit.Signal() == "" {
		text := strings.TrimSpace(complaint.String() + " " + said.String())
		return "", true, &bmc.Failure{Said: fmt.Sprintf("exit status %d: %s", exit.ExitStatus(), text)}
	}
	if err != nil {
		s.broken = true
		s.client.Close()
		return "", true, cause(ctx, err)
	}
	return said.String(), true, nil
}

// channel asks the host for a channel. The library waits without an end if the connection ends in the moment of its question, so a
// goroutine of its own waits for it.
func (s *session) channel(ctx context.Context) (*xssh.Session, error) {
	select {
	case <-s.over:
		s.broken = true
	default:
	}
	if s.broken {
		return nil, errOver
	}
	type opened struct {
		channel *xssh.Session
		err     error
	}
	got := make(chan opened, 1)
	go func() {
		c, err := s.client.NewSession()
		got <- opened{c, err}
	}()
	select {
	case o := <-got:
		return o.channel, o.err
	case <-s.over:
	case <-ctx.Done():
	}
	select { // the answer may have come in the same moment
	case o := <-got:
		return o.channel, o.err
	default:
		return nil, errOver
	}
}

// cause is that of ctx, once it has ended: the connection was closed for it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refused reports whether a command failed, as opposed to a connection.
func refused(err error) bool {
	_, is := errors.AsType[*bmc.Failure](err)
	return is
}

// read runs a command that changes nothing. A connection that has broken is opened once more.
func (s *session) read(ctx context.Context, command string) (string, error) {
	out, _, err := s.run(ctx, command, "")
	switch {
	case err == nil || refused(err):
		return out, err
	case ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded):
		return "", bmc.Forgotten(&bmc.Lost{Err: err})
	}
	return "", &bmc.Lost{Err: err}
}

// write runs a command that changes the machine, behind the fence.
func (s *session) write(ctx context.Context, f driver.Fence, command, input string) error {
	return bmc.Order(f, func() (left bool, err error) {
		_, left, err = s.run(ctx, command, input)
		return left, err
	})
}
