package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ironyard/ironyard/protocol/seal"
)

// What strangers do all at once, from so many addresses each, while a user who is known reads.
const (
	slowBodies      = 1_500
	wrongPasswords  = 1_300
	largeBodies     = 10
	strangersFrom   = 10 // addresses
	largeBody       = 16 << 20
	readers         = 4
	strangersNodes  = 1_000
	passwordCost    = 10
	knownPassword   = "one"
	strangersBefore = 5 * time.Second // they are at it for so long before it is measured
)

// What is claimed.
const (
	readWithin = 200 * time.Millisecond
	mayGrow    = 200 << 20
)

// BenchmarkStrangers prints how long a user who is known waits for a node, without strangers and beside all that they
// can do at once: bodies that trickle in, passwords that are wrong, the largest bodies that are taken, of as many
// values as they hold; and how much more memory central takes for these at most. It fails beyond what is claimed.
func BenchmarkStrangers(b *testing.B) {
	c := startGuarded(b)
	for b.Loop() {
		quiet := c.read(b, window(b))
		b.ReportMetric(milliseconds(quiet.p99), "quiet-p99-ms")
		before := c.megabytes(b, "VmRSS")
		ctx, cancel := context.WithCancel(b.Context())
		s := &crowdOfStrangers{at: c.at, answers: map[int]int64{}}
		s.begin(ctx)
		wait(ctx, strangersBefore)
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", c.cmd.Process.Pid), []byte("5"), 0); err != nil {
			b.Fatal(err)
		}
		beside := c.read(b, 5*window(b))
		most := c.megabytes(b, "VmHWM")
		cancel()
		s.all.Wait()
		b.ReportMetric(milliseconds(beside.p50), "beside-p50-ms")
		b.ReportMetric(milliseconds(beside.p99), "beside-p99-ms")
		b.ReportMetric(beside.perSecond(), "beside-reads/s")
		b.ReportMetric(most-before, "more-MB")
		b.Logf("strangers: %d slow bodies given up, %d passwords refused, %d large bodies answered, by status %s", s.slow.Load(), s.wrong.Load(), s.large.Load(), s.statuses())
		if beside.p99 > readWithin || most-before > float64(mayGrow)/1e6 {
			b.Errorf("a known user waits %s (p99), central takes %.0f MB more; claimed are %s and %d MB", beside.p99, most-before, readWithin, mayGrow/1_000_000)
		}
	}
	b.ReportMetric(0, "ns/op") // says nothing
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// wait waits for d, unless ctx ends before.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// startGuarded starts a central of its own that knows one user.
func startGuarded(b *testing.B) *whole {
	b.Helper()
	path, err := program("central", "github.com/ironyard/ironyard/central")
	if err != nil {
		b.Fatal(err)
	}
	s, dir := newSite(b, nil), b.TempDir()
	key, err := seal.GenerateKey()
	if err != nil {
		b.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(knownPassword), passwordCost)
	if err != nil {
		b.Fatal(err)
	}
	keyFile, users := filepath.Join(dir, "key"), filepath.Join(dir, "users")
	for file, text := range map[string]string{keyFile: key.Text() + "\n", users: "ann:" + string(hash) + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	database := "sqlite:" + filepath.Join(dir, "central.db")
	fill(b, database, strangersNodes)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	w := &whole{at: l.Addr().String(), said: new(lines)}
	l.Close()
	w.name, w.ended = "central", make(chan struct{})
	w.cmd = exec.Command(path, "serve", "--listen", w.at, "--database", database, "--key-file", keyFile, "--bus", s.url, "--auth", "http_basic", "--htpasswd", users)
	w.cmd.Stdout, w.cmd.Stderr = w.said, w.said
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() { w.cmd.Wait(); close(w.ended) }()
	b.Cleanup(w.kill)
	w.until(b, "an answer", func() bool {
		r, err := http.NewRequest(http.MethodGet, "http://"+w.at+"/v1/nodes?limit=1", nil)
		if err != nil {
			b.Fatal(err)
		}
		r.SetBasicAuth("ann", knownPassword)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return w
}

// read lets a user who is known read nodes.
func (w *whole) read(b *testing.B, d time.Duration) outcome {
	b.Helper()
	who := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+knownPassword)) + "\r\n"
	return crowdOf(b, readers, func() (net.Conn, error) { return net.Dial("tcp", w.at) }, d, func(c, i int) call {
		return call{method: http.MethodGet, path: "/v1/nodes/" + nodeUUID((c*7919+i*104729)%strangersNodes), header: who, want: http.StatusOK}
	})
}

// crowdOfStrangers is who has no account.
type crowdOfStrangers struct {
	at                 string
	all                sync.WaitGroup
	slow, wrong, large atomic.Int64
	mu                 sync.Mutex
	answers            map[int]int64
}

func (s *crowdOfStrangers) begin(ctx context.Context) {
	for i := range slowBodies {
		s.again(ctx, i, s.trickle)
	}
	for i := range wrongPasswords {
		s.again(ctx, i, s.guess)
	}
	for i := range largeBodies {
		s.again(ctx, i, s.send)
	}
}

// again lets a stranger connect, and do something, again and again.
func (s *crowdOfStrangers) again(ctx context.Context, i int, do func(context.Context, net.Conn)) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%strangersFrom))}}
	s.all.Go(func() {
		for ctx.Err() == nil {
			conn, err := d.DialContext(ctx, "tcp", s.at)
			if err != nil {
				wait(ctx, time.Second)
				continue
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			do(ctx, conn)
			stop()
			conn.Close()
		}
	})
}

// trickle sends a heartbeat a byte a second, until it is cut off.
func (s *crowdOfStrangers) trickle(ctx context.Context, conn net.Conn) {
	fmt.Fprintf(conn, "POST /v1/heartbeat/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{", nodeUUID(1))
	for ctx.Err() == nil {
		wait(ctx, time.Second)
		if _, err := conn.Write([]byte(" ")); err != nil {
			s.slow.Add(1)
			return
		}
	}
}

// guess tries passwords, as fast as they are answered.
func (s *crowdOfStrangers) guess(ctx context.Context, conn net.Conn) {
	in := bufio.NewReaderSize(conn, 1<<10)
	for i := 0; ctx.Err() == nil; i++ {
		guess := base64.StdEncoding.EncodeToString([]byte("ann:" + strconv.Itoa(i)))
		if _, err := fmt.Fprintf(conn, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\n\r\n", guess); err != nil || !s.heard(in) {
			return
		}
		s.wrong.Add(1)
	}
}

// send sends the largest body that is taken.
func (s *crowdOfStrangers) send(ctx context.Context, conn net.Conn) {
	const head, tail = `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01"}]},"extra":[[]`, `]}`
	fmt.Fprintf(conn, "POST /v1/continue_inspection HTTP/1.1\r\nHost: x\r\nX-OpenStack-Ironic-API-Version: 1.84\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		largeBody, head)
	piece := bytes.Repeat([]byte(",[]"), 20<<10)
	left := largeBody - len(head) - len(tail)
	for left >= len(piece) {
		if _, err := conn.Write(piece); err != nil {
			break
		}
		left -= len(piece)
	}
	conn.Write(append(bytes.Repeat([]byte(" "), max(0, left)), tail...)) // an error is that it was refused before
	if s.heard(bufio.NewReader(conn)) {
		s.large.Add(1)
	}
}

// heard reads an answer and counts its status.
func (s *crowdOfStrangers) heard(in *bufio.Reader) bool {
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[r.StatusCode]++
	return err == nil && !r.Close
}

func (s *crowdOfStrangers) statuses() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.answers)
}
