package iscsi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Target is what a session logs in to.
type Target struct {
	// Address is host:port of the portal.
	Address string
	IQN     string
	// LUN is below 256.
	LUN int
	// Initiator is our own name.
	Initiator string
	// CHAP is empty where the target asks for no credentials.
	CHAP CHAP
}

// DefaultStall is Options.Stall where that is 0.
const DefaultStall = 30 * time.Second

// Options of a session.
type Options struct {
	// Stall is how long the target may be silent while it owes an answer; a ping asks after half of it. It bounds the
	// login, too. 0: DefaultStall.
	Stall time.Duration
	// Dial makes the connection; nil: by TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Session is one session. Commands may be begun and waited for by several goroutines; Close by any.
type Session struct {
	conn net.Conn
	in   *bufio.Reader
	agreed
	lun   [8]byte
	stall time.Duration
	ended chan struct{} // closed when both goroutines have ended
	wake  chan struct{} // has one place

	mu        sync.Mutex
	failed    error // why the session is over
	down      chan struct{}
	urgent    []*pdu // data and answers to pings, before commands
	waiting   []*task
	tasks     map[uint32]*task
	tag       uint32
	cmdSN     uint32
	maxCmdSN  uint32
	expStatSN uint32
	heard     time.Time
	pinged    bool
	leaving   bool
	left      chan struct{} // closed when the target has confirmed the logout
}

// task is one SCSI command.
type task struct {
	cdb  [16]byte
	out  []byte // to the target
	in   []byte // from the target
	got  int    // bytes of in
	tag  uint32
	done chan struct{}
	err  error
}

// Connect logs in. It returns when the target has let us in, or the reason why not: errors wrap ErrDenied where the
// credentials are refused.
func Connect(ctx context.Context, t Target, o Options) (*Session, error) {
	if o.Stall <= 0 {
		o.Stall = DefaultStall
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: o.Stall}).DialContext
	}
	conn, err := o.Dial(ctx, "tcp", t.Address)
	if err != nil {
		return nil, fmt.Errorf("iSCSI target %s: %w", t.Address, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(o.Stall)); err != nil {
		conn.Close()
		return nil, err
	}
	s := &Session{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), stall: o.Stall, ended: make(chan struct{}), wake: make(chan struct{}, 1), down: make(chan struct{}),
		left: make(chan struct{}), tasks: map[uint32]*task{}, heard: time.Now()}
	s.lun[1] = byte(t.LUN)
	l := login{conn: conn, in: s.in, target: t, cmdSN: 1}
	if s.agreed, err = l.run(); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("iSCSI target %s: log in to %s: %w", t.Address, t.IQN, err)
	}
	s.cmdSN, s.maxCmdSN, s.expStatSN = l.cmdSN, l.maxCmdSN, l.expStatSN
	var both sync.WaitGroup
	both.Go(s.receive)
	both.Go(s.send)
	go func() { both.Wait(); close(s.ended) }()
	return s, nil
}

// errClosed is what commands of a session fail with that was closed here.
var errClosed = errors.New("the session was closed")

// Close logs out, waits a moment for the target to confirm it, and ends the session.
func (s *Session) Close() {
	s.mu.Lock()
	again := s.leaving
	if !again && s.failed == nil {
		s.leaving = true
		p := &pdu{}
		p.head[0], p.head[1] = opLogout|immediate, 0x80
		s.tag++
		p.set32(16, s.tag)
		s.urgent = append(s.urgent, p)
	}
	s.mu.Unlock()
	if !again {
		s.nudge()
		end := time.NewTimer(min(s.stall, 2*time.Second))
		select {
		case <-s.left:
		case <-s.down:
		case <-end.C:
		}
		end.Stop()
	}
	s.fail(errClosed)
	<-s.ended
}

// LostError says that the session is over: the connection broke, or the target ended it.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "the iSCSI session is lost: " + e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// fail ends the session with its first error.
func (s *Session) fail(err error) {
	s.mu.Lock()
	if s.failed != nil {
		s.mu.Unlock()
		return
	}
	s.failed = err
	for _, t := range s.tasks {
		t.err = err
		close(t.done)
	}
	for _, t := range s.waiting {
		t.err = err
		close(t.done)
	}
	s.tasks, s.waiting, s.urgent = map[uint32]*task{}, nil, nil
	close(s.down)
	s.mu.Unlock()
	s.conn.Close()
}

func (s *Session) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin hands a command to the sender.
func (s *Session) begin(t *task) {
	t.done = make(chan struct{})
	s.mu.Lock()
	if s.failed != nil {
		t.err = s.failed
		close(t.done)
	} else {
		s.waiting = append(s.waiting, t)
	}
	s.mu.Unlock()
	s.nudge()
}

// wait returns when the command has ended. When ctx ends before, the session ends with it: what the command's buffers
// hold must not be touched while it runs.
func (s *Session) wait(ctx context.Context, t *task) error {
	select {
	case <-t.done:
	case <-ctx.Done():
		s.fail(context.Cause(ctx))
		<-t.done
	}
	return t.err
}

// send writes what is to be sent, pings a silent target, and gives it up.
func (s *Session) send() {
	tick := time.NewTicker(s.stall / 4)
	defer tick.Stop()
	var b batch
	for {
		if s.gather(&b); len(b.pdus) > 0 {
			if err := s.conn.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
				s.fail(err)
				return
			}
			if err := b.write(s.conn, s.digests); err != nil {
				s.fail(&LostError{err})
				return
			}
			continue
		}
		select {
		case <-s.down:
			return
		case <-s.wake:
		case <-tick.C:
			s.watch()
		}
	}
}

// gather fills b with the PDUs to send now; none: there are none.
func (s *Session) gather(b *batch) {
	b.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !b.full() {
		p := s.next()
		if p == nil {
			return
		}
		b.add(p)
	}
}

// next is the PDU to send now; nil: none. s.mu is held.
func (s *Session) next() *pdu {
	if s.failed != nil {
		return nil
	}
	if len(s.urgent) > 0 {
		p := s.urgent[0]
		s.urgent = s.urgent[1:]
		if p.op() == opLogout || p.op() == opNopOut {
			p.set32(24, s.cmdSN)
		}
		p.set32(28, s.expStatSN)
		return p
	}
	if len(s.waiting) == 0 || int32(s.maxCmdSN-s.cmdSN) < 0 {
		return nil
	}
	t := s.waiting[0]
	s.waiting = s.waiting[1:]
	if len(s.tasks) == 0 {
		s.heard, s.pinged = time.Now(), false
	}
	if s.tag++; s.tag == noTag {
		s.tag = 1
	}
	t.tag = s.tag
	s.tasks[t.tag] = t
	p := &pdu{}
	p.head[0], p.head[1] = opCommand, 0x81 // no unsolicited data follows; simple task
	size := len(t.in)
	if t.in != nil {
		p.head[1] |= 0x40
	}
	if t.out != nil {
		p.head[1] |= 0x20
		size = len(t.out)
		p.data = t.out[:min(len(t.out), s.firstBurst, s.segment)]
	}
	copy(p.head[8:], s.lun[:])
	p.set32(16, t.tag)
	p.set32(20, uint32(size))
	p.set32(24, s.cmdSN)
	p.set32(28, s.expStatSN)
	copy(p.head[32:], t.cdb[:])
	s.cmdSN++
	return p
}

// SilentError says that a target owes an answer and says nothing.
type SilentError struct{ For time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("the target has been silent for %s", e.For.Round(time.Second))
}

// watch pings a target that owes an answer and is silent, and gives it up when it stays so.
func (s *Session) watch() {
	s.mu.Lock()
	quiet := time.Since(s.heard)
	owes := len(s.tasks) > 0 || len(s.waiting) > 0
	if owes && quiet > s.stall/2 && !s.pinged {
		s.pinged = true
		p := &pdu{}
		p.head[0], p.head[1] = opNopOut|immediate, 0x80
		s.tag++
		p.set32(16, s.tag)
		p.set32(20, noTag)
		s.urgent = append(s.urgent, p)
		s.nudge()
	}
	s.mu.Unlock()
	if owes && quiet > s.stall {
		s.fail(&SilentError{quiet})
	}
}

// receive takes in what the target sends.
func (s *Session) receive() {
	for {
		p, err := read(s.in, s.digests, maxSegment)
		if err == nil {
			err = s.take(p)
		}
		if err != nil {
			s.fail(&LostError{err})
			return
		}
	}
}

// take takes in one PDU. Its error ends the session.
func (s *Session) take(p *pdu) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.pinged = time.Now(), false
	if n := p.u32(32); int32(n-s.maxCmdSN) > 0 {
		s.maxCmdSN = n
		defer s.nudge()
	}
	status := func() { s.expStatSN = p.u32(24) + 1 }
	switch p.op() {
	case opResponse:
		status()
		return s.end(p)
	case opDataIn:
		if p.head[1]&1 != 0 {
			status()
		}
		return s.fill(p)
	case opReady:
		return s.feed(p)
	case opNopIn:
		if p.tag() != noTag {
			status()
		}
		if p.u32(20) == noTag {
			return nil // the answer to our ping
		}
		q := &pdu{}
		q.head[0], q.head[1] = opNopOut|immediate, 0x80
		copy(q.head[8:16], p.head[8:16])
		q.set32(16, noTag)
		q.set32(20, p.u32(20))
		if len(s.urgent) > 1024 {
			return errors.New("the target pings faster than it reads")
		}
		s.urgent = append(s.urgent, q)
		s.nudge()
		return nil
	case opLogoutEnd:
		status()
		if s.leaving {
			close(s.left)
		}
		return errClosed
	case opAsync:
		status()
		return fmt.Errorf("the target ends the session (asynchronous event %d)", p.head[36])
	case opReject:
		status()
		return fmt.Errorf("the target rejects a PDU (reason %#x)", p.head[2])
	}
	return fmt.Errorf("the target sends a PDU of type %#x", p.op())
}

// end ends a task. s.mu is held.
func (s *Session) end(p *pdu) error {
	t := s.tasks[p.tag()]
	if t == nil {
		return fmt.Errorf("the target answers a command that was not given (tag %d)", p.tag())
	}
	delete(s.tasks, t.tag)
	switch {
	case p.head[2] != 0:
		t.err = fmt.Errorf("the target could not carry the command out (iSCSI response %#x)", p.head[2])
	default:
		t.err = statusError(p.head[3], p.data)
	}
	if t.err == nil && p.head[1]&0x04 != 0 {
		t.err = errors.New("the command and the target differ in how much data there is")
	}
	close(t.done)
	return nil
}

// fill takes in data of a read. s.mu is held.
func (s *Session) fill(p *pdu) error {
	t := s.tasks[p.tag()]
	off := int(p.u32(40))
	if t == nil || off < 0 || off+len(p.data) > len(t.in) {
		return fmt.Errorf("the target sends %d bytes that were not asked for", len(p.data))
	}
	copy(t.in[off:], p.data)
	t.got += len(p.data)
	if p.head[1]&1 != 0 {
		return s.end(p.status())
	}
	return nil
}

// status is the response that a data PDU carries.
func (p *pdu) status() *pdu {
	r := &pdu{head: p.head}
	r.head[0], r.head[1], r.head[2] = opResponse, p.head[1]&0x04, 0
	return r
}

// feed sends the data that the target is ready for. s.mu is held.
func (s *Session) feed(p *pdu) error {
	t := s.tasks[p.tag()]
	off, n := int(p.u32(40)), int(p.u32(44))
	if t == nil || n == 0 || off < 0 || n < 0 || off+n > len(t.out) {
		return fmt.Errorf("the target is ready for %d bytes that no command has", n)
	}
	if len(s.urgent) > 1024 {
		return errors.New("the target asks for more than it takes")
	}
	data, at := t.out[off:off+n], off
	for seq := uint32(0); len(data) > 0; seq++ {
		k := min(len(data), s.segment)
		q := &pdu{data: data[:k]}
		q.head[0] = opDataOut
		if k == len(data) {
			q.head[1] = 0x80
		}
		copy(q.head[8:16], p.head[8:16])
		q.set32(16, t.tag)
		q.set32(20, p.u32(20))
		q.set32(36, seq)
		q.set32(40, uint32(at))
		s.urgent = append(s.urgent, q)
		data, at = data[k:], at+k
	}
	s.nudge()
	return nil
}
