package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// A bus comes back from an older copy of its disk, and numbers its events from there
// again. What rackds see from then on counts, although the same numbers were read before;
// what is read twice does not.
func TestAfterAnOlderCopyObservationsCount(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, storetest.SQLite(t))
	in := ingest.New(ingest.Config{Store: s, Metrics: metrics.New(s.Statements), Log: slog.New(slog.DiscardHandler)})
	n := storetest.NewNode("n")
	storetest.Insert(t, s, n)
	live, copied := filepath.Join(t.TempDir(), "live"), filepath.Join(t.TempDir(), "copy")
	// run has a server on a disk, with an ingest of its events, while f runs.
	run := func(dir string, f func(say func(power, fault, cleared string))) {
		t.Helper()
		srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		conn, err := nats.Connect("", nats.InProcessServer(srv))
		if err != nil {
			t.Fatal(err)
		}
		site, err := bus.Open(t.Context(), conn, "", bus.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Follow(ctx, site) }()
		f(func(power, fault, cleared string) {
			t.Helper()
			body, err := json.Marshal(work.Event{ID: uuid.NewString(), Kind: work.PowerObserved, Node: n.UUID, Rackd: "r", Time: time.Now(), Power: power,
				SetMaintenance: fault != "", Fault: fault, Cleared: cleared})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := site.JS.Publish(t.Context(), bus.EventSubject("", n.UUID), body); err != nil {
				t.Fatal(err)
			}
			wait, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = in.Applied(wait, site)
			for errors.Is(err, jetstream.ErrConsumerNotFound) && wait.Err() == nil { // Follow is about to make it
				time.Sleep(time.Millisecond)
				err = in.Applied(wait, site)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		conn.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	is := func(power, fault string) {
		t.Helper()
		got, err := s.Node(t.Context(), n.UUID)
		if err != nil {
			t.Fatal(err)
		}
		if got.PowerState != power || got.ObservedFault != fault {
			t.Errorf("power %q, fault %q; want %q, %q", got.PowerState, got.ObservedFault, power, fault)
		}
	}
	run(live, func(say func(power, fault, cleared string)) { say("power on", "", "") })
	if err := os.CopyFS(copied, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	run(live, func(say func(power, fault, cleared string)) {
		for range 5 {
			say("power on", "", "")
		}
		say("error", node.PowerFailure, "")
		is("error", node.PowerFailure)
	})
	run(copied, func(say func(power, fault, cleared string)) {
		say("power on", "", node.PowerFailure)
		is("power on", "")
		say("power off", "", "")
		is("power off", "")
	})
	run(copied, func(say func(power, fault, cleared string)) {
		is("power off", "")
		say("power on", "", "")
		is("power on", "")
	})
}
