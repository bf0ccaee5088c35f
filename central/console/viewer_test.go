package console

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/ironyard/ironyard/protocol/ask"
)

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string   { return r.text }
func (r *refusal) HTTPStatus() int { return r.status }

// silence is what comes in place of an answer.
var silence = &refusal{http.StatusServiceUnavailable, "it did not answer"}

// screen is a rack with one graphical console. What it shows is a stream of bytes, each of which follows from its position (shownAt).
type screen struct {
	mu     sync.Mutex
	length int64 // of what it shows; ended follows
	ended  string
	typed  bytes.Buffer
	opened map[string]int // how many times it was asked, by viewer
	closed int
	fail   func(what string) error // before and after an answer; nil: none is lost
	gate   chan struct{}           // not nil: what is typed waits for it
	asked  int
}

func shownAt(i int64) byte { return byte(i ^ i>>8 ^ i>>16) }

func (s *screen) set(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

// loses is whether a question is lost, or its answer.
func (s *screen) loses(what string, do func() error) error {
	s.asked++
	if s.fail != nil {
		if err := s.fail(what); err != nil {
			return err
		}
	}
	err := do()
	if s.fail != nil && err == nil {
		err = s.fail(what)
	}
	return err
}

func (s *screen) Read(context.Context, ask.ConsoleRead) (ask.ConsoleOutput, error) {
	return ask.ConsoleOutput{State: ask.ConsoleOpen, Graphical: true}, nil
}

func (s *screen) Write(context.Context, ask.ConsoleInput) error {
	return &refusal{http.StatusBadRequest, "its console is a graphical one"}
}

func (s *screen) OpenViewer(_ context.Context, q ask.Viewer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loses("open", func() error { s.opened[q.ID]++; return nil })
}

func (s *screen) ReadViewer(ctx context.Context, q ask.ViewerRead) (out ask.ViewerOutput, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.loses("read", func() error {
		if s.opened[q.ID] == 0 {
			return &refusal{http.StatusBadRequest, "no such viewer"}
		}
		for i := q.From; i < s.length && len(out.Data) < ask.ViewerPiece; i++ {
			out.Data = append(out.Data, shownAt(i))
		}
		if q.From+int64(len(out.Data)) == s.length {
			out.Ended = s.ended
		}
		return nil
	})
	if len(out.Data) == 0 && out.Ended == "" && err == nil {
		s.mu.Unlock()
		select {
		case <-time.After(time.Duration(q.WaitMS) * time.Millisecond):
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return out, err
}

func (s *screen) WriteViewer(_ context.Context, q ask.ViewerInput) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loses("write", func() error {
		have := int64(s.typed.Len())
		if q.At > have {
			return &refusal{http.StatusBadRequest, "bytes are missing"}
		}
		if rest := have - q.At; rest < int64(len(q.Data)) {
			s.typed.Write(q.Data[rest:])
		}
		return nil
	})
}

func (s *screen) CloseViewer(_ context.Context, q ask.Viewer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// pipes is a network of one server.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// viewing runs a test with a session of a screen, in a bubble of synctest. ended gets why the session has ended.
func viewing(t *testing.T, s *screen, protocols []string, do func(t *testing.T, conn *websocket.Conn, ended <-chan error)) {
	synctest.Test(t, func(t *testing.T) {
		s.opened = map[string]int{}
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			session, err := Accept(w, r, s)
			if err != nil {
				ended <- err
				return
			}
			ended <- session.Run(ctx)
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			l.conns <- far
			return near, nil
		}}}
		conn, _, err := websocket.Dial(t.Context(), "http://central/stream", &websocket.DialOptions{HTTPClient: client, Subprotocols: protocols})
		if err != nil {
			t.Fatal(err)
		}
		conn.SetReadLimit(1 << 20)
		do(t, conn, ended)
		conn.CloseNow()
		cancel()
		_ = server.Close()
		<-served
		synctest.Wait()
		s.set(func() {
			if len(s.opened) > 0 && s.closed == 0 {
				t.Error("the viewer was not closed at the rackd")
			}
		})
	})
}

// sees reads n bytes and checks that each is the one of its place.
func sees(t *testing.T, conn *websocket.Conn, n int64) {
	t.Helper()
	for at := int64(0); at < n; {
		kind, p, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("after %d bytes: %v", at, err)
		}
		if kind != websocket.MessageBinary {
			continue
		}
		for _, b := range p {
			if b != shownAt(at) {
				t.Fatalf("byte %d is another one", at)
			}
			at++
		}
	}
}

// A client of websockify's protocol gets nothing but the console's bytes, each once and in order, and so does the machine: also where every
// third question or answer is lost.
func TestPicturesWithLosses(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 20))
	s := &screen{length: 1 << 20, fail: func(string) error {
		if random.IntN(3) == 0 {
			return silence
		}
		return nil
	}}
	viewing(t, s, []string{"binary"}, func(t *testing.T, conn *websocket.Conn, _ <-chan error) {
		if conn.Subprotocol() != "binary" {
			t.Errorf("the subprotocol is %q", conn.Subprotocol())
		}
		done := make(chan struct{})
		var want bytes.Buffer
		go func() {
			defer close(done)
			time.Sleep(time.Minute) // until the viewer is open: RFB waits for a greeting
			for i := range 3000 {
				message := []byte{5, 0, byte(i >> 8), byte(i), 0, 9}
				if i == 1000 {
					message = bytes.Repeat([]byte("paste "), 3000)
				}
				want.Write(message)
				if err := conn.Write(t.Context(), websocket.MessageBinary, message); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		sees(t, conn, 1<<20)
		go func() { _, _, _ = conn.Read(t.Context()) }()
		<-done
		for range 600 {
			time.Sleep(time.Second)
			synctest.Wait()
			got := 0
			s.set(func() { got = s.typed.Len() })
			if got == want.Len() {
				break
			}
		}
		s.set(func() {
			if !bytes.Equal(s.typed.Bytes(), want.Bytes()) {
				t.Errorf("the machine got %d bytes, want %d, each once and in order", s.typed.Len(), want.Len())
			}
			if len(s.opened) != 1 {
				t.Errorf("%d viewers were opened for one session", len(s.opened))
			}
		})
	})
}

// A BMC that takes nothing for a while holds up what its viewer sends, and ends no session: the client is there and answers. What was sent
// arrives when the BMC takes it again. Where it does not, the session ends with the rackd's reason.
func TestABMCThatTakesNothingForAWhile(t *testing.T) {
	for _, again := range []bool{true, false} {
		s := &screen{}
		viewing(t, s, []string{Protocol}, func(t *testing.T, conn *websocket.Conn, ended <-chan error) {
			synctest.Wait()
			s.set(func() { s.fail = only("write", silence) })
			go func() {
				for {
					if _, _, err := conn.Read(t.Context()); err != nil {
						return
					}
				}
			}()
			time.Sleep(pingEvery - 2*time.Second) // so that the client is asked amid it
			go func() {
				for range 200 {
					if conn.Write(t.Context(), websocket.MessageBinary, []byte("123456")) != nil {
						return
					}
				}
			}()
			time.Sleep(ask.ViewerSilent - 10*time.Second)
			select {
			case err := <-ended:
				t.Errorf("it ended with %v", err)
				return
			default:
			}
			if again {
				s.set(func() { s.fail = nil })
				time.Sleep(5 * time.Second)
				s.set(func() {
					if s.typed.Len() != 1200 {
						t.Errorf("the machine has %d bytes of 1200", s.typed.Len())
					}
				})
				return
			}
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "it did not answer") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// Small messages that come while a question is under way go in one.
func TestSmallMessagesGoTogether(t *testing.T) {
	s := &screen{}
	viewing(t, s, nil, func(t *testing.T, conn *websocket.Conn, _ <-chan error) {
		gate := make(chan struct{})
		s.set(func() { s.gate = gate })
		synctest.Wait()
		go func() { _, _, _ = conn.Read(t.Context()) }()
		for range 60 {
			if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("123456")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		before := 0
		s.set(func() { before = s.asked })
		close(gate)
		synctest.Wait()
		s.set(func() {
			if s.typed.Len() != 360 || s.asked > before+3 {
				t.Errorf("the machine has %d bytes after %d questions", s.typed.Len(), s.asked-before)
			}
		})
	})
}

// A client that takes nothing is cut, and costs the rackd no more questions.
func TestAViewerThatReadsNothing(t *testing.T) {
	s := &screen{length: 1 << 30}
	viewing(t, s, nil, func(t *testing.T, conn *websocket.Conn, ended <-chan error) {
		began := time.Now()
		err := <-ended
		if took := time.Since(began); took > 3*writeWithin || err == nil || !strings.Contains(err.Error(), "took nothing") {
			t.Errorf("after %s: %v", took, err)
		}
		s.set(func() {
			if s.asked > 5 {
				t.Errorf("%d questions were asked for a client that takes nothing", s.asked)
			}
		})
	})
}

// A session ends with its viewer, and says why: in a note, and as far as there is room in its close message.
func TestWhyASessionOfPicturesEnds(t *testing.T) {
	long := strings.Repeat("the BMC has ended it for a reason of its own ", 8)
	for what, c := range map[string]struct {
		s      *screen
		status websocket.StatusCode
		says   string
		within time.Duration
	}{
		"the line":               {&screen{length: 5, ended: long}, websocket.StatusGoingAway, long, time.Second},
		"another rackd":          {&screen{fail: only("read", &refusal{400, "no such viewer"})}, websocket.StatusPolicyViolation, "", time.Second},
		"no rackd":               {&screen{fail: only("read", silence)}, websocket.StatusTryAgainLater, "", ask.ViewerSilent + 5*time.Second},
		"not opened":             {&screen{fail: only("open", &refusal{400, "it speaks no RFB"})}, websocket.StatusPolicyViolation, "it speaks no RFB", time.Second},
		"never opened":           {&screen{fail: only("open", silence)}, websocket.StatusTryAgainLater, "did not answer", openedWithin + 2*time.Second},
		"an answer that is lost": {&screen{fail: answersLost("open")}, websocket.StatusTryAgainLater, "did not answer", openedWithin + 2*time.Second}, // the rackd has opened it
		"a vendor's word":        {&screen{fail: only("open", &refusal{500, "it answered HTTP 500"})}, websocket.StatusPolicyViolation, "HTTP 500", time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			viewing(t, c.s, []string{Protocol}, func(t *testing.T, conn *websocket.Conn, _ <-chan error) {
				began, notes := time.Now(), ""
				for {
					kind, p, err := conn.Read(t.Context())
					if kind == websocket.MessageText && err == nil {
						notes += string(p)
					}
					if err != nil {
						if websocket.CloseStatus(err) != c.status {
							t.Errorf("it ends with %v", err)
						}
						break
					}
				}
				if took := time.Since(began); took > c.within || !strings.Contains(notes, c.says) {
					t.Errorf("after %s, with the notes %s", took, notes)
				}
			})
		})
	}
}

// only has one kind of question fail.
func only(what string, err error) func(string) error {
	return func(asked string) error {
		if asked == what {
			return err
		}
		return nil
	}
}

// answersLost has one kind of question done, and its answers lost.
func answersLost(what string) func(string) error {
	done := false
	return func(asked string) error {
		if asked != what {
			return nil
		}
		if done = !done; done {
			return nil
		}
		return silence
	}
}

// A break is nothing that a screen has: the session says so and goes on.
func TestABreakForAScreen(t *testing.T) {
	s := &screen{length: 12}
	viewing(t, s, []string{Protocol}, func(t *testing.T, conn *websocket.Conn, _ <-chan error) {
		sees(t, conn, 12)
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"break":true}`)); err != nil {
			t.Fatal(err)
		}
		for {
			kind, p, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if kind == websocket.MessageText && strings.Contains(string(p), `"error"`) {
				break
			}
		}
		s.set(func() {
			if s.typed.Len() > 0 {
				t.Errorf("the machine got %q", s.typed.String())
			}
		})
	})
}
