package lan

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Commands of payloads (section 24).
const (
	cmdActivatePayload   = 0x48
	cmdDeactivatePayload = 0x49
	cmdPayloadInstance   = 0x4B
	cmdDeviceID          = 0x01

	// instance is the one that Serial over LAN has on a channel of a BMC.
	instance = 1
)

// ErrTaken: the BMC has ended Serial over LAN. Another session has taken it, or it was switched off.
var ErrTaken = errors.New("the BMC has ended Serial over LAN: another session has taken it, or it was switched off")

// ErrRefusedCharacters: the BMC takes no characters for the machine now.
var ErrRefusedCharacters = errors.New("the BMC takes no characters for the machine: it is off, or does not listen")

// ConsoleOptions of a console; zero values mean the defaults.
type ConsoleOptions struct {
	// Before is asked before each datagram that has an effect: its error is returned unchanged, and nothing is sent. nil:
	// there is no such question.
	Before func() error
	// KeepAlive is how often the BMC is asked whether the console is still there; default 15 s.
	KeepAlive time.Duration
	// Resend are how long the tries to send characters wait for the BMC's word; default 0.3, 0.6, 1, 2 and 4 s.
	Resend []time.Duration
}

// Console is Serial over LAN (section 15) in a session of its own. One goroutine reads; others may write and close
// meanwhile.
type Console struct {
	s    *Session
	g    *guard20
	opts ConsoleOptions
	most int // bytes of characters in one packet

	// mu guards the session's guard, its numbers, and what waits for answers.
	mu      sync.Mutex
	waiting map[uint8]waiter // by the number of the request

	sending sync.Mutex
	number  uint8        // of the last packet, 1 to 15
	acks    chan solHead // one place: the newest word on what was sent

	// last and length are of the newest packet of the BMC; the receiving goroutine alone uses them.
	last   uint8
	length int

	look  chan struct{} // one place: ask at once whether the console is still there
	chars chan []byte
	rest  []byte // of the reader
	ended chan struct{}
	once  sync.Once
	why   error // before ended is closed
	done  sync.WaitGroup
}

type waiter struct {
	netFn, command uint8
	got            chan answer
}

// solHead is the head of a packet (section 15.9).
type solHead struct {
	number, acked, accepted, status uint8
}

// Bits of status.
const (
	solNack        = 0x40 // in both directions
	solUnavailable = 0x20 // BMC: the machine takes no characters
	solEnded       = 0x10 // BMC: it was deactivated
	solBreak       = 0x10 // console: generate a break
)

// most is a bound for packets: what BMCs say of their buffers may be larger than what they take.
const mostChars = 200

// queue is how many packets wait for the reader. Further ones are not acknowledged, so the BMC sends them again.
const queue = 64

// OpenConsole logs in and takes the console, from another session if one has it. Errors are those of Open.
func OpenConsole(ctx context.Context, t Target, o Options, c ConsoleOptions) (*Console, error) {
	if t.Old {
		return nil, refuse(Version, "Serial over LAN is of IPMI 2.0")
	}
	c = c.filled()
	s, err := Open(ctx, t, o)
	if err != nil {
		return nil, err
	}
	s.timer.Stop() // the console is never idle
	g := s.guard.(*guard20)
	data, err := s.activate(ctx, g, c.Before)
	if err != nil {
		s.Close(ctx)
		return nil, err
	}
	return s.console(g, c, data), nil
}

func (c ConsoleOptions) filled() ConsoleOptions {
	if c.Before == nil {
		c.Before = func() error { return nil }
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = 15 * time.Second
	}
	if len(c.Resend) == 0 {
		c.Resend = []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
	}
	return c
}

// console begins to read; data is the BMC's answer to Activate Payload.
func (s *Session) console(g *guard20, c ConsoleOptions, data []byte) *Console {
	k := &Console{s: s, g: g, opts: c, most: mostChars, waiting: map[uint8]waiter{}, acks: make(chan solHead, 1), look: make(chan struct{}, 1), chars: make(chan []byte, queue), ended: make(chan struct{})}
	if len(data) >= 6 {
		if size := int(binary.LittleEndian.Uint16(data[4:])); size > 4 { // with the head
			k.most = min(k.most, size-4)
		}
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	k.done.Add(2)
	go func() { defer k.done.Done(); k.receive() }()
	go func() { defer k.done.Done(); k.keep() }()
	return k
}

// activations are how often the console is asked for: after it was taken from another session, BMCs may need a moment.
const activations = 4

// activate takes the console (section 24.1). The UDP port that the BMC names is not looked at: the session's own is the one
// that a firewall or a forwarder lets through, and BMCs are known to name others by mistake.
func (s *Session) activate(ctx context.Context, g *guard20, before func() error) ([]byte, error) {
	const authenticated, encrypted = 0x40, 0x80
	flags := uint8(authenticated)
	if g.crypt != 0 {
		flags |= encrypted
	}
	order := func(r Request) ([]byte, error) {
		if err := before(); err != nil {
			return nil, err
		}
		data, _, err := s.exchange(ctx, r, []time.Duration{s.opts.wait()})
		return data, err
	}
	var err error
	for range activations {
		var data []byte
		data, err = order(Request{NetFn: netFnApp, Command: cmdActivatePayload, Data: []byte{payloadSOL, instance, flags, 0, 0, 0}})
		code, said := errors.AsType[*CodeError](err)
		if !said || code.Code != 0x80 {
			return data, payloadError(err)
		}
		// Another session has it.
		if _, err := order(deactivation()); err != nil {
			if _, said := errors.AsType[*CodeError](err); !said {
				return nil, err
			}
		}
		t := time.NewTimer(breath)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
	return nil, payloadError(err)
}

func deactivation() Request {
	return Request{NetFn: netFnApp, Command: cmdDeactivatePayload, Data: []byte{payloadSOL, instance, 0, 0, 0, 0}}
}

// PayloadError is a BMC that does not give the console.
type PayloadError struct{ Said string }

func (e *PayloadError) Error() string { return e.Said }

// payloadError says what the completion codes of Activate Payload mean (section 24.1).
func payloadError(err error) error {
	code, said := errors.AsType[*CodeError](err)
	if !said {
		return err
	}
	switch code.Code {
	case 0x80:
		return &PayloadError{"another session has Serial over LAN, and takes it back as often as it is ended"}
	case 0x81:
		return &PayloadError{"Serial over LAN is switched off at the BMC, or for this user: `ipmitool sol set enabled true` and `ipmitool sol payload enable` switch it on"}
	case 0x82:
		return &PayloadError{"it has as many sessions of Serial over LAN as it may have"}
	case 0x83:
		return &PayloadError{"it gives Serial over LAN only without encryption: another ipmi_cipher_suite may do"}
	case 0x84:
		return &PayloadError{"it gives Serial over LAN only with encryption: another ipmi_cipher_suite may do"}
	case 0xC1:
		return &PayloadError{"it has no Serial over LAN"}
	}
	return err
}

// end ends the console for a reason, once.
func (k *Console) end(why error) {
	k.once.Do(func() {
		k.why = why
		close(k.ended)
	})
}

// refusals are how often in a row the BMC's port may be closed before the console is over: its session is gone then.
const refusals = 3

// receive takes in datagrams until the socket is closed, or its other end is.
func (k *Console) receive() {
	buf := make([]byte, largest)
	for refused := 0; ; {
		n, err := k.s.conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			k.end(net.ErrClosed)
			return
		}
		if err != nil {
			if refused++; refused >= refusals {
				k.end(fmt.Errorf("the BMC no longer answers in the console's session: %w", &NoAnswerError{Datagrams: refused, Closed: true}))
			}
			select {
			case k.look <- struct{}{}:
			default:
			}
			select {
			case <-k.ended:
				return
			case <-time.After(breath):
			}
			continue
		}
		refused = 0
		k.mu.Lock()
		chars, isChars := k.g.openAs(payloadSOL, buf[:n])
		var message []byte
		isMessage := false
		if !isChars {
			message, isMessage = k.g.open(buf[:n])
		}
		k.mu.Unlock()
		switch {
		case isChars:
			k.packet(chars)
		case isMessage:
			k.answered(message)
		}
	}
}

// answered hands an answer to who waits for it.
func (k *Console) answered(message []byte) {
	a, ok := parseAnswer(message)
	if !ok {
		return
	}
	a.data = append([]byte(nil), a.data...)
	k.mu.Lock()
	w, waits := k.waiting[a.seq]
	if waits && a.netFn == w.netFn|1 && a.command == w.command {
		delete(k.waiting, a.seq)
	} else {
		waits = false
	}
	k.mu.Unlock()
	if waits {
		w.got <- a
	}
}

// packet takes in what the BMC sends.
func (k *Console) packet(b []byte) {
	if len(b) < 4 {
		return
	}
	h, chars := solHead{b[0] & 0x0F, b[1] & 0x0F, b[2], b[3]}, b[4:]
	if h.acked != 0 {
		select { // a word that was not taken is out of date
		case <-k.acks:
		default:
		}
		k.acks <- h
	}
	if h.number != 0 && k.keepChars(h.number, chars) {
		k.say(solHead{acked: h.number, accepted: uint8(len(chars))}, nil) // one that is lost is sent again, and so is this
	}
	if h.status&solEnded != 0 {
		k.end(ErrTaken)
	}
}

// keepChars keeps the characters of a packet that are new, and reports whether it had room. A packet that is sent again may
// have grown.
func (k *Console) keepChars(number uint8, chars []byte) bool {
	fresh := chars
	if number == k.last {
		fresh = chars[min(k.length, len(chars)):]
	}
	if len(fresh) > 0 {
		select {
		case k.chars <- append([]byte(nil), fresh...):
		default:
			return false
		}
	}
	if number != k.last || len(chars) > k.length {
		k.last, k.length = number, len(chars)
	}
	return true
}

// say sends a packet.
func (k *Console) say(h solHead, chars []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	datagram, err := k.g.sealAs(payloadSOL, append([]byte{h.number, h.acked, h.accepted, h.status}, chars...))
	if err != nil {
		return err
	}
	_, err = k.s.conn.Write(datagram)
	return err
}

// ask asks the BMC something in the console's session.
func (k *Console) ask(ctx context.Context, r Request, tries []time.Duration) ([]byte, error) {
	for _, wait := range tries {
		w := waiter{r.NetFn, r.Command, make(chan answer, 1)}
		k.mu.Lock()
		seq := k.s.next()
		k.waiting[seq] = w
		datagram, err := k.g.seal(packMessage(addressBMC, addressConsole, seq, r))
		if err == nil {
			_, _ = k.s.conn.Write(datagram) // one that is lost is sent again
		}
		k.mu.Unlock()
		if err != nil {
			return nil, err
		}
		t := time.NewTimer(wait)
		select {
		case a := <-w.got:
			t.Stop()
			if a.code != 0 {
				return nil, &CodeError{Code: a.code, Request: r}
			}
			return a.data, nil
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
		k.mu.Lock()
		delete(k.waiting, seq)
		k.mu.Unlock()
	}
	return nil, &NoAnswerError{Datagrams: len(tries)}
}

// keep asks the BMC from time to time whether the console is still there, which also keeps the session open.
func (k *Console) keep() {
	tick := time.NewTicker(k.opts.KeepAlive)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-k.ended
		cancel()
	}()
	told := true
	for {
		select {
		case <-k.ended:
			return
		case <-k.look:
		case <-tick.C:
		}
		r := Request{NetFn: netFnApp, Command: cmdPayloadInstance, Data: []byte{payloadSOL, instance}}
		if !told {
			r = Request{NetFn: netFnApp, Command: cmdDeviceID}
		}
		data, err := k.ask(ctx, r, k.s.opts.Tries)
		if _, refused := errors.AsType[*CodeError](err); refused && told {
			told = false // it does not tell: that the session is there has to do
			continue
		}
		if err != nil && ctx.Err() == nil {
			k.end(fmt.Errorf("the BMC no longer answers in the console's session: %w", err))
			return
		}
		if told && len(data) >= 4 && binary.LittleEndian.Uint32(data) == 0 {
			k.end(ErrTaken)
			return
		}
	}
}

// Read waits for characters of the machine. Its error says why the console has ended.
func (k *Console) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		select {
		case k.rest = <-k.chars:
		default:
			select {
			case k.rest = <-k.chars:
			case <-k.ended:
				return 0, k.why
			}
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

// Write returns once the BMC has taken all characters. left reports whether it may have taken some, if not.
func (k *Console) Write(ctx context.Context, p []byte) (left bool, err error) {
	k.sending.Lock()
	defer k.sending.Unlock()
	for len(p) > 0 {
		n := min(len(p), k.most)
		taken, sent, err := k.send(ctx, 0, p[:n])
		left = left || sent
		if err != nil {
			return left, err
		}
		p = p[taken:]
	}
	return left, nil
}

// Break sends a break.
func (k *Console) Break(ctx context.Context) (left bool, err error) {
	k.sending.Lock()
	defer k.sending.Unlock()
	_, left, err = k.send(ctx, solBreak, nil)
	return left, err
}

// firstNumber is that of a session's first packet.
const firstNumber = 1

// send sends one packet until the BMC has said how many of its characters it took. A packet that is sent again has the same
// number, so that the BMC takes it once.
func (k *Console) send(ctx context.Context, operation uint8, chars []byte) (taken int, left bool, err error) {
	// There are BMCs, OpenIPMI's simulator among them, that know the last number of the session before: characters in a packet of
	// that number would pass for a repetition. So a first packet has none, and it does not matter whether it is taken.
	first := k.number == 0
	if first {
		k.number = firstNumber
	}
	k.number = k.number%15 + 1
	refused := false
	for _, wait := range k.opts.Resend {
		if ctx.Err() != nil { // else the BMC may take it before the end is seen
			return 0, left, context.Cause(ctx)
		}
		if err := k.opts.Before(); err != nil {
			return 0, left, err
		}
		select {
		case <-k.acks:
		default:
		}
		if first {
			first = false
			_ = k.say(solHead{number: firstNumber}, nil) // the next packet says what is wrong
		}
		if err := k.say(solHead{number: k.number, status: operation}, chars); err == nil {
			left = true
		}
		h, heard, err := k.word(ctx, wait)
		if err != nil {
			return 0, left, err
		}
		if !heard {
			continue
		}
		taken = min(int(h.accepted), len(chars))
		if refused = taken == 0 && (len(chars) > 0 || h.status&solNack != 0); !refused {
			return taken, true, nil
		}
		// It took none: the same again, a little later, is a new packet.
		k.number = k.number%15 + 1
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-k.ended:
			t.Stop()
			return 0, false, k.why
		case <-ctx.Done():
			t.Stop()
			return 0, false, context.Cause(ctx)
		}
	}
	if refused {
		return 0, false, ErrRefusedCharacters
	}
	err = &NoAnswerError{Datagrams: len(k.opts.Resend)}
	k.end(fmt.Errorf("the BMC no longer takes what is typed: %w", err))
	return 0, left, err
}

// word waits for the BMC's word on the packet that was sent last.
func (k *Console) word(ctx context.Context, wait time.Duration) (h solHead, heard bool, err error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case h = <-k.acks:
			if h.acked == k.number {
				return h, true, nil
			}
		case <-t.C:
			return h, false, nil
		case <-k.ended:
			return h, false, k.why
		case <-ctx.Done():
			return h, false, context.Cause(ctx)
		}
	}
}

// Close gives the console back and ends the session, as far as ctx allows.
func (k *Console) Close(ctx context.Context) {
	select {
	case <-k.ended: // the BMC has ended it, or is gone: its session at least may be there
	default:
		if k.opts.Before() == nil { // else it is no longer ours, and its new owner takes it
			_, _ = k.ask(ctx, deactivation(), k.s.opts.Tries[:1])
		}
	}
	if r, there := k.s.farewell(); there {
		_, _ = k.ask(ctx, r, k.s.opts.Tries[:1])
	}
	k.end(net.ErrClosed)
	k.s.conn.Close()
	k.done.Wait()
}
