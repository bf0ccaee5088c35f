package iboot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// What DxP is made of, in octets: a command, user and password padded with zeros, what of the command, a spare octet, and the request's
// number with its lower octet first.
const (
	hello      = "hello-000"
	numberSize = 2
	ioCommand  = 3
	setRelay   = 1
	getRelays  = 4
	nameSize   = 21
	longest    = nameSize - 1 // a name ends with a zero
	headerSize = 1 + 2*nameSize + 1 + 1 + 2
	mostRelays = 32
)

// sum changes with all that the answers depend on.
func (t target) sum() [32]byte {
	return sha256.Sum256([]byte(strings.Join([]string{t.address(), t.user, t.password}, "\x00")))
}

// session is nothing: an iBoot keeps none. The pool gives turns.
type session struct{}

// Close implements bmc.Session.
func (session) Close(context.Context) {}

// Drop implements bmc.Session.
func (session) Drop() {}

// request is what is sent after the greeting.
func (t target) request(what byte, number uint16, payload ...byte) []byte {
	b := make([]byte, headerSize, headerSize+len(payload))
	b[0] = ioCommand
	copy(b[1:], t.user)
	copy(b[1+nameSize:], t.password)
	b[1+2*nameSize] = what
	binary.LittleEndian.PutUint16(b[headerSize-2:], number)
	return append(b, payload...)
}

// greet opens a connection, and returns the number of its first request.
func (d *Driver) greet(ctx context.Context, t target) (conn net.Conn, number uint16, err error) {
	if conn, err = outbound.Dialer(d.opts.Timeout, d.opts.Networks.Check).DialContext(ctx, "tcp", t.address()); err != nil {
		return nil, 0, err
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	first, n := make([]byte, numberSize+1), 0
	if _, err = io.WriteString(conn, hello); err == nil {
		n, err = io.ReadAtLeast(conn, first, numberSize)
	}
	if err == nil && n > numberSize {
		// What is left of it would be taken for the answer to the request.
		err = errors.New("it greets with more than the number of a request")
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, binary.LittleEndian.Uint16(first) + 1, nil
}

// read reads whether the relay is on.
func (d *Driver) read(ctx context.Context, t target) (on bool, err error) {
	for try := 1; ; try++ {
		on, err = d.readOnce(ctx, t)
		f, answered := errors.AsType[*bmc.Failure](err)
		if half := answered && f.Class == bmc.Invalid; err == nil || answered && !half || try == d.opts.Tries || ctx.Err() != nil {
			break
		}
		if err := driver.Pause(ctx, d.opts.Pause); err != nil {
			return false, &bmc.Lost{Err: err}
		}
	}
	if _, answered := errors.AsType[*bmc.Failure](err); err != nil && !answered {
		err = &bmc.Lost{Err: err}
	}
	return on, err
}

func (d *Driver) readOnce(ctx context.Context, t target) (on bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	conn, number, err := d.greet(ctx, t)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(t.request(getRelays, number)); err != nil {
		return false, err
	}
	relays := make([]byte, mostRelays)
	n, err := io.ReadAtLeast(conn, relays, t.relay)
	if n == 0 && errors.Is(err, io.EOF) {
		return false, errors.New("it ends the connection instead of an answer, as it does after a wrong user or password")
	}
	if err != nil {
		if n > 0 {
			// An answer that broke off, or all that an iBoot with fewer relays has to say: which of them, the next try tells.
			return false, &bmc.Failure{Class: bmc.Invalid, Said: fmt.Sprintf("the state of %d relays; check %s", n, fieldRelay)}
		}
		return false, err
	}
	switch state := relays[t.relay-1]; state {
	case 0, 1:
		return state == 1, nil
	default:
		return false, &bmc.Failure{Said: fmt.Sprintf("that relay %d is in the state %d, which DxP does not know", t.relay, state)}
	}
}

// write switches the relay, in one request.
func (d *Driver) write(ctx context.Context, f driver.Fence, t target, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.Timeout)
	defer cancel()
	conn, number, err := d.greet(ctx, t)
	if err != nil {
		return &bmc.Lost{Err: err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	wanted := map[bool]byte{true: 1, false: 0}[on]
	return bmc.Order(f, func() (left bool, err error) {
		if _, err := conn.Write(t.request(setRelay, number, byte(t.relay), wanted)); err != nil {
			return true, err
		}
		answer := make([]byte, 1)
		if _, err := io.ReadFull(conn, answer); err != nil {
			return true, err
		}
		if answer[0] != 0 {
			return true, &bmc.Failure{Said: fmt.Sprintf("error %d", answer[0])}
		}
		return true, nil
	})
}
