package bus

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// memory is a Reader that keeps what it was told.
type memory struct {
	mu      sync.Mutex
	values  map[string]string
	synced  int
	missing []string
	begun   atomic.Int32
	checked time.Time
}

func (m *memory) Begin() { m.begun.Add(1) }

func (m *memory) Apply(e jetstream.KeyValueEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Operation() == jetstream.KeyValuePut {
		m.values[e.Key()] = string(e.Value())
	} else {
		delete(m.values, e.Key())
	}
}

func (m *memory) Synced(missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced++
	m.missing = append(m.missing, missing...)
}

func (m *memory) Checked(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked = at
}

// until waits for a condition of m.
func (m *memory) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		m.mu.Lock()
		done := ok()
		m.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Fatalf("%s: not so after 30 s; values %v, synced %d times, missing %v", what, m.values, m.synced, m.missing)
		}
	}
}

func put(t *testing.T, kv jetstream.KeyValue, key, value string) {
	t.Helper()
	if _, err := kv.PutString(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestFollowFindsWhatABucketLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *Site){
		"purged": func(t *testing.T, s *Site) {
			st, err := s.JS.Stream(t.Context(), "KV_"+NodesBucket)
			if err == nil {
				err = st.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			put(t, s.Nodes, "g.c", "3")
		},
		"made anew": func(t *testing.T, s *Site) {
			if err := s.JS.DeleteKeyValue(t.Context(), NodesBucket); err != nil {
				t.Fatal(err)
			}
			again, err := Open(t.Context(), s.Conn, "", Settings{})
			if err != nil {
				t.Fatal(err)
			}
			put(t, again.Nodes, "g.c", "3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSite(t)
			s.CheckEvery = time.Second
			var troubles []error
			s.Trouble = func(_ string, err error) { troubles = append(troubles, err) }
			m := &memory{values: map[string]string{}}
			put(t, s.Nodes, "g.a", "1")
			put(t, s.Nodes, "other.a", "1")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.Follow(ctx, NodesBucket, "g.>", m) }()
			m.until(t, "first reading", func() bool { return m.synced == 1 && m.values["g.a"] == "1" && len(m.values) == 1 })
			put(t, s.Nodes, "g.b", "2")
			m.until(t, "a change", func() bool { return m.values["g.b"] == "2" })
			if err := s.Nodes.Delete(t.Context(), "g.b"); err != nil {
				t.Fatal(err)
			}
			m.until(t, "a deletion", func() bool { return m.values["g.b"] == "" })
			if _, err := s.Announce(t.Context(), Member{Name: "r", Group: "g", Instance: "i"}, 0); err != nil {
				t.Fatal(err)
			}
			beats, err := s.Beats(ctx)
			if err != nil {
				t.Fatal(err)
			}
			lose(t, s)
			m.until(t, "the loss", func() bool { return m.synced == 2 && m.values["g.c"] == "3" })
			select {
			case b := <-beats:
				if want := (Beat{Key: MemberKey("g", "r"), Instance: "i", Lost: true}); b != want || b.Group() != "g" {
					t.Errorf("told %+v, want %+v", b, want)
				}
			case <-time.After(10 * time.Second):
				t.Error("nobody was told of the loss")
			}
			if !slices.Equal(m.missing, []string{"g.a"}) {
				t.Errorf("missing %v, want g.a alone: it was not deleted", m.missing)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := m.begun.Load(); n != 2 {
				t.Errorf("begun %d times, want twice", n)
			}
			if len(troubles) == 0 || !errors.Is(troubles[0], errLost) {
				t.Errorf("told of %v, want the loss", troubles)
			}
		})
	}
}

// A reader is told until when the bucket has certainly lost nothing, as long as the bus
// answers.
func TestFollowSaysHowFarItCanBeTrusted(t *testing.T) {
	t.Parallel()
	s, srv := openSiteServer(t)
	const every = time.Second
	s.CheckEvery = every
	m := &memory{values: map[string]string{}}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Follow(ctx, WorkBucket, ">", m) }()
	m.until(t, "first reading", func() bool { return m.checked.After(began) })
	m.mu.Lock()
	first := m.checked
	m.mu.Unlock()
	m.until(t, "a check", func() bool { return m.checked.After(first.Add(every - every/5)) })
	srv.Shutdown()
	srv.WaitForShutdown() // its files are closed, before their folder goes
	m.mu.Lock()
	last := m.checked
	m.mu.Unlock()
	if time.Since(last) > Unchecked {
		t.Errorf("not checked for %v although the bus answered", time.Since(last))
	}
	m.until(t, "the time of the next check", func() bool { return time.Since(last) > every+checkWithin })
	m.mu.Lock()
	if m.checked.After(last) {
		t.Errorf("checked at %v without an answer; the last one was at %v", m.checked, last)
	}
	m.mu.Unlock()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Who is told to end does so at once, also when the server does not answer any more.
func TestFollowEndsWithoutTheServer(t *testing.T) {
	t.Parallel()
	_, srv := openSiteServer(t)
	var silent atomic.Bool
	nc, err := nats.Connect("", nats.InProcessServer(muted{srv, &silent}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := Open(t.Context(), nc, "", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var followers errgroup.Group
	for range 8 {
		m := &memory{values: map[string]string{}}
		followers.Go(func() error { return s.Follow(ctx, NodesBucket, ">", m) })
		m.until(t, "the bucket is read", func() bool { return m.synced == 1 })
	}
	silent.Store(true)
	cancel()
	began := time.Now()
	if err := followers.Wait(); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("ended after %s: %v", time.Since(began), err)
	}
}

// muted is a server that nobody hears while it is silent.
type muted struct {
	*server.Server
	silent *atomic.Bool
}

func (m muted) InProcessConn() (net.Conn, error) {
	c, err := m.Server.InProcessConn()
	return deaf{c, m.silent}, err
}

// deaf drops what is written to it while the server is silent.
type deaf struct {
	net.Conn
	silent *atomic.Bool
}

func (d deaf) Write(b []byte) (int, error) {
	if d.silent.Load() {
		return len(b), nil
	}
	return d.Conn.Write(b)
}
