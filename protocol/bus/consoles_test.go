package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Central may make the bucket, and may not read what lies in it. Made twice it stays as it is, but for the room
// that it may take: an operator may give it more or less.
func TestCentralMakesTheConsolesBucket(t *testing.T) {
	site, central := bustest.Fleet(t)
	if _, err := site.OpenConsoles(t.Context()); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatalf("before it is made: %v", err)
	}
	if err := central.MakeConsoles(t.Context(), bus.Settings{Replicas: 1, ConsolesBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	kv, err := site.OpenConsoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.PutString(t.Context(), bus.NodeKey("g", "n"), "sealed")
	if err != nil {
		t.Fatal(err)
	}
	bounded := func() int64 {
		stream, err := site.JS.Stream(t.Context(), "KV_"+bus.ConsolesBucket)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config.MaxBytes
	}
	for _, set := range []bus.Settings{{Replicas: 1, ConsolesBytes: 8 << 20}, {Replicas: 1, ConsolesBytes: 16 << 20}, {Replicas: 1, ConsolesBytes: 8 << 20}, {}} {
		if err := central.MakeConsoles(t.Context(), set); err != nil {
			t.Errorf("%+v: %v", set, err)
		}
		if e, err := kv.Get(t.Context(), bus.NodeKey("g", "n")); err != nil || e.Revision() != rev {
			t.Errorf("%+v: the copy is %v, %v", set, e, err)
		}
		if most := bounded(); set.Replicas > 0 && most != set.ConsolesBytes {
			t.Errorf("%+v: the bucket may have %d bytes", set, most)
		}
	}
	stream, err := site.JS.Stream(t.Context(), "KV_"+bus.ConsolesBucket)
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxBytes != 8<<20 || c.Discard != jetstream.DiscardNew || c.MaxMsgsPerSubject != 1 {
		t.Errorf("the bucket has the bounds %+v", c)
	}
}

// A server takes no copy that is larger than any may be. A bucket that is full takes no further copy, drops none, and
// lets a smaller one take the place of another.
func TestTheConsolesBucketIsBounded(t *testing.T) {
	site := bustest.Open(t)
	if err := site.MakeConsoles(t.Context(), bus.Settings{Replicas: 1, ConsolesBytes: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	kv, err := site.OpenConsoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "g.n", make([]byte, bus.MaxMessage)); err == nil {
		t.Error("the server takes a copy of a megabyte")
	}
	taken := 0
	for ; taken < 200; taken++ {
		if _, err = kv.Create(t.Context(), fmt.Sprint("g.n", taken), make([]byte, consolecopy.MaxBytes)); err != nil {
			break
		}
	}
	if !bus.Full(err) || taken < 80 {
		t.Errorf("%d copies were taken, and then: %v", taken, err)
	}
	for i := range taken {
		e, err := kv.Get(t.Context(), fmt.Sprint("g.n", i))
		if err != nil {
			t.Fatalf("copy %d of %d was dropped: %v", i, taken, err)
		}
		if _, err := kv.Update(t.Context(), e.Key(), make([]byte, consolecopy.MaxBytes/2), e.Revision()); err != nil {
			t.Fatalf("copy %d of %d is not replaced by a smaller one: %v", i, taken, err)
		}
	}
}

// A site with little room has a smaller bucket. Where there is none at all that is an error within the caller's time, and the rest
// of the site is as it was.
func TestConsolesOfASmallSite(t *testing.T) {
	conn := small(t, 64<<20)
	s, err := bus.Open(t.Context(), conn, "", bus.Settings{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MakeConsoles(t.Context(), bus.Settings{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	stream, err := s.JS.Stream(t.Context(), "KV_"+bus.ConsolesBucket)
	if err != nil {
		t.Fatal(err)
	}
	if most := stream.CachedInfo().Config.MaxBytes; most <= 0 || most > 32<<20 {
		t.Errorf("copies may take %d bytes of a store of 64 MiB", most)
	}
	made := stream.CachedInfo().Config
	if err := s.MakeConsoles(t.Context(), bus.Settings{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	if again, err := stream.Info(t.Context()); err != nil || again.Config.MaxBytes != made.MaxBytes {
		t.Errorf("made again, copies may take %d bytes, and before %d: %v", again.Config.MaxBytes, made.MaxBytes, err)
	}
	full := small(t, 4<<20)
	s, err = bus.Open(t.Context(), full, "", bus.Settings{Replicas: 1, EventsBytes: 1 << 20, DrivesBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.MakeConsoles(ctx, bus.Settings{Replicas: 1}); err == nil || ctx.Err() != nil {
		t.Errorf("without room: %v, %v", err, ctx.Err())
	}
	if _, err := s.Announce(t.Context(), bus.Member{Name: "r", Group: "g"}, 0); err != nil {
		t.Errorf("no lease afterwards: %v", err)
	}
}

// A copy opens at its own place alone: a thief of the bus who puts that of one node under the key of another is a liar.
func TestACopyHasItsPlace(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	body, err := consolecopy.Copy{Log: "L", End: 4, Text: []byte("text")}.Seal(key, "n1", consolecopy.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := bus.ReadConsole(bus.NodeKey("g", "n1"), body, key); err != nil || string(c.Text) != "text" {
		t.Errorf("at its place: %+v, %v", c, err)
	}
	for _, place := range []string{bus.NodeKey("g", "n2"), "n1", "g.n1.x", ""} {
		if _, err := bus.ReadConsole(place, body, key); !errors.Is(err, bus.ErrLie) {
			t.Errorf("at %q: %v", place, err)
		}
	}
}
