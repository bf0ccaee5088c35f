package ingest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/permit"
)

// Events that were deleted are passed over by a central that may do no more on the bus than the
// fleet's central may.
func TestDeletedEventsArePassedOverWithCentralsPermissions(t *testing.T) {
	rules, err := permit.Central("s")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, Users: []*server.User{
		{Username: "site", Password: "x"},
		{Username: "central", Password: "x", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: permit.Subjects(rules.Publish)},
			Subscribe: &server.SubjectPermission{Allow: permit.Subjects(rules.Subscribe)}}}}})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	open := func(user string, o ...nats.Option) *bus.Site {
		nc, err := nats.Connect(srv.ClientURL(), append(o, nats.UserInfo(user, "x"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			t.Errorf("%s: %v", user, err)
		}))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		site, err := bus.Open(t.Context(), nc, "", bus.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return site
	}
	site := open("site")
	for i := range 8 {
		if err := site.Publish(t.Context(), bus.EventSubject("g", "n"), fmt.Sprint(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := site.Events.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	base := info.State.FirstSeq - 1
	for _, seq := range []uint64{3, 4, 5, 6, 7} {
		if err := site.Events.DeleteMsg(t.Context(), base+seq); err != nil {
			t.Fatal(err)
		}
	}
	f := &feed{site: "s", stream: open("central", nats.CustomInboxPrefix(rules.Inbox)).Events, next: base + 3,
		apply: func(_ context.Context, events []jetstream.Msg) error {
			return fmt.Errorf("%d events are applied", len(events))
		}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.fill(ctx, base+8); err != nil || f.next != base+8 {
		t.Errorf("the next is %d, want %d, error %v", f.next-base, 8, err)
	}
}
