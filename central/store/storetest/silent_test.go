package storetest

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// hush passes bytes between clients and the cluster, and keeps what the server says while it is silent.
type hush struct {
	url    string
	silent atomic.Bool
}

func newHush(t *testing.T, url string) *hush {
	t.Helper()
	database, folder, found := strings.Cut(url, "?host=")
	if !found {
		t.Fatalf("the cluster is at %s, and not at a socket", url)
	}
	const socket = ".s.PGSQL.5432"
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h := &hush{url: database + "?host=" + dir}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(folder, socket))
			if err != nil {
				client.Close()
				continue
			}
			go func() { io.Copy(server, client); server.Close() }()
			go func() { io.Copy(hushed{client, h}, server); client.Close() }()
		}
	}()
	return h
}

type hushed struct {
	net.Conn
	h *hush
}

func (c hushed) Write(b []byte) (int, error) {
	if c.h.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A database server that takes connections and statements and says nothing ends no statement. One of
// a caller without a deadline ends by itself, and so does the attempt to connect.
func TestSilentServer(t *testing.T) {
	h := newHush(t, postgres.Database(t))
	const bound = 2 * time.Second
	s, err := store.Open(t.Context(), h.url, store.Options{SilentFor: bound})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	Insert(t, s, NewNode("n"))
	calls := map[string]func(context.Context) error{
		"a read": func(ctx context.Context) error { _, err := s.Node(ctx, "n"); return err },
		"a list": func(ctx context.Context) error { _, err := s.Unfinished(ctx, "", 10); return err },
		"a write": func(ctx context.Context) error {
			return s.Update(ctx, func(ctx context.Context, tx *store.Tx) error { _, err := tx.Node(ctx, "n"); return err })
		},
		"a ping": s.Ping,
		"a new replica": func(ctx context.Context) error {
			s, err := store.Open(ctx, h.url, store.Options{SilentFor: bound})
			if err == nil {
				s.Close()
			}
			return err
		},
	}
	for name, call := range calls {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s, while the server answers: %v", name, err)
		}
	}
	h.silent.Store(true)
	ended := map[string]chan error{}
	for name, call := range calls {
		c := make(chan error, 1)
		ended[name] = c
		go func() { c <- call(t.Context()) }()
	}
	late := time.After(20 * time.Second)
	for name, c := range ended {
		select {
		case err := <-c:
			if err == nil || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s, while the server is silent, ended with %v", name, err)
			}
		case <-late:
			t.Fatalf("%s waits for a silent server, without an end", name)
		}
	}
	h.silent.Store(false)
	for name, call := range calls {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s, when the server answers again: %v", name, err)
		}
	}
}
