package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// BenchmarkProcess prints what one process of everything (central, bus, database
// client, rackd) takes with so many nodes, none of whose documents has been published:
// the time from its start to the first answer, and its memory at most while the
// documents are published and read, when that is done, and half a minute later; its
// memory at most while clients are at work then, and the time to the first answer after
// it was killed in the middle of that. PostgreSQL's memory is not part of it.
func BenchmarkProcess(b *testing.B) {
	for _, engine := range engines() {
		for _, size := range sizes(b) {
			b.Run(fmt.Sprintf("%s/nodes=%d", engine, size), func(b *testing.B) {
				for b.Loop() {
					measureProcess(b, engine, size)
				}
				b.ReportMetric(0, "ns/op") // says nothing
			})
		}
	}
}

// whole is one process of everything.
type whole struct {
	rackd
	at   string
	said *lines
}

func startWhole(b *testing.B, dir, database string) *whole {
	b.Helper()
	path, err := program("ironyard", "github.com/ironyard/ironyard/ops/ironyard")
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	w := &whole{at: l.Addr().String(), said: new(lines)}
	l.Close()
	w.name, w.args = "ironyard", []string{path, "dev", "--listen", w.at, "--data", dir}
	if database != "" {
		w.args = append(w.args, "--database", database)
	}
	w.cmd, w.ended = exec.Command(w.args[0], w.args[1:]...), make(chan struct{})
	w.cmd.Stdout, w.cmd.Stderr = w.said, w.said
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the process ends with the thread that has started it
	if err := w.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() { w.cmd.Wait(); close(w.ended) }()
	b.Cleanup(w.kill)
	return w
}

// until polls until done, for ten minutes at most.
func (w *whole) until(b *testing.B, what string, done func() bool) {
	b.Helper()
	for patience := time.Now().Add(10 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(patience) {
			b.Fatalf("%s: waited in vain\n%s", what, w.said)
		}
	}
}

// answers is how long it takes from now until the process answers with a node.
func (w *whole) answers(b *testing.B) time.Duration {
	b.Helper()
	began := time.Now()
	w.until(b, "an answer", func() bool { return answers("http://" + w.at + "/v1/nodes?limit=1") })
	return time.Since(began)
}

func measureProcess(b *testing.B, engine string, size int) {
	dir, database := b.TempDir(), databaseURL(b, engine)
	fill(b, cmp.Or(database, "sqlite:"+filepath.Join(dir, "central.db")), size)
	w := startWhole(b, dir, database)
	began := time.Now()
	b.ReportMetric(w.answers(b).Seconds(), "first-answer-s")
	w.until(b, "all documents on the bus", func() bool {
		time.Sleep(50 * time.Millisecond)
		return published("http://"+w.at+"/metrics") >= size
	})
	b.ReportMetric(time.Since(began).Seconds(), "published-s")
	b.ReportMetric(w.megabytes(b, "VmRSS"), "published-MB")
	quiet := time.Now().Add(30 * time.Second) // the garbage of it all is given back meanwhile
	w.until(b, "quiet", func() bool { return time.Now().After(quiet) })
	b.ReportMetric(w.megabytes(b, "VmHWM"), "peak-MB")
	b.ReportMetric(w.megabytes(b, "VmRSS"), "rest-MB")
	atWork(b, w, size)
	w.kill()
	b.ReportMetric(startWhole(b, dir, database).answers(b).Seconds(), "answer-after-crash-s")
}

func answers(url string) bool {
	r, err := http.Get(url)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	io.Copy(io.Discard, r.Body)
	return r.StatusCode == http.StatusOK
}

// published is how many documents the relay says it has written anew.
func published(metrics string) (n int) {
	r, err := http.Get(metrics)
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		if name, value, _ := strings.Cut(in.Text(), " "); strings.Contains(name, "repaired_nodes_total{") {
			if f, err := strconv.ParseFloat(value, 64); err == nil {
				n += int(f)
			}
		}
	}
	return n
}

// fill makes a database with ordinary nodes.
func fill(b *testing.B, url string, size int) {
	b.Helper()
	st, err := store.Open(b.Context(), url, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	const part = 500
	for first := 0; first < size; first += part {
		err := st.Update(b.Context(), func(ctx context.Context, tx *store.Tx) error {
			for i := first; i < min(first+part, size); i++ {
				n := ordinaryNode(i)
				delete(n.DriverInfo, "redfish_password") // no key is there to seal it
				if err := tx.InsertNode(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// lines is what a process says. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
