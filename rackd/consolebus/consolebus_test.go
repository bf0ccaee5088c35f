package consolebus

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/rackd/console"
)

func newKey(t *testing.T) *seal.Key {
	t.Helper()
	k, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// withBucket opens a site that has the bucket, and its store for a rackd of the group g.
func withBucket(t *testing.T) (*bus.Site, *Store, *seal.Key, *bytes.Buffer) {
	t.Helper()
	site := bustest.Open(t)
	if err := site.MakeConsoles(t.Context(), bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	var said bytes.Buffer
	return site, New(site, seal.NewKeyring("g", key), slog.New(slog.NewTextHandler(&said, nil))), key, &said
}

var n1, n2 = console.Place{Group: "g", Node: "n1"}, console.Place{Group: "g", Node: "n2"}

func text(s string) consolecopy.Copy {
	return consolecopy.Copy{Log: "L", Tenancy: "t1", End: int64(len(s)), Text: []byte(s)}
}

func TestCopiesAreComparedBeforeTheyAreReplaced(t *testing.T) {
	site, s, key, _ := withBucket(t)
	ctx := t.Context()
	if c, rev, err := s.Load(ctx, n1); c != nil || rev != 0 || err != nil {
		t.Errorf("where there is none: %+v, %d, %v", c, rev, err)
	}
	rev, size, err := s.Save(ctx, n1, text("secret words"), 0)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := site.OpenConsoles(ctx)
	if err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(ctx, bus.NodeKey("g", "n1"))
	if err != nil || e.Revision() != rev || len(e.Value()) != size || bytes.Contains(e.Value(), []byte("secret")) {
		t.Errorf("the bus holds %q at revision %d, want %d sealed bytes at %d: %v", e.Value(), e.Revision(), size, rev, err)
	}
	other := New(site, seal.NewKeyring("G", key), slog.New(slog.DiscardHandler)) // a rackd of the same group
	c, seen, err := other.Load(ctx, n1)
	if err != nil || seen != rev || string(c.Text) != "secret words" || c.Tenancy != "t1" {
		t.Errorf("another rackd of the group loads %+v at %d: %v", c, seen, err)
	}
	next, _, err := other.Save(ctx, n1, text("more"), seen)
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"with the revision of before": func() error { _, _, err := s.Save(ctx, n1, text("old"), rev); return err }(),
		"as the first":                func() error { _, _, err := s.Save(ctx, n1, text("old"), 0); return err }(),
		"removed":                     s.Remove(ctx, n1.Key(), rev),
	} {
		if !errors.Is(err, console.ErrCopyChanged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if c, _, err := s.Load(ctx, n1); err != nil || string(c.Text) != "more" {
		t.Errorf("the newer copy is %+v, %v", c, err)
	}
	if err := s.Remove(ctx, n1.Key(), next); err != nil {
		t.Fatal(err)
	}
	if c, rev, err := s.Load(ctx, n1); c != nil || rev != 0 || err != nil {
		t.Errorf("once removed: %+v, %d, %v", c, rev, err)
	}
	if list, err := s.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("listed once removed: %+v, %v", list, err)
	}
	if _, _, err := s.Save(ctx, n1, text("again"), 0); err != nil {
		t.Errorf("after it was removed: %v", err)
	}
}

// What another party has put into the bucket is counted as what it is, is not used, and gives way to the next copy.
func TestForgedCopies(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(t *testing.T, s *Store, kv jetstream.KeyValue) []byte
		lies  bool
	}{
		"that of another node": {func(t *testing.T, s *Store, kv jetstream.KeyValue) []byte {
			if _, _, err := s.Save(t.Context(), n2, text("of n2"), 0); err != nil {
				t.Fatal(err)
			}
			e, err := kv.Get(t.Context(), n2.Key())
			if err != nil {
				t.Fatal(err)
			}
			return e.Value()
		}, true},
		"one by another key": {func(t *testing.T, s *Store, kv jetstream.KeyValue) []byte {
			body, err := text("forged").Seal(newKey(t), "n1", consolecopy.MaxBytes)
			if err != nil {
				t.Fatal(err)
			}
			return body
		}, true},
		"a huge one": {func(*testing.T, *Store, jetstream.KeyValue) []byte {
			return append([]byte{1}, make([]byte, consolecopy.MaxBytes)...)
		}, false},
		"words": {func(*testing.T, *Store, jetstream.KeyValue) []byte { return []byte("root:x:0:0") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			site, s, _, _ := withBucket(t)
			var refused []bool
			site.Refused = func(bucket string, lies bool) {
				if bucket == bus.ConsolesBucket {
					refused = append(refused, lies)
				}
			}
			kv, err := site.OpenConsoles(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			there, err := kv.Put(t.Context(), n1.Key(), c.forge(t, s, kv))
			if err != nil {
				t.Fatal(err)
			}
			got, rev, err := s.Load(t.Context(), n1)
			if got != nil || rev != there || err != nil {
				t.Errorf("it is loaded as %+v at %d, %v", got, rev, err)
			}
			if !slices.Equal(refused, []bool{c.lies}) {
				t.Errorf("refused: %v, want one with lies %v", refused, c.lies)
			}
			if _, _, err := s.Save(t.Context(), n1, text("true"), rev); err != nil {
				t.Errorf("it does not give way: %v", err)
			}
		})
	}
}

// In a full bucket a console that has a copy keeps its newest text there, and another one's is refused.
func TestFullBucket(t *testing.T) {
	site := bustest.Open(t)
	if err := site.MakeConsoles(t.Context(), bus.Settings{Replicas: 1, ConsolesBytes: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	s := New(site, seal.NewKeyring("g", newKey(t)), slog.New(slog.DiscardHandler))
	noise := make([]byte, consolecopy.MaxText)
	rand.NewChaCha8([32]byte{}).Read(noise)
	large := text(string(noise))
	first, _, err := s.Save(t.Context(), n1, large, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil && i < 2000; i++ {
		_, _, err = s.Save(t.Context(), console.Place{Group: "g", Node: fmt.Sprint("m", i)}, large, 0)
	}
	if !bus.Full(err) {
		t.Fatalf("the bucket is not full: %v", err)
	}
	crash := text(string(noise) + "Kernel panic")
	if _, _, err := s.Save(t.Context(), n1, crash, first); err != nil {
		t.Fatalf("the copy that is there is not replaced: %v", err)
	}
	if c, _, err := s.Load(t.Context(), n1); err != nil || !bytes.HasSuffix(c.Text, []byte("Kernel panic")) {
		t.Errorf("the newest text is not kept: %v", err)
	}
}

// A rackd without a group's key neither reads nor writes copies of that group; it does not list them either.
func TestCopiesOfOtherGroups(t *testing.T) {
	site, s, _, _ := withBucket(t)
	elsewhere := console.Place{Group: "h", Node: "n1"}
	if _, _, err := s.Load(t.Context(), elsewhere); !errors.Is(err, console.ErrNoCopies) {
		t.Errorf("load: %v", err)
	}
	if _, _, err := s.Save(t.Context(), elsewhere, text("x"), 0); !errors.Is(err, console.ErrNoCopies) {
		t.Errorf("save: %v", err)
	}
	kv, err := site.OpenConsoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{elsewhere.Key(), bus.NodeKey("gg", "n1")} {
		if _, err := kv.PutString(t.Context(), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if _, _, err := s.Save(t.Context(), console.Place{Group: "g", Node: fmt.Sprint("m", i)}, text("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 3 || !strings.HasPrefix(list[0].Key, "g.m") || list[0].Revision == 0 || list[0].Written.IsZero() {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// A site of before has no bucket: that is told once, and is no failure. Once central has made it, it is used.
func TestSiteWithoutTheBucket(t *testing.T) {
	site := bustest.Open(t)
	var said bytes.Buffer
	s := New(site, seal.NewKeyring("g", newKey(t)), slog.New(slog.NewTextHandler(&said, nil)))
	for range 3 {
		if _, _, err := s.Load(t.Context(), n1); !errors.Is(err, console.ErrNoCopies) {
			t.Errorf("load: %v", err)
		}
		if _, _, err := s.Save(t.Context(), n1, text("x"), 0); !errors.Is(err, console.ErrNoCopies) {
			t.Errorf("save: %v", err)
		}
	}
	if lines := strings.Count(said.String(), "memory of this rackd alone"); lines != 1 {
		t.Errorf("the log says so %d times:\n%s", lines, &said)
	}
	if err := site.MakeConsoles(t.Context(), bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.next = s.next.Add(-openAgainMost) // as if the time had passed
	s.mu.Unlock()
	if _, _, err := s.Save(t.Context(), n1, text("x"), 0); err != nil {
		t.Errorf("once it is there: %v", err)
	}
	// And a site that has lost it.
	if err := site.JS.DeleteKeyValue(t.Context(), bus.ConsolesBucket); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Save(t.Context(), n1, text("y"), 0); err == nil {
		t.Error("a copy was written into a bucket that is gone")
	}
	if err := site.MakeConsoles(t.Context(), bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Save(t.Context(), n1, text("y"), 0); err != nil {
		t.Errorf("once it is there again: %v", err)
	}
}
