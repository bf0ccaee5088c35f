package age_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/age"
	"github.com/ironyard/ironyard/central/audit"
	"github.com/ironyard/ironyard/central/register"
	"github.com/ironyard/ironyard/central/retention"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

var postgres storetest.Cluster

func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }

// noRackds is a roster without rackds.
type noRackds struct{}

func (noRackds) Conductors() []bus.Member { return nil }

const day = 24 * time.Hour

// kept is what a database has of what is removed some day.
type kept struct{ works, audit, conductors int }

// fill writes a day-old fleet: a node with two ended works, a line of the audit, and a rackd that ended.
func fill(t *testing.T, db *store.Store) {
	t.Helper()
	n := storetest.NewNode("busy")
	storetest.Insert(t, db, n)
	write := func(f func(ctx context.Context, tx *store.Tx) error) {
		t.Helper()
		if err := db.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w := storetest.NewWork(n, work.Deploy)
		n.Accept(provision.Deploying, provision.Active, time.Now())
		w.Generation = n.Generation
		write(func(ctx context.Context, tx *store.Tx) error {
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
			if err := tx.InsertWork(ctx, w); err != nil {
				return err
			}
			return tx.EndWork(ctx, w.ID, store.WorkEnded, "")
		})
	}
	if err := db.AppendAudit(t.Context(), &store.Audit{RequestID: "req-1", Action: "a", User: "kim", Status: 200, Result: store.Accepted}); err != nil {
		t.Fatal(err)
	}
	write(func(ctx context.Context, tx *store.Tx) error {
		return tx.NoteConductor(ctx, &store.Conductor{Name: "r1", Created: time.Now().Add(-day), Updated: time.Now()}, time.Now().Add(day))
	})
}

// central removes what is old, as a central does whose clock is off by so much.
func central(t *testing.T, address string, off time.Duration, log *bytes.Buffer) kept {
	t.Helper()
	now := func() time.Time { return time.Now().Add(off) }
	db, err := store.Open(t.Context(), address, store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := slog.New(slog.NewTextHandler(log, nil))
	ages, err := age.Begin(t.Context(), db, l, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := audit.New(audit.Config{Store: db, Log: l, Keep: 90 * day, Before: ages.Before, Now: now}).Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := retention.New(retention.Config{Rows: db, Log: l, Before: ages.Before}).Round(t.Context()); err != nil {
		t.Fatal(err)
	}
	once, cancel := context.WithCancel(t.Context())
	looked := register.New(register.Config{Store: db, Roster: noRackds{}, Log: l, Now: now, Before: func(ctx context.Context, keep time.Duration) (time.Time, bool, error) {
		defer cancel() // one look is enough
		return ages.Before(ctx, keep)
	}})
	if err := looked.Run(once); err != nil {
		t.Fatal(err)
	}
	list, err := db.Surpluses(t.Context(), "", time.Now().Add(1000*day), 10)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	lines, err := db.Audit(t.Context(), store.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	rackds, err := db.Conductors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kept{list[0].OldWorks, len(lines), len(rackds)}
}

// A central begins with its clock a year ahead. What is a moment old is not removed: by PostgreSQL's clock it is not old, and with
// SQLite the newest sign of life shows that the clock may be wrong. A clock that is behind removes nothing either.
func TestACentralThatBeginsWithAWrongClockRemovesNothing(t *testing.T) {
	for engine, address := range map[string]string{"SQLite": storetest.SQLite(t), "PostgreSQL": postgres.Database(t)} {
		db := storetest.Open(t, address)
		fill(t, db)
		for name, off := range map[string]time.Duration{"ahead": 365 * day, "behind": -365 * day, "right": 0} {
			var log bytes.Buffer
			if got, want := central(t, address, off, &log), (kept{1, 1, 1}); got != want {
				t.Errorf("%s, a clock that is %s: left are %+v, want %+v\n%s", engine, name, got, want, log.String())
			}
			if told := strings.Contains(log.String(), "far ahead"); told != (name == "ahead" && engine == "SQLite") {
				t.Errorf("%s, a clock that is %s: the log says %q", engine, name, log.String())
			}
		}
	}
}

// What is old by a clock that is right is removed, where central has run long enough to know.
func TestWhatIsOldIsRemoved(t *testing.T) {
	db := storetest.Open(t, storetest.SQLite(t))
	fill(t, db)
	year := 365 * day
	ages, err := age.Begin(t.Context(), later{db, year}, slog.New(slog.DiscardHandler), func() time.Time { return time.Now().Add(year) })
	if err != nil {
		t.Fatal(err)
	}
	before, may, err := ages.Before(t.Context(), day)
	if want := time.Now().Add(year - day); err != nil || !may || want.Sub(before).Abs() > time.Minute {
		t.Errorf("a day ago is %s, want %s; rows may be removed: %t, error %v", before, want, may, err)
	}
}

// later is a database in whose fleet a rackd gives signs of life so much later.
type later struct {
	*store.Store
	by time.Duration
}

// Clock implements age.Database.
func (l later) Clock(ctx context.Context) (time.Time, error) {
	now, err := l.Store.Clock(ctx)
	return now.Add(l.by), err
}

// NewestConductor implements age.Database.
func (l later) NewestConductor(ctx context.Context) (time.Time, error) {
	newest, err := l.Store.NewestConductor(ctx)
	return newest.Add(l.by), err
}
