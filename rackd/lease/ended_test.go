package lease

import (
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

// watched is a lease whose watch on ALIVE the test plays.
type watched struct {
	*Lease
	t *testing.T
}

func newWatched(t *testing.T) watched {
	l := New(&bus.Site{}, bus.Member{Name: "self"}, groups{}, func() error { return nil }, func() {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	w := watched{l, t}
	l.held.Store(new(time.Now()))
	reader{l}.Begin()
	reader{l}.Synced(nil)
	return w
}

// shows makes the watch show an announcement or a renewal, left others still to come.
func (w watched) shows(m bus.Member, left uint64) {
	w.t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	reader{w.Lease}.Apply(entry{key: bus.MemberKey(m.Group, m.Name), value: body, op: jetstream.KeyValuePut, left: left})
}

func (w watched) expires(m bus.Member) {
	reader{w.Lease}.Apply(entry{key: bus.MemberKey(m.Group, m.Name), op: jetstream.KeyValuePurge})
}

// renews makes this rackd renew its own lease; what it returns shows that to the watch.
func (w watched) renews() (show func(left uint64)) {
	time.Sleep(time.Millisecond)
	began := time.Now()
	m := w.self
	m.RenewedAt = began.UTC()
	w.sending(m.RenewedAt, began)
	w.held.Store(&began)
	time.Sleep(time.Millisecond)
	return func(left uint64) { w.shows(m, left) }
}

type entry struct {
	jetstream.KeyValueEntry
	key   string
	value []byte
	op    jetstream.KeyValueOp
	left  uint64
	at    time.Time // when the bus stored it
}

func (e entry) Key() string                     { return e.key }
func (e entry) Value() []byte                   { return e.value }
func (e entry) Operation() jetstream.KeyValueOp { return e.op }
func (e entry) Delta() uint64                   { return e.left }
func (e entry) Created() time.Time              { return e.at }

// The watch on WORK is ahead of the watch on ALIVE: it shows work that was taken under a
// lease which this rackd has not seen yet. Its owner lives.
func TestLeaseNotYetSeenHasNotEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		other := bus.Member{Name: "other", Instance: "i", Lease: "1"}
		w.renews()(0)
		w.shows(other, 0)
		if w.Ended("other", "1", "", time.Now()) {
			t.Error("who is there has ended")
		}
		w.expires(other)
		time.Sleep(time.Second)
		learnt := time.Now() // of work that other has taken under its next lease, 2
		if w.Ended("other", "2", "", learnt) {
			t.Error("a lease that was never seen has ended: its announcement may be on its way")
		}
		show := w.renews()
		if w.Ended("other", "2", "", learnt) {
			t.Error("the watch has not shown anything newer")
		}
		// The watch skips what has been replaced: when it shows our renewal, the renewal
		// of a lease that was announced before may be still to come.
		show(1)
		if w.Ended("other", "2", "", learnt) {
			t.Error("the watch is about to show more")
		}
		other.Lease = "2"
		w.shows(other, 0)
		if w.Ended("other", "2", "", learnt) || !w.Ended("other", "1", "", learnt) {
			t.Error("lease 2 lives, and lease 1 has ended")
		}
		w.expires(other)
		if !w.Ended("other", "2", "", learnt) {
			t.Error("lease 2 was seen to end")
		}
	})
}

// A lease that no renewal shows any more has ended: it was over before this rackd began
// to watch.
func TestLeaseOfBeforeHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		learnt := time.Now()
		time.Sleep(time.Millisecond)
		w.renews()(0)
		if !w.Ended("other", "1", "", learnt) {
			t.Error("nobody holds it, and all that was announced before has been shown")
		}
		w.unsettle()
		if w.Ended("other", "1", "", learnt) {
			t.Error("believed before the ring has settled")
		}
		w.settle.Store(nil)
		w.held.Store(nil)
		if w.Ended("other", "1", "", learnt) {
			t.Error("believed by who has no lease of its own")
		}
	})
}

// The bucket is read anew: whoever lives may be missing from it for a moment.
func TestMembersReadAnewMustSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		other := bus.Member{Name: "other", Instance: "i", Lease: "1"}
		w.shows(other, 0)
		w.renews()(0)
		learnt := time.Now().Add(-time.Hour)
		reader{w.Lease}.Begin()
		reader{w.Lease}.Synced([]string{bus.MemberKey("", "other")})
		if w.Ended("other", "1", "", learnt) {
			t.Error("taken for dead because the bus has lost its key")
		}
	})
}

// Who waits for the watch to move on is told when it has.
func TestWhoWaitsIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		told := 0
		w.changed = func() { told++ }
		w.renews()(0)
		joined := told
		w.renews()(0)
		if told != joined {
			t.Errorf("told %d times of renewals that nobody waits for", told-joined)
		}
		if w.Ended("other", "1", "", time.Now()) {
			t.Fatal("ended too early")
		}
		w.renews()(0)
		if told != joined+1 {
			t.Errorf("told %d times, want once", told-joined)
		}
	})
}

// So is who waits when the last that the watch had to show is that somebody unknown is gone.
func TestWhoWaitsIsToldByAMarkerToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		told := 0
		w.changed = func() { told++ }
		w.renews()(0)
		if w.Ended("other", "1", "", time.Now()) {
			t.Fatal("ended too early")
		}
		w.renews()(1)
		before := told
		w.expires(bus.Member{Name: "unknown"})
		if told != before+1 {
			t.Errorf("told %d times, want once", told-before)
		}
	})
}
