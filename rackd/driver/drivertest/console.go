package drivertest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// SerialPort is a machine with a serial port that a test controls, and the console interface that reaches it. What its kind of
// console cannot do is nil: the checks that need it are left out.
type SerialPort struct {
	Console driver.Serial
	Node    *node.Document
	// Secret is the password in Node. It must stand in no error.
	Secret string
	// Say has the machine write a text. Typed is all that has reached it.
	Say   func(text string)
	Typed func() string
	// Hang has the BMC take what it is sent and answer nothing, until the test ends.
	Hang func()
	// Mute has it do what it is sent and lose its answers.
	Mute func()
	// Silence: nothing listens any more.
	Silence func()
	// Deny has it refuse the node's credentials. Logins is how many logins it has refused.
	Deny   func()
	Logins func() int
	// One: the BMC gives the console to one session, and the newest has it.
	One bool
}

// ConsoleConformance holds a console interface to the contract (driver.Serial). start makes a machine whose console is free, and
// clears it away at the end of the check.
func ConsoleConformance(t *testing.T, start func(t *testing.T) *SerialPort) {
	for _, c := range []struct {
		name  string
		check func(*testing.T, *SerialPort)
	}{
		{"fields are described and checked without the BMC", checkConsoleFields},
		{"what is typed and what is written pass", checkCarries},
		{"a console that is closed ends, and can be opened again", checkClose},
		{"a console that was only tried is given back", checkStart},
		{"a console that was taken ends and says why", checkTaken},
		{"what is typed asks the fence", checkTypingFence},
		{"a context that has ended opens nothing and types nothing", checkConsoleContexts},
		{"a BMC that hangs holds up no caller", checkConsoleHang},
		{"a lost answer leaves open what was typed", checkTypedLost},
		{"a console ends when its BMC is gone", checkConsoleGone},
		{"a silent BMC is unreachable", checkConsoleSilence},
		{"refused credentials are told of, and tried once", checkConsoleDenied},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, start(t)) })
	}
	t.Run("opening asks the fence", func(t *testing.T) { checkOpeningFence(t, start) })
}

// Viewing holds a graphical console to the contract of serial ones: the line of a viewer carries bytes too.
type Viewing struct{ driver.Graphical }

// OpenConsole implements driver.Serial.
func (v Viewing) OpenConsole(ctx context.Context, f driver.Fence, n *node.Document) (driver.Line, error) {
	return v.OpenViewer(ctx, f, n)
}

// machine is what checks of errors need of a port.
func (s *SerialPort) machine() *Machine { return &Machine{Node: s.Node, Secret: s.Secret} }

// reader reads a line until it ends.
type reader struct {
	mu    sync.Mutex
	text  []byte
	err   error
	ended chan struct{}
}

// open opens the console and reads it until the end of the check.
func (s *SerialPort) open(t *testing.T, f driver.Fence) (driver.Line, *reader) {
	t.Helper()
	line, err := s.Console.OpenConsole(within(t), f, s.Node)
	must(t, s.machine(), "OpenConsole", err)
	r := &reader{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		buf := make([]byte, 256)
		for {
			n, err := line.Read(buf)
			r.mu.Lock()
			r.text = append(r.text, buf[:n]...)
			r.err = err
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), promptly)
		defer cancel()
		line.Close(ctx)
		<-r.ended
	})
	return line, r
}

func (r *reader) said() string { r.mu.Lock(); defer r.mu.Unlock(); return string(r.text) }

// why waits until the line has ended and says why.
func (r *reader) why(t *testing.T) error {
	t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(soon):
		t.Fatal("the console does not end")
		return nil
	}
}

// until waits for what is to come.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not come: %s", what)
		}
	}
}

// types types a text and waits until the machine has it, once more than before.
func (s *SerialPort) types(t *testing.T, line driver.Line, text string) {
	t.Helper()
	before := len(s.Typed())
	must(t, s.machine(), "Write", line.Write(within(t), []byte(text)))
	until(t, "what was typed", func() bool { return strings.HasSuffix(s.Typed()[before:], text) })
}

func checkConsoleFields(t *testing.T, s *SerialPort) {
	must(t, s.machine(), "Validate", s.Console.Validate(s.Node))
	for field, text := range s.Console.Properties() {
		if text == "" {
			t.Errorf("field %s is not described", field)
		}
	}
	if s.Secret != "" {
		bare := *s.Node
		bare.DriverInfo = nil
		failing(t, s.machine(), "Validate without driver_info", s.Console.Validate(&bare), driver.ErrInvalid)
	}
	if s.Logins != nil && s.Logins() > 0 {
		t.Error("Validate asked the BMC")
	}
}

// pattern is a text in which a missing or doubled part shows.
func pattern(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz0123456789"[(i*7+i/36)%36])
	}
	return b.String()
}

func checkCarries(t *testing.T, s *SerialPort) {
	line, r := s.open(t, &Fence{})
	s.types(t, line, "root\r")
	text := pattern(2000)
	s.types(t, line, text)
	if got := s.Typed(); !strings.HasSuffix(got, "root\r"+text) {
		t.Errorf("the machine got %d bytes, want %d: each once, and in order", len(got), len("root\r"+text))
	}
	text = "\x00\x1b[31m\xff" + pattern(2000)
	s.Say(text)
	until(t, "what the machine writes", func() bool { return strings.Contains(r.said(), text) })
}

func checkClose(t *testing.T, s *SerialPort) {
	for range 2 {
		line, r := s.open(t, &Fence{})
		s.types(t, line, "typed")
		line.Close(within(t))
		if err := r.why(t); err == nil {
			t.Error("a console that was closed is read without an error")
		}
		if err := line.Write(within(t), []byte("late")); err == nil {
			t.Error("a console that was closed was typed into")
		}
		line.Close(within(t)) // once more is fine
	}
	if strings.Contains(s.Typed(), "late") {
		t.Error("what was typed after the end has reached the machine")
	}
}

func checkStart(t *testing.T, s *SerialPort) {
	must(t, s.machine(), "StartConsole", s.Console.StartConsole(within(t), &Fence{}, s.Node))
	line, _ := s.open(t, &Fence{})
	s.types(t, line, "typed")
	must(t, s.machine(), "StopConsole", s.Console.StopConsole(within(t), &Fence{}, s.Node))
	if got := s.Typed(); strings.Count(got, "typed") != 1 {
		t.Errorf("the machine got %q", got)
	}
}

func checkTaken(t *testing.T, s *SerialPort) {
	if !s.One {
		t.Skip("this kind of console has room for several")
	}
	_, first := s.open(t, &Fence{})
	second, _ := s.open(t, &Fence{})
	err := first.why(t)
	failing(t, s.machine(), "the session that was there", err, nil)
	if errors.Is(err, io.EOF) {
		t.Errorf("the session that was there ended with %v and without a reason", err)
	}
	s.types(t, second, "typed")
}

// checkOpeningFence takes the node away after each number of checks.
func checkOpeningFence(t *testing.T, start func(t *testing.T) *SerialPort) {
	for passed := range mostChecks {
		s, f := start(t), &Fence{}
		f.LoseAfter(passed)
		line, err := s.Console.OpenConsole(within(t), f, s.Node)
		if err == nil {
			line.Close(within(t))
			if passed == 0 {
				t.Error("it did not ask the fence")
			}
			return
		}
		if !errors.Is(err, driver.ErrFenced) || err.Error() != f.Check().Error() {
			t.Errorf("after %d checks: %v; want the fence's own error", passed, err)
		}
	}
	t.Errorf("it asks the fence more than %d times", mostChecks)
}

func checkTypingFence(t *testing.T, s *SerialPort) {
	f := &Fence{}
	line, _ := s.open(t, f)
	s.types(t, line, "ours")
	f.Lose()
	if err := line.Write(within(t), []byte("order")); !errors.Is(err, driver.ErrFenced) {
		t.Errorf("Write: %v; want ErrFenced", err)
	}
	if err := line.Break(within(t)); !errors.Is(err, driver.ErrFenced) && !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("Break: %v; want ErrFenced or ErrUnsupported", err)
	}
	if got := s.Typed(); !strings.HasSuffix(got, "ours") {
		t.Errorf("the machine of another rackd got %q", got)
	}
}

func checkConsoleContexts(t *testing.T, s *SerialPort) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Console.OpenConsole(ended, &Fence{}, s.Node)
	failing(t, s.machine(), "OpenConsole", err, nil)
	line, _ := s.open(t, &Fence{})
	if err = line.Write(ended, []byte("order")); err == nil {
		t.Error("Write with a context that has ended: no error")
	}
	told(t, s.machine(), "Write", err)
	s.types(t, line, "later")
	if got := s.Typed(); strings.Contains(got, "order") && !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("what was typed with a context that has ended has reached the machine: %q", got)
	}
}

// promptlyFails checks that a call ends soon after its context did.
func (s *SerialPort) promptlyFails(t *testing.T, what string, want error, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if took := time.Since(began); took > promptly {
		t.Errorf("%s took %s, and its context had ended after 200 ms", what, took)
	}
	failing(t, s.machine(), what, err, want)
}

func checkConsoleHang(t *testing.T, s *SerialPort) {
	if s.Hang == nil {
		t.Skip("this kind of console does not hang")
	}
	s.Hang()
	s.promptlyFails(t, "OpenConsole", driver.ErrUnreachable, func(ctx context.Context) error {
		_, err := s.Console.OpenConsole(ctx, &Fence{}, s.Node)
		return err
	})
}

func checkTypedLost(t *testing.T, s *SerialPort) {
	if s.Mute == nil {
		t.Skip("this kind of console does not say what it took")
	}
	line, _ := s.open(t, &Fence{})
	s.Mute()
	s.promptlyFails(t, "Write", driver.ErrUnknown, func(ctx context.Context) error { return line.Write(ctx, []byte("typed")) })
	if n := strings.Count(s.Typed(), "typed"); n > 1 {
		t.Errorf("it was typed %d times", n)
	}
}

func checkConsoleGone(t *testing.T, s *SerialPort) {
	if s.Silence == nil {
		t.Skip("this kind of hardware is always reachable")
	}
	_, r := s.open(t, &Fence{})
	s.Silence()
	failing(t, s.machine(), "the console of a BMC that is gone", r.why(t), driver.ErrUnreachable)
}

func checkConsoleSilence(t *testing.T, s *SerialPort) {
	if s.Silence == nil {
		t.Skip("this kind of hardware is always reachable")
	}
	s.Silence()
	_, err := s.Console.OpenConsole(within(t), &Fence{}, s.Node)
	failing(t, s.machine(), "OpenConsole", err, driver.ErrUnreachable)
	failing(t, s.machine(), "StartConsole", s.Console.StartConsole(within(t), &Fence{}, s.Node), driver.ErrUnreachable)
}

func checkConsoleDenied(t *testing.T, s *SerialPort) {
	if s.Deny == nil {
		t.Skip("this kind of hardware has no credentials")
	}
	s.Deny()
	for range 3 {
		_, err := s.Console.OpenConsole(within(t), &Fence{}, s.Node)
		failing(t, s.machine(), "OpenConsole", err, driver.ErrDenied)
	}
	if n := s.Logins(); n > 1 {
		t.Errorf("the credentials were tried %d times, want once: BMCs lock accounts", n)
	}
}
