package lan

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// far is a BMC's end of a console: what it does with each packet is the test's.
type far struct {
	t    *testing.T
	conn *net.UDPConn
	peer *net.UDPAddr
	g    *guard20

	mu    sync.Mutex
	typed bytes.Buffer
	last  uint8
	// takes says how many characters of a packet the BMC takes, and with which status; its word is lost if lost is true.
	takes func(chars []byte, operation uint8) (n int, status uint8, lost bool)
	acked []uint8 // numbers of its own packets that were acknowledged
	done  chan struct{}
}

// newFar makes both ends of a console.
func newFar(t *testing.T, o ConsoleOptions) (*far, *Console) {
	t.Helper()
	bmc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialUDP("udp", nil, bmc.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	guard := func(own, other uint32) *guard20 {
		g := &guard20{integrity: types.IntegrityAlg_HMAC_SHA1_96, crypt: types.CryptAlg_AES_CBC_128, k1: bytes.Repeat([]byte{1}, 20), k2: bytes.Repeat([]byte{2}, 20), console: own, bmc: other}
		g.authenticator, _ = crypto.IntegrityAuthCodeLen(g.integrity)
		return g
	}
	f := &far{t: t, conn: bmc, peer: conn.LocalAddr().(*net.UDPAddr), g: guard(7, 8), done: make(chan struct{}),
		takes: func(chars []byte, _ uint8) (int, uint8, bool) { return len(chars), 0, false }}
	go f.serve()
	opts := Options{Tries: []time.Duration{50 * time.Millisecond, 50 * time.Millisecond}}.filled()
	s := &Session{conn: conn, opts: opts, guard: guard(8, 7), buf: make([]byte, largest)}
	k := s.console(s.guard.(*guard20), o.filled(), []byte{0, 0, 0, 0, 20, 0, 20, 0})
	t.Cleanup(func() {
		k.Close(t.Context())
		bmc.Close()
		<-f.done
	})
	return f, k
}

func (f *far) serve() {
	defer close(f.done)
	buf := make([]byte, largest)
	for {
		n, err := f.conn.Read(buf)
		if err != nil {
			return
		}
		f.mu.Lock()
		if p, ok := f.g.openAs(payloadSOL, buf[:n]); ok {
			f.packet(p)
		}
		f.mu.Unlock()
	}
}

// packet takes in a packet. mu is held.
func (f *far) packet(p []byte) {
	number, acked, operation, chars := p[0], p[1], p[3], p[4:]
	if acked != 0 {
		f.acked = append(f.acked, acked)
	}
	if number == 0 {
		return
	}
	n, status, lost := f.takes(chars, operation)
	if number == f.last {
		n = 0 // it has these already
		for range chars {
			n++
		}
	} else if status&solNack == 0 || n > 0 {
		f.typed.Write(chars[:n])
		f.last = number
	}
	if !lost {
		f.say([]byte{0, number, uint8(n), status})
	}
}

// say sends a packet. mu is held.
func (f *far) say(p []byte) {
	d, err := f.g.sealAs(payloadSOL, p)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.conn.WriteToUDP(d, f.peer)
}

func (f *far) set(do func()) { f.mu.Lock(); defer f.mu.Unlock(); do() }

var quick = ConsoleOptions{KeepAlive: time.Hour, Resend: []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}}

// A BMC that takes a part of each packet, and whose word is lost now and then, gets each character once and in order.
func TestTypedOnce(t *testing.T) {
	f, k := newFar(t, quick)
	count := 0
	f.set(func() {
		f.takes = func(chars []byte, _ uint8) (int, uint8, bool) {
			if len(chars) > 16 {
				t.Errorf("%d characters in a packet of 20 bytes", len(chars))
			}
			count++
			return len(chars), 0, count%3 == 0
		}
	})
	text := strings.Repeat("0123456789abcdef-", 20)
	if left, err := k.Write(t.Context(), []byte(text)); err != nil || !left {
		t.Fatal(left, err)
	}
	f.set(func() {
		f.takes = func(chars []byte, _ uint8) (int, uint8, bool) { return min(5, len(chars)), 0, false }
	})
	if _, err := k.Write(t.Context(), []byte("and in parts of five")); err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		if f.typed.String() != text+"and in parts of five" {
			t.Errorf("the machine got %q", f.typed.String())
		}
	})
}

// A machine that takes nothing is an error that says so and ends nothing. A BMC without a word ends the console.
func TestTypedInVain(t *testing.T) {
	f, k := newFar(t, quick)
	f.set(func() {
		f.takes = func([]byte, uint8) (int, uint8, bool) { return 0, solNack | solUnavailable, false }
	})
	if left, err := k.Write(t.Context(), []byte("x")); !errors.Is(err, ErrRefusedCharacters) || left {
		t.Errorf("typed to a machine that is off: %t, %v", left, err)
	}
	f.set(func() {
		f.takes = func(chars []byte, operation uint8) (int, uint8, bool) {
			if operation == solBreak {
				f.typed.WriteString("[break]")
			}
			return len(chars), 0, false
		}
	})
	if _, err := k.Break(t.Context()); err != nil {
		t.Error(err)
	}
	f.set(func() {
		if f.typed.String() != "[break]" {
			t.Errorf("the machine got %q", f.typed.String())
		}
		f.takes = func(chars []byte, _ uint8) (int, uint8, bool) { return len(chars), 0, true }
	})
	left, err := k.Write(t.Context(), []byte("y"))
	if _, silent := errors.AsType[*NoAnswerError](err); !silent || !left {
		t.Errorf("typed to a BMC that is silent: %t, %v", left, err)
	}
	if _, err := k.Read(make([]byte, 1)); err == nil {
		t.Error("the console goes on")
	}
}

// What the BMC sends again is shown once, and a packet that has grown meanwhile shows what is new. Each is acknowledged.
func TestShownOnce(t *testing.T) {
	f, k := newFar(t, quick)
	f.set(func() {
		for _, p := range []string{"\x01one", "\x01one", "\x01one and", "\x02 two", "\x02 two", "\x03", "\x01 three"} {
			f.say(append([]byte{p[0], 0, 0, 0}, p[1:]...))
		}
	})
	var shown []byte
	buf := make([]byte, 4)
	for len(shown) < len("one and two three") {
		n, err := k.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, buf[:n]...)
	}
	if string(shown) != "one and two three" {
		t.Errorf("shown %q", shown)
	}
	f.set(func() { f.say([]byte{0, 0, 0, solEnded}) })
	if _, err := k.Read(buf); !errors.Is(err, ErrTaken) {
		t.Errorf("a console that was ended: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var acked int
		f.set(func() { acked = len(f.acked) })
		if acked == 7 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of 7 packets were acknowledged", acked)
		}
	}
}

// Without the fence nothing is sent, neither at first nor again.
func TestTypedBehindTheFence(t *testing.T) {
	var mu sync.Mutex
	passes := 1
	lost := errors.New("no longer ours")
	o := quick
	o.Before = func() error {
		mu.Lock()
		defer mu.Unlock()
		if passes--; passes < 0 {
			return lost
		}
		return nil
	}
	f, k := newFar(t, o)
	sent := 0
	f.set(func() {
		f.takes = func(chars []byte, _ uint8) (int, uint8, bool) {
			if len(chars) > 0 {
				sent++
			}
			return len(chars), 0, true
		}
	})
	if left, err := k.Write(t.Context(), []byte("x")); !errors.Is(err, lost) || !left {
		t.Errorf("the fence was lost before the second try: %t, %v", left, err)
	}
	if left, err := k.Write(t.Context(), []byte("y")); !errors.Is(err, lost) || left {
		t.Errorf("without the fence: %t, %v", left, err)
	}
	time.Sleep(50 * time.Millisecond)
	f.set(func() {
		if sent != 1 {
			t.Errorf("%d packets were sent", sent)
		}
	})
}

// Nothing is sent once the caller's context has ended: a BMC that is quick takes it before the end is seen.
func TestTypedWithAContextThatHasEnded(t *testing.T) {
	f, k := newFar(t, quick)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if left, err := k.Write(ended, []byte("order")); left || !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, may have reached the BMC: %t", err, left)
		}
	}
	if _, err := k.Write(t.Context(), []byte("later")); err != nil {
		t.Fatal(err)
	}
	f.set(func() {
		if got := f.typed.String(); got != "later" {
			t.Errorf("the machine got %q", got)
		}
	})
}
