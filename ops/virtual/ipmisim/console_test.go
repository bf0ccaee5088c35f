package ipmisim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/ops/dev"
	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/stack"
	"github.com/ironyard/ironyard/ops/terminal"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	ipmidriver "github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// port is a machine's serial port, which repeats what is typed. Who connects reads its greeting first.
func port(t *testing.T, greeting string) (address string, say func(string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				io.WriteString(c, greeting)
				io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String(), func(text string) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			io.WriteString(c, text)
		}
	}
}

// newConsole is the console interface of a driver that looks often whether consoles are there.
func newConsole(t *testing.T) ipmidriver.Console {
	d := ipmidriver.New(ipmidriver.Options{Timeout: time.Second, KeepAlive: 200 * time.Millisecond, Pace: 10_000, Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return ipmidriver.Console{Driver: d}
}

// reader keeps what a line says, until it ends.
type reader struct {
	line driver.Line
	mu   sync.Mutex
	text bytes.Buffer
	why  error
	done chan struct{}
}

func read(t *testing.T, line driver.Line) *reader {
	r := &reader{line: line, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		buf := make([]byte, 512)
		for {
			n, err := line.Read(buf)
			r.mu.Lock()
			r.text.Write(buf[:n])
			r.why = err
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		line.Close(ctx)
		<-r.done
	})
	return r
}

// await waits until the line has said words.
func (r *reader) await(t *testing.T, words string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		text, why := r.text.String(), r.why
		r.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		if why != nil || time.Now().After(end) {
			t.Fatalf("the console said %d bytes, %.200q, and not %.80q: %v", len(text), text, words, why)
		}
	}
}

// ends waits until the line has ended, and returns why.
func (r *reader) ends(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.why
	case <-time.After(20 * time.Second):
		t.Fatal("the console has not ended")
		return nil
	}
}

func open(t *testing.T, c ipmidriver.Console, at uint16, fields map[string]any) (driver.Line, *reader) {
	t.Helper()
	line, err := c.OpenConsole(t.Context(), &drivertest.Fence{}, nodeAt(at, "s3cret-pass", fields))
	if err != nil {
		t.Fatal(err)
	}
	return line, read(t, line)
}

func printable(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rand.N(36)]
	}
	return string(text)
}

// What is typed reaches the machine, and what it writes comes back, whole and in order. So it is with and without encryption, and
// on a wire that loses one datagram in five and repeats another.
func TestConsole(t *testing.T) {
	t.Parallel()
	for name, suite := range map[string]int{"encrypted": 3, "in the clear": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serial, _ := port(t, "machine login: ")
			at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
			wire := ipmitest.NewWire(t, at.String())
			c, fields := newConsole(t), map[string]any{"ipmi_cipher_suite": suite}
			n := nodeAt(uint16(wire.Port()), "s3cret-pass", fields)
			if err := c.StartConsole(t.Context(), &drivertest.Fence{}, n); err != nil {
				t.Fatal(err)
			}
			line, r := open(t, c, uint16(wire.Port()), fields)
			var mu sync.Mutex
			counts := map[byte]int{}
			// ipmi_sim does not hold back a datagram that it has had before: one that is repeated late is typed twice. So what
			// goes up is repeated at once, and what comes down late.
			lossy := func(repeated time.Duration) func([]byte) []ipmitest.Packet {
				return func(b []byte) []ipmitest.Packet {
					mu.Lock()
					defer mu.Unlock()
					// Each kind of payload has a count of its own (IPMI 2.0, 13.6). Else what keeps the console alive, at even times, would
					// have each repetition of the same packet lost.
					kind := b[5] & 0x3f
					switch counts[kind]++; counts[kind] % 5 {
					case 2:
						return nil
					case 4:
						return append(ipmitest.As(b), ipmitest.Packet{Data: b, After: repeated})
					}
					return ipmitest.As(b)
				}
			}
			text := printable(600)
			if err := line.Write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
			r.await(t, text)
			wire.Up(lossy(0))
			wire.Down(lossy(20 * time.Millisecond))
			text = printable(200)
			if err := line.Write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
			r.await(t, text)
		})
	}
}

// The newest session has the console: the one before ends and says why. So it is when ipmitool takes it.
func TestConsoleIsTaken(t *testing.T) {
	t.Parallel()
	needs(t, "ipmitool")
	serial, say := port(t, "")
	at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
	_, first := open(t, newConsole(t), at.Port(), nil)
	line, second := open(t, newConsole(t), at.Port(), nil)
	if err := first.ends(t); err == nil || !strings.Contains(err.Error(), "another session has taken it") {
		t.Errorf("the first session ended with: %v", err)
	}
	say("still here")
	second.await(t, "still here")
	if err := line.Write(t.Context(), []byte("typed")); err != nil {
		t.Error(err)
	}
	second.await(t, "typed")
	cmd := exec.CommandContext(t.Context(), "ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-U", "admin", "-E", "-p", strconv.Itoa(int(at.Port())), "sol", "deactivate")
	cmd.Env = append(cmd.Environ(), "IPMI_PASSWORD=s3cret-pass")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ipmitool sol deactivate: %v: %s", err, out)
	}
	if err := second.ends(t); err == nil || !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("the session that ipmitool has ended: %v", err)
	}
}

// A fence that is lost lets nothing be typed, and two machines do not mix.
func TestConsolesOfTwo(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	var lines []driver.Line
	var readers []*reader
	fence := &drivertest.Fence{}
	for _, name := range []string{"one", "two"} {
		serial, _ := port(t, "this is "+name)
		at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
		line, err := c.OpenConsole(t.Context(), fence, nodeAt(at.Port(), "s3cret-pass", nil))
		if err != nil {
			t.Fatal(err)
		}
		lines, readers = append(lines, line), append(readers, read(t, line))
	}
	for i, text := range []string{"for the first", "for the second"} {
		if err := lines[i].Write(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		readers[i].await(t, text)
	}
	for i, text := range []string{"for the second", "for the first"} {
		if strings.Contains(readers[i].text.String(), text) {
			t.Errorf("console %d said %q", i, readers[i].text.String())
		}
	}
	fence.Lose()
	if err := lines[0].Write(t.Context(), []byte("secret order")); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("typed without the fence: %v", err)
	}
	if strings.Contains(readers[0].text.String(), "secret order") {
		t.Error("what was typed without the fence has reached the machine")
	}
}

// Each refusal says what to do.
func TestConsoleRefusals(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	without := start(t, &computer{}, "s3cret-pass")
	serial, _ := port(t, "")
	with, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
	for name, row := range map[string]struct {
		at     netip.AddrPort
		fields map[string]any
		words  []string
	}{
		"no serial port": {without, nil, []string{"Serial over LAN"}},
		"version":        {with, map[string]any{"ipmi_protocol_version": "1.5"}, []string{"Serial over LAN only works with IPMI protocol version 2.0", driver.ErrInvalid.Error()}},
		"bridge":         {with, map[string]any{"ipmi_bridging": "single", "ipmi_target_channel": "0", "ipmi_target_address": "0x30"}, []string{"ipmi_bridging", "no-console"}},
		"password":       {with, map[string]any{"ipmi_password": "wr0ng"}, []string{"ipmi_password", driver.ErrDenied.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.StartConsole(t.Context(), &drivertest.Fence{}, nodeAt(row.at.Port(), "s3cret-pass", row.fields))
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range append(row.words, "web1") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "s3cret-pass") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%q tells the password", err)
			}
		})
	}
}

// A BMC that starts again ends the console, which can be opened again.
func TestConsoleOfABMCThatRestarts(t *testing.T) {
	t.Parallel()
	serial, _ := port(t, "")
	at, bmc := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
	c := newConsole(t)
	_, r := open(t, c, at.Port(), nil)
	if err := bmc.Stop(); err != nil {
		t.Error(err)
	}
	if err := r.ends(t); !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "web1") {
		t.Errorf("the console of a BMC that is gone ended with: %v", err)
	}
	startWith(t, &computer{}, "s3cret-pass", serial, at)
	line, r := open(t, c, at.Port(), nil)
	if err := line.Write(t.Context(), []byte("again")); err != nil {
		t.Fatal(err)
	}
	r.await(t, "again")
}

// From the WebSocket to the serial port: central, the bus, rackd and a BMC that has nothing of this project in it.
func TestConsoleEndToEnd(t *testing.T) {
	t.Parallel()
	serial, say := port(t, "")
	at, _ := startWith(t, &computer{}, "s3cret-pass", serial, netip.AddrPort{})
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan *stack.Stack, 1), make(chan error, 1)
	go func() {
		done <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Drivers: []string{"ipmi"}, Log: slog.New(slog.DiscardHandler)}, func(s *stack.Stack) { up <- s })
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var s *stack.Stack
	select {
	case s = <-up:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	o, err := operator.New(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	info := nodeAt(at.Port(), "s3cret-pass", nil).DriverInfo
	id, err := o.Enrol(t.Context(), operator.Machine{Name: "web1", Driver: "ipmi", DriverInfo: info, Interfaces: map[string]string{"console": "ipmitool-socat"}})
	if err != nil {
		t.Fatal(err)
	}
	switchOn(t, s.Endpoint, id)
	conn, err := terminal.Dial(t.Context(), terminal.Target{Base: s.Endpoint, Node: id})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	shown := follow(t, conn)
	shown.await(t, `{"state":"open"}`)
	say("machine login: ")
	shown.await(t, "machine login: ")
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("root\r")); err != nil {
		t.Fatal(err)
	}
	shown.await(t, "root\r")
	say("Kernel panic - not syncing")
	shown.await(t, "Kernel panic")
	var log bytes.Buffer
	if err := terminal.Log(t.Context(), terminal.Target{Base: s.Endpoint, Node: id}, &log); err != nil || !strings.Contains(log.String(), "Kernel panic - not syncing") {
		t.Errorf("the log is %q, %v", log.String(), err)
	}
}

// switchOn enables a console.
func switchOn(t *testing.T, base, id string) {
	t.Helper()
	do := func(method, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, base+"/v1/nodes/"+id+"/states/console", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s: %s %s %v", method, resp.Status, raw, err)
		}
		return string(raw)
	}
	do("PUT", `{"enabled":true}`)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(do("GET", ""), `"console_enabled":true`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the console is not enabled")
		}
	}
}

// follow reads a session. Each wait begins behind the last one.
func follow(t *testing.T, conn *websocket.Conn) *session {
	s := &session{pieces: make(chan string, 1024)}
	go func() {
		defer close(s.pieces)
		for {
			_, p, err := conn.Read(t.Context())
			if err != nil {
				return
			}
			s.pieces <- string(p)
		}
	}()
	return s
}

type session struct {
	pieces chan string
	text   string
}

func (s *session) await(t *testing.T, words string) {
	t.Helper()
	for late := time.After(60 * time.Second); ; {
		if _, rest, found := strings.Cut(s.text, words); found {
			s.text = rest
			return
		}
		select {
		case piece, more := <-s.pieces:
			if s.text += piece; !more {
				t.Fatalf("the session ended with %q, before %q", s.text, words)
			}
		case <-late:
			t.Fatalf("the session shows %q, not %q", s.text, words)
		}
	}
}
