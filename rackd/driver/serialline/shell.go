package serialline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// asIs are the modes of a terminal that passes bytes as they are (RFC 4254, section 8).
var asIs = ssh.TerminalModes{ssh.ECHO: 0, ssh.ICANON: 0, ssh.ISIG: 0, ssh.IEXTEN: 0, ssh.ICRNL: 0, ssh.INLCR: 0, ssh.IGNCR: 0, ssh.IXON: 0, ssh.IXOFF: 0, ssh.OPOST: 0, ssh.ONLCR: 0,
	ssh.CS8: 1, ssh.TTY_OP_ISPEED: 115200, ssh.TTY_OP_OSPEED: 115200}

// shell is an SSH session with a terminal.
type shell struct {
	client  *ssh.Client
	session *ssh.Session
	out     io.Reader
	in      io.Writer
}

// Shell makes a stream of an SSH connection, which it owns from here on, also when it fails. With a command, that is run in place of
// the user's shell: there is none behind it.
func Shell(ctx context.Context, client *ssh.Client, command string) (Stream, error) {
	type opened struct {
		s   *shell
		err error
	}
	got := make(chan opened, 1)
	go func() { // the library knows no contexts; Close ends it
		s, err := start(client, command)
		got <- opened{s, err}
	}()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = client.Wait() // until the connection ends
	}()
	var why error
	select {
	case o := <-got:
		if o.err == nil {
			return o.s, nil
		}
		client.Close()
		return nil, o.err
	case <-over:
		why = errors.New("the BMC has ended the connection")
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	client.Close()
	return nil, &bmc.Lost{Err: why}
}

// start opens the session. A refusal is a *bmc.Failure.
func start(client *ssh.Client, command string) (*shell, error) {
	session, err := client.NewSession()
	if refused, is := errors.AsType[*ssh.OpenChannelError](err); is {
		return nil, &bmc.Failure{Class: bmc.Busy, Said: "that it opens no session: " + refused.Error()}
	}
	if err != nil {
		return nil, &bmc.Lost{Err: err}
	}
	s := &shell{client: client, session: session}
	if s.out, err = session.StdoutPipe(); err != nil {
		return nil, err
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return nil, err
	}
	if err := session.RequestPty("vt100", 24, 80, asIs); err != nil {
		return nil, &bmc.Failure{Said: fmt.Sprintf("that it has no terminal for the console (%v)", err), Cause: err}
	}
	if command != "" {
		err = session.Start(command)
	} else {
		err = session.Shell()
	}
	if err != nil {
		return nil, &bmc.Failure{Said: fmt.Sprintf("that it does not begin the console (%v)", err), Cause: err}
	}
	return s, nil
}

// Read implements Stream.
func (s *shell) Read(p []byte) (int, error) { return s.out.Read(p) }

// Write implements Stream.
func (s *shell) Write(p []byte) error {
	_, err := s.in.Write(p)
	return err
}

// breakLength is how long a break lasts, in milliseconds (RFC 4335).
const breakLength = 500

// Break implements Stream.
func (s *shell) Break() error {
	taken, err := s.session.SendRequest("break", true, binary.BigEndian.AppendUint32(nil, breakLength))
	if err == nil && !taken {
		err = fmt.Errorf("the BMC's SSH server sends no break: %w", driver.ErrUnsupported)
	}
	return err
}

// Alive implements Stream.
func (s *shell) Alive(ctx context.Context) error { return Answers(ctx, s.client) }

// Answers waits for an answer of a server of SSH, as long as ctx allows: any will do, also that there is no such request.
func Answers(ctx context.Context, client *ssh.Client) error {
	answered := make(chan error, 1)
	go func() { // until the answer, or Close
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close implements Stream.
func (s *shell) Close() { s.client.Close() }
