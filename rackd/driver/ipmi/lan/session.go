package lan

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Session is an open session. Its methods may be called from several goroutines; one command is under way at a time.
type Session struct {
	target Target
	opts   Options

	mu    sync.Mutex
	conn  net.Conn
	guard guard
	seq   uint8 // of the next request, 6 bits
	buf   []byte
	suite uint8
	used  time.Time
	timer *time.Timer
	gone  bool
	// repeated: a message of this login was sent more than once; proved: the console has proved that it knows the password.
	repeated, proved bool
}

// Suite is the cipher suite that the session was opened with; of version 1.5 it is 0.
func (s *Session) Suite() uint8 { return s.suite }

// Ask sends a question until it is answered or all tries are over. Errors are a *CodeError, a *NoAnswerError, ErrGone, or ctx's.
func (s *Session) Ask(ctx context.Context, r Request) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, ErrGone
	}
	data, _, err := s.exchange(ctx, r, s.opts.Tries)
	return data, err
}

// Tell sends an order once. left reports whether the BMC may have got it.
func (s *Session) Tell(ctx context.Context, r Request) (data []byte, left bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, false, ErrGone
	}
	return s.exchange(ctx, r, []time.Duration{s.opts.wait()})
}

// Close ends the session. Once ctx has ended it tells the BMC so and waits for no answer.
func (s *Session) Close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if r, there := s.farewell(); there && ctx.Err() == nil {
		_, _, _ = s.exchange(ctx, r, s.opts.Tries[:1])
	} else {
		s.leave()
	}
	s.letGo()
}

// leave tells the BMC that the session ends, and waits for no answer.
func (s *Session) leave() {
	if r, there := s.farewell(); there {
		if datagram, err := s.guard.seal(packMessage(addressBMC, addressConsole, s.next(), r)); err == nil {
			_, _ = s.conn.Write(datagram)
		}
	}
}

// Drop closes the socket. The BMC ends the session by itself, if it knows it.
func (s *Session) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.letGo()
	}
}

// letGo closes the socket. mu is held.
func (s *Session) letGo() {
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.conn.Close()
}

// farewell is the command that ends the session.
func (s *Session) farewell() (r Request, there bool) {
	var id uint32
	switch g := s.guard.(type) {
	case *guard20:
		id = g.bmc
	case *guard15:
		id = g.session
	default:
		return r, false
	}
	return Request{NetFn: netFnApp, Command: cmdCloseSession, Data: []byte{byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}}, true
}

// watch begins to look for the time when the session has not been used for long.
func (s *Session) watch() {
	s.used = time.Now()
	s.timer = time.AfterFunc(s.opts.Idle, s.idle)
}

// idle ends a session that was not used for Options.Idle. It tells the BMC so and waits for no answer.
func (s *Session) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if rest := s.opts.Idle - time.Since(s.used); rest > 0 {
		s.timer.Reset(rest)
		return
	}
	s.leave()
	s.letGo()
}

// next is the number of the next request.
func (s *Session) next() uint8 {
	s.seq = (s.seq + 1) & 0x3F
	return s.seq
}

// exchange sends r, at most once for each of the tries, and returns what the answer holds after its completion code. Each try has
// a number of its own, and an answer to any of them will do. left reports whether a datagram left.
func (s *Session) exchange(ctx context.Context, r Request, tries []time.Duration) (data []byte, left bool, err error) {
	var seqs []uint8
	var got answer
	var passed error
	take := func(b []byte) bool {
		payload, ok := s.guard.open(b)
		if !ok {
			return false
		}
		a, ok := parseAnswer(payload)
		if !ok || !a.whole && !s.guard.sound() || !slices.Contains(seqs, a.seq) {
			return false
		}
		if r.Via != nil {
			if a, passed, ok = unwrap(a, r, seqs); passed != nil {
				return true
			}
		}
		if !ok || a.netFn != r.NetFn|1 || a.command != r.Command {
			return false
		}
		got = a
		return true
	}
	closed := false
	for _, wait := range tries {
		if err := ctx.Err(); err != nil {
			return nil, left, context.Cause(ctx)
		}
		seq := s.next()
		seqs = append(seqs, seq)
		datagram, err := s.guard.seal(s.pack(seq, r))
		if err != nil {
			return nil, left, err
		}
		switch err := s.round(ctx, datagram, wait, take, &left); {
		case err == nil && passed != nil:
			return nil, true, passed
		case err == nil && got.code != 0:
			return nil, true, &CodeError{Code: got.code, Request: r}
		case err == nil:
			return slices.Clone(got.data), true, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			closed = true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, left, err
		}
	}
	return nil, left, &NoAnswerError{Datagrams: len(tries), Closed: closed}
}

// pack is the message for r, within those that pass it on where there is a bridge.
func (s *Session) pack(seq uint8, r Request) []byte {
	if r.Via != nil {
		r = r.Via.wrap(seq, r)
	}
	return packMessage(addressBMC, addressConsole, seq, r)
}

// round sends a datagram and reads until take has what it wants, or wait is over (os.ErrDeadlineExceeded).
func (s *Session) round(ctx context.Context, datagram []byte, wait time.Duration, take func([]byte) bool, left *bool) error {
	until := time.Now().Add(wait)
	_ = s.conn.SetReadDeadline(until)
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.SetReadDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	if _, err := s.conn.Write(datagram); err != nil {
		return s.refused(ctx, err, until)
	}
	*left = true
	s.used = time.Now()
	for {
		n, err := s.conn.Read(s.buf)
		if cause := ctx.Err(); err != nil && cause != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return s.refused(ctx, err, until)
		}
		if take(s.buf[:n]) {
			s.used = time.Now()
			return nil
		}
	}
}

// breath is the pause before a try that follows one whose port was closed.
const breath = 250 * time.Millisecond

// refused waits a moment where the BMC's port was closed: it may be about to start.
func (s *Session) refused(ctx context.Context, err error, until time.Time) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	t := time.NewTimer(min(breath, time.Until(until)))
	defer t.Stop()
	select {
	case <-t.C:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
