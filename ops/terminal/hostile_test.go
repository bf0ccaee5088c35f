package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coder/websocket"
)

// screen is central with one graphical console: it greets, and keeps what it is sent.
type screen struct {
	mu     sync.Mutex
	typed  bytes.Buffer
	opened int
}

func (s *screen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{protocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	s.mu.Lock()
	s.opened++
	s.mu.Unlock()
	if conn.Write(r.Context(), websocket.MessageBinary, []byte("RFB 003.008\n")) != nil {
		return
	}
	for {
		_, p, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		s.mu.Lock()
		s.typed.Write(p)
		s.mu.Unlock()
	}
}

func (s *screen) seen() (typed string, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typed.String(), s.opened
}

// forwarded is a port of loopback for viewers of the screen, and what is told.
func forwarded(t *testing.T) (s *screen, at string, told func() string) {
	s = &screen{}
	central := httptest.NewServer(s)
	t.Cleanup(central.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var lines []string
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Forward(ctx, Target{Base: central.URL, Node: "n1"}, l, func(text string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, text) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String(), func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(lines, "\n") }
}

// eventually waits for something for as long as a busy host takes.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal(what)
		}
	}
}

// Another user of the host connects to the port at which a person sees a machine's screen. They see nothing, and no session is opened
// with that person's rights.
func TestAnotherUserOfTheHostSeesNoScreen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to be two users")
	}
	s, at, told := forwarded(t)
	_, port, _ := net.SplitHostPort(at)
	thief := exec.Command("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/"+port+" && head -c 12 <&3")
	thief.Dir = "/"
	thief.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	saw, _ := thief.CombinedOutput() // how it ends is the shell's affair
	if strings.Contains(string(saw), "RFB") {
		t.Errorf("another user sees %q", saw)
	}
	eventually(t, "the thief is not told of", func() bool { return strings.Contains(told(), "uid 65534") })
	if _, opened := s.seen(); opened > 0 {
		t.Errorf("%d sessions were opened for another user", opened)
	}
	mine, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	hello := make([]byte, 12)
	if _, err := io.ReadFull(mine, hello); err != nil || string(hello) != "RFB 003.008\n" {
		t.Errorf("the user's own viewer gets %q, %v", hello, err)
	}
}

// A page in the person's own browser can send to a port of loopback. Nothing of it reaches the machine.
func TestAPageTypesNothing(t *testing.T) {
	s, at, told := forwarded(t)
	page, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if _, err := io.WriteString(page, "POST / HTTP/1.1\r\nHost: "+at+"\r\nContent-Length: 12\r\n\r\nRFB 003.008\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page is not told of", func() bool { return strings.Contains(told(), errNoViewer.Error()) })
	viewer, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	for _, part := range []string{"RFB 0", "03.008\n", "\x01"} {
		if _, err := io.WriteString(viewer, part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // so that it comes in parts
	}
	eventually(t, "a viewer's words do not arrive", func() bool { typed, _ := s.seen(); return strings.HasSuffix(typed, "\x01") })
	if typed, _ := s.seen(); typed != "RFB 003.008\n\x01" {
		t.Errorf("the machine got %q", typed)
	}
}

// What Linux tells of sockets is read as it is written, of connections by IPv6 that carry IPv4 too.
func TestOwnersOfSockets(t *testing.T) {
	list := func(lines ...string) io.Reader {
		return strings.NewReader("  sl  local_address ...\n" + strings.Join(lines, "\n"))
	}
	word := func(a string) string { // of this machine's byte order
		raw := netip.MustParseAddr(a).As4()
		if same("0100007F:0001", netip.MustParseAddrPort("127.0.0.1:1")) {
			raw[0], raw[1], raw[2], raw[3] = raw[3], raw[2], raw[1], raw[0]
		}
		return fmt.Sprintf("%X", raw[:])
	}
	local := fmt.Sprintf("%08s", word("127.0.0.1"))
	mapped := "0000000000000000" + map[bool]string{true: "FFFF0000", false: "0000FFFF"}[local == "0100007F"] + local
	line := func(from, to, state, uid string) string {
		return "   0: " + from + " " + to + " " + state + " 00000000:00000000 00:00000000 00000000 " + uid + "        0 1 1 0 100 0"
	}
	from, to := netip.MustParseAddrPort("127.0.0.1:4660"), netip.MustParseAddrPort("127.0.0.1:5900")
	for name, c := range map[string]struct {
		list  io.Reader
		uid   int
		found bool
	}{
		"one":              {list(line(local+":1234", local+":170C", "01", "1000")), 1000, true},
		"the other end":    {list(line(local+":170C", local+":1234", "01", "0"), line(local+":1234", local+":170C", "01", "7")), 7, true},
		"IPv4 in IPv6":     {list(line(mapped+":1234", mapped+":170C", "01", "8")), 8, true},
		"one that is over": {list(line(local+":1234", local+":170C", "06", "0")), 0, false},
		"another port":     {list(line(local+":1235", local+":170C", "01", "0")), 0, false},
		"nonsense":         {list("x", line("zz:1234", local+":170C", "01", "0"), line("7F:1", "", "", "")), 0, false},
		"nothing":          {list(), 0, false},
	} {
		if uid, found, err := ownerIn(c.list, from, to); err != nil || uid != c.uid || found != c.found {
			t.Errorf("%s: %d, %v, %v", name, uid, found, err)
		}
	}
	if _, found, err := ownerIn(iotest.ErrReader(io.ErrUnexpectedEOF), from, to); found || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a list that cannot be read: %v, %v", found, err)
	}
}
