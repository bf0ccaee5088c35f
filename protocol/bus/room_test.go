package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// small is a real server with little room, and its connection.
func small(t *testing.T, room int64) *nats.Conn {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: room, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	conn, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// Events and config drives that fill all that they may leave room for leases and work, and
// nothing of what they hold is dropped for what comes later.
func TestFullStreamsLeaveRoomForLeases(t *testing.T) {
	const limit = 4 << 20
	conn := small(t, 64<<20)
	s, err := bus.Open(t.Context(), conn, "", bus.Settings{Replicas: 1, EventsBytes: limit, DrivesBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, 256<<10)
	full := false
	for i := range 64 {
		if err := s.Publish(t.Context(), bus.EventSubject("g", "n"), fmt.Sprint(i), event); err != nil {
			full = true
			break
		}
	}
	if !full {
		t.Error("events have no bound")
	}
	full = false
	for i := range 64 {
		if _, err := s.Drives.PutBytes(t.Context(), fmt.Sprint("drive", i), event); err != nil {
			full = true
			break
		}
	}
	if !full {
		t.Error("config drives have no bound")
	}
	first, err := s.JS.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if state := first.CachedInfo().State; state.NumDeleted != 0 || state.Msgs != state.LastSeq-state.FirstSeq+1 || state.Msgs < 10 {
		t.Errorf("events were dropped for others: %+v", state)
	}
	m := bus.Member{Name: "r", Group: "g"}
	rev, err := s.Announce(t.Context(), m, 0)
	if err != nil {
		t.Fatalf("no lease beside full streams: %v", err)
	}
	if _, err := s.Announce(t.Context(), m, rev); err != nil {
		t.Errorf("a lease cannot be renewed beside full streams: %v", err)
	}
	if _, err := s.Update(t.Context(), s.Work, bus.NodeKey("g", "n"), []byte("{}"), 0); err != nil {
		t.Errorf("no work beside full streams: %v", err)
	}
}

// A site of before the limits gets them, and keeps all that it holds, however much that is. One
// whose servers have little room gets smaller ones.
func TestLimitsComeWithAnUpgrade(t *testing.T) {
	conn := small(t, 64<<20)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	old, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.AllEvents}, Storage: jetstream.FileStorage,
		MaxAge: 7 * 24 * time.Hour, Duplicates: 10 * time.Minute, AllowAtomicPublish: true, FirstSeq: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := js.Publish(t.Context(), bus.EventSubject("g", "n"), make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := bus.Open(ctx, conn, "", bus.Settings{Replicas: 1, EventsBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Events.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 8 || info.State.FirstSeq != 1000 || info.Config.MaxBytes <= 0 || info.Config.Discard != jetstream.DiscardNew {
		t.Errorf("after the upgrade: %+v, limit %d, discard %v", info.State, info.Config.MaxBytes, info.Config.Discard)
	}
	drives, err := js.Stream(t.Context(), "OBJ_"+bus.ConfigDrives)
	if err != nil {
		t.Fatal(err)
	}
	if most := drives.CachedInfo().Config.MaxBytes; most <= 0 || most > 64<<20 {
		t.Errorf("config drives may take %d bytes of a store of 64 MiB", most)
	}
	if _, err := old.Info(t.Context()); errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Error("the stream was made anew")
	}
}
