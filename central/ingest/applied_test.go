package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// Whoever waits until a site's reports are applied, in any replica, is told when those
// are that the site held at that moment: not before, and not only when there are no
// others.
func TestApplied(t *testing.T) {
	f := newFixture(t)
	within := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return ingest.Applied(ctx, f.site)
	}
	if err := within(10 * time.Second); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("before anybody has applied anything: %v", err)
	}
	stop := f.follow()
	n, w := f.deploy("n")
	f.drained()
	if err := within(10 * time.Second); err != nil {
		t.Errorf("nothing was reported: %v", err)
	}
	stop()
	e := about(w, work.StateChanged, 1)
	e.State, e.Target = provision.DeployWait, provision.Active
	f.publish(e)
	if err := within(time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an event that nobody has applied: %v", err)
	}
	f.follow()
	if err := within(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	if got := f.node(n.UUID); got.ObservedState != provision.DeployWait {
		t.Errorf("told that all is applied, and the row says %q", got.ObservedState)
	}
	events, err := f.site.JS.Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := within(30 * time.Second); err != nil {
		t.Errorf("the site has lost its events, and with them what there was to wait for: %v", err)
	}
}
