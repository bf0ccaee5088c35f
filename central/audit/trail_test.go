package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/audit"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

func newTrail(t *testing.T) (*audit.Trail, *store.Store, *bytes.Buffer) {
	db, log := storetest.Open(t, storetest.SQLite(t)), &bytes.Buffer{}
	return audit.New(audit.Config{Store: db, Log: slog.New(slog.NewTextHandler(log, nil)), Keep: time.Hour,
		Before: func(_ context.Context, keep time.Duration) (time.Time, bool, error) {
			return time.Now().Add(2*time.Hour - keep), true, nil
		},
		Now: func() time.Time { return time.Now().Add(2 * time.Hour) }}), db, log
}

func cause(id string) *store.Cause {
	return &store.Cause{Audit: &store.Audit{RequestID: id, Action: "baremetal:node:update", User: "kim", Status: 200, Result: store.Accepted}}
}

// lines are "request status result" of all that is written.
func lines(t *testing.T, db *store.Store) string {
	t.Helper()
	list, err := db.Audit(t.Context(), store.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, fmt.Sprintf("%s %d %s", a.RequestID, a.Status, a.Result))
	}
	return strings.Join(out, ", ")
}

// What was carried out is written at once, also when its client has gone; what was
// refused, when the trail is flushed; what was written before its end was known is put
// right.
func TestWhenLinesAreWritten(t *testing.T) {
	trail, db, log := newTrail(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	trail.Ended(gone, cause("req-1"), 204, "")
	trail.Ended(t.Context(), cause("req-2"), 403, "not yours")
	trail.Ended(t.Context(), cause("req-3"), 409, "locked")
	written := cause("req-4")
	if err := db.Update(store.WithCause(t.Context(), written), func(context.Context, *store.Tx) error { return nil }); err != nil || !written.Recorded() {
		t.Fatalf("error %v, recorded %t", err, written.Recorded())
	}
	trail.Ended(t.Context(), written, 500, "too late")
	if got, want := lines(t, db), "req-1 204 accepted, req-4 200 accepted"; got != want {
		t.Errorf("before the flush: %s, want %s", got, want)
	}
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"req-1 204 accepted", "req-2 403 denied", "req-3 409 refused", "req-4 500 failed"} {
		if got := lines(t, db); !strings.Contains(got, want) {
			t.Errorf("after the flush: %s, want %s in it", got, want)
		}
		id, _, _ := strings.Cut(want, " ")
		if !strings.Contains(log.String(), "audit.request_id="+id) {
			t.Errorf("the log does not tell of %s: %s", id, log.String())
		}
	}
	if err := trail.Prune(t.Context()); err != nil || lines(t, db) != "" {
		t.Errorf("lines older than is kept: %q, error %v", lines(t, db), err)
	}
}

// A database that fails loses no line, and a flood of refused requests takes bounded
// memory.
func TestDatabaseFailsAndFlood(t *testing.T) {
	trail, db, log := newTrail(t)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 5000 {
		trail.Ended(t.Context(), cause(fmt.Sprintf("req-%d", i)), 404, "")
	}
	if err := trail.Flush(stopped); err == nil {
		t.Fatal("a flush without a database worked")
	}
	log.Reset()
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := db.Audit(t.Context(), store.AuditQuery{Page: store.Page{Limit: 6000}})
	if err != nil || len(list) != 4096 {
		t.Errorf("%d lines, error %v, want 4096", len(list), err)
	}
}

// A line of which nobody has heard whether it was written, because the database was silent for
// too long, is written once, and keeps no other from being written.
func TestWrittenUnheardOf(t *testing.T) {
	trail, db, _ := newTrail(t)
	unheard := cause("req-1")
	if err := db.AppendAudit(t.Context(), unheard.Audit); err != nil {
		t.Fatal(err)
	}
	trail.Ended(t.Context(), unheard, 404, "")
	trail.Ended(t.Context(), cause("req-2"), 404, "")
	for range 2 {
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatalf("the flush: %v", err)
		}
	}
	if got := lines(t, db); got != "req-1 200 accepted, req-2 404 refused" {
		t.Errorf("lines: %s", got)
	}
}

// Run writes what waits before it ends.
func TestRunEndsWithNothingWaiting(t *testing.T) {
	trail, db, _ := newTrail(t)
	trail.Ended(t.Context(), cause("req-1"), 404, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trail.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, db); got != "req-1 404 refused" {
		t.Errorf("lines %q", got)
	}
}

// Lines about strangers displace no other, also while the database is away, and tell of it once.
func TestStrangersDisplaceNoLine(t *testing.T) {
	trail, db, log := newTrail(t)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for round := range 3 {
		for i := range 5000 {
			trail.RefusedStranger(cause(fmt.Sprintf("req-s-%d-%d", round, i)), 404, "")
		}
		if err := trail.Flush(stopped); err == nil {
			t.Fatal("a flush without a database worked")
		}
	}
	for i := range 4000 {
		trail.Ended(t.Context(), cause(fmt.Sprintf("req-%d", i)), 409, "")
	}
	log.Reset()
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := db.Audit(t.Context(), store.AuditQuery{Page: store.Page{Limit: 6000}})
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, a := range list {
		if !strings.HasPrefix(a.RequestID, "req-s-") {
			known++
		}
	}
	if known != 4000 || len(list) != 4128 {
		t.Errorf("%d lines about known callers and %d about strangers, want 4000 and 128", known, len(list)-known)
	}
	if strings.Count(log.String(), "in the log only") != 1 || !strings.Contains(log.String(), "lines=14872") {
		t.Errorf("the log says %s", log.String())
	}
}

// Lines that were removed do not come back. None is removed while their age is not sure.
func TestLinesOfAnAgeThatIsNotSureStay(t *testing.T) {
	db, sure := storetest.Open(t, storetest.SQLite(t)), false
	trail := audit.New(audit.Config{Store: db, Log: slog.New(slog.DiscardHandler), Keep: 90 * 24 * time.Hour,
		Before: func(_ context.Context, keep time.Duration) (time.Time, bool, error) {
			return time.Now().Add(100*24*time.Hour - keep), sure, nil
		}})
	trail.Ended(t.Context(), cause("req-1"), 204, "")
	if err := trail.Prune(t.Context()); err != nil || lines(t, db) != "req-1 204 accepted" {
		t.Errorf("not sure: the audit has %q, error %v", lines(t, db), err)
	}
	sure = true
	if err := trail.Prune(t.Context()); err != nil || lines(t, db) != "" {
		t.Errorf("sure: the audit has %q, error %v", lines(t, db), err)
	}
}
