package bus

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func openSite(t *testing.T) *Site {
	t.Helper()
	s, _ := openSiteServer(t)
	return s
}

func openSiteServer(t *testing.T) (*Site, *server.Server) {
	t.Helper()
	srv, nc := startServer(t, &server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir()})
	s, err := Open(t.Context(), nc, "", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s, srv
}

// startServer runs a server until t ends, and returns a connection to it.
func startServer(t *testing.T, o *server.Options) (*server.Server, *nats.Conn) {
	t.Helper()
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return srv, nc
}

func TestLeaseExpiresUnlessRenewed(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	m := Member{Name: "rackd.one", Group: "Rack.1"}
	w, err := s.Alive.Watch(t.Context(), MemberKey(m.Group, m.Name), jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	rev, err := s.Announce(t.Context(), m, 0)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if rev, err = s.Announce(t.Context(), m, rev); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		select {
		case e := <-w.Updates():
			if e.Operation() == jetstream.KeyValuePut {
				continue
			}
			if d := time.Since(began); d < LeaseTTL-LeaseMargin {
				t.Errorf("expired after %v, before its TTL", d)
			}
			if _, err := s.Announce(t.Context(), m, rev); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("renewal of an expired lease: %v, want ErrLeaseLost", err)
			}
			return
		case <-ctx.Done():
			t.Fatal("the renewed key never expired")
		}
	}
}

// Nobody takes a name whose key is there; when it is gone anybody may.
func TestNameIsTakenFromNobody(t *testing.T) {
	s := openSite(t)
	m := Member{Name: "r", Instance: "1", Lease: "a"}
	rev, err := s.Announce(t.Context(), m, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := Member{Name: "r", Instance: "2", Lease: "b"}
	if _, err := s.Announce(t.Context(), second, 0); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a second process announces itself: %v, want ErrLeaseLost", err)
	}
	if holder, at, err := s.Announced(t.Context(), "", "r"); err != nil || holder == nil || holder.Lease != "a" || at != rev {
		t.Errorf("held by %+v at %d: %v", holder, at, err)
	}
	if err := s.Withdraw(t.Context(), m, rev); err != nil {
		t.Fatal(err)
	}
	holder, at, err := s.Announced(t.Context(), "", "r")
	if err != nil || holder != nil || at <= rev {
		t.Fatalf("after it was withdrawn: held by %+v at %d: %v", holder, at, err)
	}
	if _, err := s.Announce(t.Context(), second, at); err != nil {
		t.Errorf("the next process: %v", err)
	}
	if _, err := s.Announce(t.Context(), m, rev); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the first process's renewal: %v, want ErrLeaseLost", err)
	}
}

func TestKeys(t *testing.T) {
	if got := NodeOfKey(NodeKey("Rack.1", "u-1")); got != "u-1" {
		t.Errorf("NodeOfKey = %q", got)
	}
	if a, b := NodeKey("Rack.1", "u"), NodeKey("rack.1", "u"); a != b {
		t.Errorf("groups are case-insensitive, keys %q and %q differ", a, b)
	}
}

// A site whose JetStream comes up late is waited for; one that has none is an error.
func TestOpenWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	waited := 0
	s, err := Open(ctx, nc, "", Settings{Waiting: func(error) {
		if waited++; waited == 1 {
			if err := srv.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir()}); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil || s.Groups == nil || waited == 0 {
		t.Errorf("opened %v after waiting %d times: %v", s, waited, err)
	}
	short, cancelShort := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancelShort()
	nc.Close()
	if _, err := Open(short, nc, "", Settings{}); err == nil {
		t.Error("a closed connection opens a site")
	}
}

// Who only opens waits for whatever central has not made yet.
func TestOpenOnlyWaitsForCentral(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	names, err := streamNames(t.Context(), s.JS)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 6 {
		t.Fatalf("a site has the streams %q, want six", names)
	}
	for _, name := range names {
		if err := s.JS.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		made := false
		_, err := Open(t.Context(), s.Conn, "", Settings{OpenOnly: true, Waiting: func(err error) {
			if errors.Is(err, errNotMade) && !made {
				made = true
				if _, err := Open(t.Context(), s.Conn, "", Settings{}); err != nil {
					t.Error(err)
				}
			}
		}})
		if err != nil || !made {
			t.Errorf("stream %s: opened with error %v, after it was waited for: %t", name, err, made)
		}
	}
}

// streamNames returns the names of all streams there are.
func streamNames(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		names = append(names, name)
	}
	return names, list.Err()
}

// A bucket that is made anew begins above all revisions of the lost one: what was read
// of that does not fit. Its settings are those that nats.go gives a bucket.
func TestRevisionsDoNotComeBack(t *testing.T) {
	s := openSite(t)
	if err := s.JS.DeleteKeyValue(t.Context(), WorkBucket); err != nil {
		t.Fatal(err)
	}
	made := streamOf(jetstream.KeyValueConfig{Bucket: WorkBucket, History: 1, Storage: jetstream.FileStorage}, time.Now().Add(-2*time.Minute))
	if _, err := s.JS.CreateStream(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	before, err := s.Work.Create(t.Context(), "g.n", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.JS.DeleteKeyValue(t.Context(), WorkBucket); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), s.Conn, "", Settings{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	now, err := again.Work.Create(t.Context(), "g.n", []byte("2"))
	if err != nil || now <= before {
		t.Errorf("revision %d after %d: %v", now, before, err)
	}
	if _, err := again.Work.Update(t.Context(), "g.n", []byte("3"), before); err == nil {
		t.Error("a revision of the lost bucket fits the new one")
	}
	if _, err := Open(t.Context(), s.Conn, "", Settings{Replicas: 1}); err != nil {
		t.Errorf("opened once more: %v", err)
	}
	for _, name := range []string{WorkBucket, AliveBucket} {
		stream, err := again.JS.Stream(t.Context(), "KV_"+name)
		if err != nil {
			t.Fatal(err)
		}
		ours := stream.CachedInfo().Config
		markers := map[string]time.Duration{AliveBucket: time.Minute}[name]
		if _, err := again.JS.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "PLAIN", History: 1, Storage: jetstream.FileStorage,
			LimitMarkerTTL: markers, MaxValueSize: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		plain, err := again.JS.Stream(t.Context(), "KV_PLAIN")
		if err != nil {
			t.Fatal(err)
		}
		want := plain.CachedInfo().Config
		want.Name, want.Subjects, want.FirstSeq, want.Metadata, ours.Metadata = ours.Name, ours.Subjects, ours.FirstSeq, nil, nil
		want.AllowAtomicPublish = true
		if !reflect.DeepEqual(ours, want) {
			t.Errorf("bucket %s has the settings %+v, nats.go's, with batches, are %+v", name, ours, want)
		}
		if err := again.JS.DeleteKeyValue(t.Context(), "PLAIN"); err != nil {
			t.Fatal(err)
		}
	}
}
