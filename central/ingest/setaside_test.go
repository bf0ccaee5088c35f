package ingest_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ironyard/ironyard/central/ingest"
	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// onPostgres is a fixture on a PostgreSQL of its own, and a way to change that from outside.
func onPostgres(t *testing.T) (f *fixture, m *metrics.Metrics, exec func(statement string)) {
	t.Helper()
	f = newFixture(t)
	address := postgres.Database(t)
	f.store = storetest.Open(t, address)
	m = metrics.New(f.store.Statements)
	f.ingest = ingest.New(ingest.Config{Store: f.store, Key: f.key, Metrics: m, Log: slog.New(slog.DiscardHandler)})
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	return f, m, func(statement string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not so in time: " + what)
		}
	}
}

// counted is what the metrics page shows in the line that begins so.
func counted(t *testing.T, m *metrics.Metrics, line string) (n float64) {
	t.Helper()
	page := httptest.NewRecorder()
	m.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for text := range strings.Lines(page.Body.String()) {
		if value, ok := strings.CutPrefix(text, line+" "); ok {
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// refusals is more attempts than events are given that are themselves to blame; with an error
// that blames them they are tried together first, then alone.
const (
	refusals = 6
	blamed   = 10
)

// Trouble that concerns the database and no event costs no event, however long it lasts: they
// wait, and the health page says so.
func TestTroubleOfTheDatabaseLosesNoEvent(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct{ begin, end string }{
		"a missing table": {"ALTER TABLE node_history RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO node_history"},
		"a missing right": {raising("insufficient_privilege"), quiet},
		"a spent quota":   {raising("configuration_limit_exceeded"), quiet},
		"read only":       {raising("read_only_sql_transaction"), quiet},
		"an older schema": {"ALTER TABLE node_history ADD COLUMN later TEXT NOT NULL; ALTER TABLE node_history ALTER COLUMN later DROP DEFAULT", "ALTER TABLE node_history DROP COLUMN later"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m, exec := onPostgres(t)
			var works []*work.Event
			var nodes []string
			for i := range 3 {
				n, w := f.deploy(fmt.Sprint("n", i))
				ended := about(w, work.WorkEnded, 1)
				ended.State = provision.Active
				works, nodes = append(works, &ended), append(nodes, n.UUID)
			}
			exec(trouble.begin)
			many := float64(refusals)
			if name == "an older schema" {
				many = blamed
			}
			for _, e := range works {
				f.publish(*e)
			}
			f.follow()
			waitFor(t, "many attempts", func() bool { return counted(t, m, `ironyard_central_ingest_errors_total{site=""}`) >= many })
			if why := f.ingest.Stuck(""); why == nil || why.Error() == "" {
				t.Error("nothing says that events wait")
			}
			exec(trouble.end)
			f.drained()
			for _, id := range nodes {
				if got := f.node(id); got.ProvisionState != provision.Active {
					t.Errorf("node %s is %q: its event is lost", got.Name, got.ProvisionState)
				}
			}
			if f.setAside() != 0 {
				t.Errorf("%d events were set aside, which the trouble was none of", f.setAside())
			}
			waitFor(t, "nothing waits", func() bool { return f.ingest.Stuck("") == nil })
		})
	}
}

func raising(condition string) string {
	return fmt.Sprintf(`CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'trouble' USING ERRCODE = '%s'; END $$;
		CREATE TRIGGER trouble BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION trouble()`, condition)
}

// refusing makes the database refuse errors of one node, for what is in them.
func refusing(node string) string {
	return fmt.Sprintf(`CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF NEW.uuid = '%s' AND NEW.observed_error <> '' THEN RAISE EXCEPTION 'out of range' USING ERRCODE = 'numeric_value_out_of_range'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER trouble BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION trouble()`, node)
}

const quiet = "DROP TRIGGER trouble ON nodes"

func (f *fixture) setAside() int {
	f.Helper()
	list, err := f.store.SetAsides(f.Context(), "", 1000)
	if err != nil {
		f.Fatal(err)
	}
	return len(list)
}

// An event that the database refuses for what is in it, while it takes others, holds up none of
// them. It is kept where operators see it, and can be applied once the cause is gone.
func TestAnEventThatIsToBlameIsSetAside(t *testing.T) {
	t.Parallel()
	f, m, exec := onPostgres(t)
	bad, badWork := f.deploy("bad")
	good, goodWork := f.deploy("good")
	exec(refusing(bad.UUID))
	for _, w := range []work.Event{about(badWork, work.WorkEnded, 1), about(goodWork, work.WorkEnded, 1)} {
		w.State, w.Error = provision.Active, "a text that this database refuses of one node"
		f.publish(w)
	}
	f.follow()
	f.drained()
	if got := f.node(good.UUID); got.ProvisionState != provision.Active {
		t.Errorf("the other node is %q", got.ProvisionState)
	}
	list, err := f.store.SetAsides(t.Context(), "", 10)
	if err != nil || len(list) != 1 || list[0].Node != bad.UUID || list[0].Reason != "refused" || !strings.Contains(list[0].Error, "out of range") {
		t.Fatalf("set aside: %+v, error %v", list, err)
	}
	if got := counted(t, m, `ironyard_central_events_set_aside_total{reason="refused",site=""}`); got != 1 {
		t.Errorf("the metric counts %v", got)
	}
	// Again while the cause is there: it stays.
	if _, err := f.ingest.Replay(t.Context(), list[0]); err == nil {
		t.Error("it was applied although the database refuses it")
	}
	if f.setAside() != 1 {
		t.Error("an event that could not be applied is gone")
	}
	exec(quiet)
	what, err := f.ingest.Replay(t.Context(), list[0])
	if err != nil || what != ingest.Applied {
		t.Errorf("replayed: %q, error %v", what, err)
	}
	if got := f.node(bad.UUID); got.ProvisionState != provision.Active || f.setAside() != 0 {
		t.Errorf("the node is %q, %d events are set aside", got.ProvisionState, f.setAside())
	}
}

// What cannot be read is kept likewise, up to a bound: a rack must not fill the database.
func TestUnreadableEventsAreKeptUpToABound(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	most := ingest.MostUnreadable
	for i := range most + 2 {
		f.raw(n.UUID, []byte(fmt.Sprintf("{%d", i)))
	}
	ended := about(w, work.WorkEnded, 1)
	ended.State = provision.Active
	f.publish(ended)
	f.follow()
	f.drained()
	if got := f.node(n.UUID); got.ProvisionState != provision.Active {
		t.Errorf("the node is %q: rubbish held up the event behind it", got.ProvisionState)
	}
	list, err := f.store.SetAsides(t.Context(), "", most+2)
	if err != nil || len(list) != most {
		t.Fatalf("%d are kept, error %v, want %d", len(list), err, most)
	}
	if body := string(list[0].Body); !strings.HasPrefix(body, "{") || list[0].Reason != "unreadable" {
		t.Errorf("kept: %+v", list[0])
	}
}
