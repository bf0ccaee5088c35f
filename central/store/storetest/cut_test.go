package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// wire is a way to PostgreSQL that breaks. What the server has been sent by then it carries out.
type wire struct {
	t    *testing.T
	to   string
	left atomic.Int64 // answers of the server until a connection breaks; below 0: none does
	end  atomic.Bool  // the answer to the next commit breaks the connection
	cut  atomic.Int64 // how often one broke

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// wired returns the address of a database by a way that breaks.
func wired(t *testing.T, address string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	w := &wire{t: t, to: filepath.Join(q.Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]bool{}}
	w.left.Store(-1)
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.breakAll()
		serving.Wait()
	})
	q.Set("host", dir)
	q.Set("pool_max_conns", "2") // which are soon used to the statements
	u.RawQuery = q.Encode()
	return w, u.String()
}

func (w *wire) serve(c net.Conn) {
	server, err := net.Dial("unix", w.to)
	if err != nil {
		c.Close()
		return
	}
	w.mu.Lock()
	w.conns[c] = true
	w.mu.Unlock()
	var sent sync.WaitGroup
	var ending atomic.Bool
	sent.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if commits(buf[:n]) && w.end.CompareAndSwap(true, false) {
				ending.Store(true)
			}
			if _, err := server.Write(buf[:n]); err != nil {
				break
			}
		}
		server.(*net.UnixConn).CloseWrite() // the server carries out what it was sent
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			break
		}
		if left := w.left.Load(); ending.Load() || left >= 0 && w.left.Add(-1) < 0 {
			c.Write(buf[:rand.IntN(n+1)]) // in the middle of an answer
			w.cut.Add(1)
			break
		}
		if _, err := c.Write(buf[:n]); err != nil {
			break
		}
	}
	w.mu.Lock()
	delete(w.conns, c)
	w.mu.Unlock()
	c.Close()
	io.Copy(io.Discard, server)
	sent.Wait()
	server.Close()
}

// commits reports whether a client's bytes execute a COMMIT that was prepared before, as they do on a connection that was in use.
func commits(sent []byte) bool {
	sum := sha256.Sum256([]byte("COMMIT"))
	return bytes.Contains(sent, []byte("stmtcache_"+hex.EncodeToString(sum[:24]))) && !bytes.Contains(sent, []byte("\x00COMMIT\x00"))
}

func (w *wire) breakAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.Close()
	}
}

// The way to PostgreSQL breaks in the middle of transactions of many callers. What a caller is told holds: what was done is there once,
// what was not done is not there, and only ErrUnknown leaves it open.
func TestWhatIsToldHoldsWhenTheConnectionBreaks(t *testing.T) {
	const rounds, most = 48, 480
	direct := postgres.Database(t)
	truth := Open(t, direct)
	w, address := wired(t, direct)
	s := Open(t, address)
	n := NewNode("counter")
	Insert(t, truth, n)
	told := map[string]int{}
	seen := func() bool { return told["unknown, and done: true"] > 0 && told["not done"] > 0 && told["done"] > 0 }
	for round := 0; round < rounds || round < most && !seen(); round++ { // where a connection breaks is chance
		const callers = 6
		var all sync.WaitGroup
		errs := make([]error, callers)
		switch round % 4 { // the rounds between prepare the statements on new connections
		case 1:
			w.left.Store(rand.Int64N(8))
		case 3:
			w.end.Store(true)
		}
		for i := range callers {
			all.Go(func() {
				mark := fmt.Sprintf("mark-%d-%d", round, i)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				errs[i] = s.UpdateOf(ctx, n.UUID, func(ctx context.Context, tx *store.Tx) error {
					row, err := tx.Node(ctx, n.UUID)
					if err != nil {
						return err
					}
					if i%2 == 0 { // a transaction that only writes rows of its own goes another way
						if row.Extra == nil {
							row.Extra = map[string]any{}
						}
						row.Extra[mark] = true
						if err := tx.UpdateNode(ctx, row); err != nil {
							return err
						}
					}
					if err := tx.InsertNode(ctx, NewNode(mark)); err != nil {
						return err
					}
					return tx.AppendHistory(ctx, &store.HistoryEntry{Node: n.UUID, Event: mark})
				})
			})
		}
		all.Wait()
		w.left.Store(-1)
		w.end.Store(false)
		row, err := truth.Node(t.Context(), n.UUID)
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]int{}
		list, err := truth.History(t.Context(), store.HistoryQuery{Node: n.UUID, Page: store.Page{Limit: 100_000}})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			lines[l.Event]++
		}
		for i, e := range errs {
			mark := fmt.Sprintf("mark-%d-%d", round, i)
			_, err := truth.Node(t.Context(), mark)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			made := err == nil
			if made != (lines[mark] == 1) || i%2 == 0 && made != (row.Extra[mark] == true) || lines[mark] > 1 {
				t.Errorf("%s: done by half or twice: the node is there: %t, lines of history: %d, mark: %v", mark, made, lines[mark], row.Extra[mark])
			}
			switch {
			case e == nil:
				told["done"]++
				if !made {
					t.Errorf("%s: told that it was done, and it was not", mark)
				}
			case errors.Is(e, store.ErrUnknown):
				told[fmt.Sprint("unknown, and done: ", made)]++
			default:
				told["not done"]++
				if made {
					t.Errorf("%s: told that it was not done (%v), and it was", mark, e)
				}
				if !s.Unavailable(e) {
					t.Errorf("%s: what broke the connection is told as something else: %v", mark, e)
				}
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("the way broke %d times: %v", w.cut.Load(), told)
	if !seen() {
		t.Error("the way did not break in the middle of transactions and of their commits")
	}
}
