package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// BenchmarkProcess prints what one process of everything (central, bus, SQLite, rackd)
// takes with so many nodes, none of whose documents has been published: the time from
// its start to the first answer, and its memory at most while the documents are
// published and read, when that is done, and half a minute later.
func BenchmarkProcess(b *testing.B) {
	for _, size := range sizes(b) {
		b.Run(fmt.Sprintf("nodes=%d", size), func(b *testing.B) {
			for b.Loop() {
				measureProcess(b, size)
			}
			b.ReportMetric(0, "ns/op") // says nothing
		})
	}
}

func measureProcess(b *testing.B, size int) {
	dir := b.TempDir()
	fillSQLite(b, filepath.Join(dir, "central.db"), size)
	path, err := program("ironyard", "github.com/ironyard/ironyard/ops/ironyard")
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	p := &rackd{name: "ironyard", args: []string{path, "dev", "--listen", at, "--data", dir}}
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	out := new(lines)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
	}()
	patience := time.Now().Add(10 * time.Minute)
	until := func(what string, done func() bool) {
		for !done() {
			if time.Now().After(patience) {
				b.Fatalf("%s: waited in vain\n%s", what, out)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	until("an answer", func() bool { return answers("http://" + at + "/v1/nodes?limit=1") })
	b.ReportMetric(time.Since(began).Seconds(), "first-answer-s")
	until("all documents on the bus", func() bool {
		time.Sleep(50 * time.Millisecond)
		return published("http://"+at+"/metrics") >= size
	})
	b.ReportMetric(time.Since(began).Seconds(), "published-s")
	b.ReportMetric(p.megabytes(b, "VmRSS"), "published-MB")
	quiet := time.Now().Add(30 * time.Second) // the garbage of it all is given back meanwhile
	until("quiet", func() bool { return time.Now().After(quiet) })
	b.ReportMetric(p.megabytes(b, "VmHWM"), "peak-MB")
	b.ReportMetric(p.megabytes(b, "VmRSS"), "rest-MB")
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

// fillSQLite makes a database with ordinary nodes.
func fillSQLite(b *testing.B, path string, size int) {
	b.Helper()
	st, err := store.Open(b.Context(), "sqlite:"+path, store.Options{})
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
