package ingest_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A database that answers and cannot be written to, as one whose disk is full, costs no
// event: they are applied when it has room again.
func TestADatabaseThatIsFullLosesNoEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := postgres.Database(t)
	f.store = storetest.Open(t, address)
	f.ingest = ingest.New(ingest.Config{Store: f.store, Key: f.key, Metrics: metrics.New(f.store.Statements), Log: slog.New(slog.DiscardHandler)})
	n, w := f.deploy("n")

	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	exec := func(statement string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SEQUENCE tries;
		CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	f.follow()
	ended := about(w, work.WorkEnded, 1)
	ended.State = provision.Active
	f.publish(ended)

	// More often than an event is tried that is to blame itself: twice for each attempt, the
	// second time alone.
	const many = 14
	for tries, deadline := 0, time.Now().Add(30*time.Second); tries < many; {
		if err := c.QueryRow(t.Context(), "SELECT last_value FROM tries").Scan(&tries); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the event was tried %d times, and not again", tries)
		}
		time.Sleep(5 * time.Millisecond)
	}
	exec("DROP TRIGGER full_disk ON nodes")
	f.drained()
	if got := f.node(n.UUID); got.ProvisionState != provision.Active {
		t.Errorf("the node is %q: the event that came while the disk was full is lost", got.ProvisionState)
	}
}
