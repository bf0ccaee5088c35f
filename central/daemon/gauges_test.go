package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ironyard/ironyard/central/metrics"
	"github.com/ironyard/ironyard/central/sites"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
)

// A replacement that was moved on lately is not one that stands, however long ago it began.
func TestAgesOfKeyReplacements(t *testing.T) {
	db := storetest.Open(t, storetest.SQLite(t))
	m, err := sites.NewMap([]sites.Site{{Name: "east", Groups: []string{"a", "b"}}, {Name: "west"}})
	if err != nil {
		t.Fatal(err)
	}
	set := sites.NewSet(m, func(string) *nats.Conn { return nil }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	o := &observer{db: db, sites: set, metrics: metrics.New(db.Statements)}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	err = db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		for _, g := range []*store.GroupKey{
			{Group: "a", Stage: "ending", BeganAt: ago(80 * time.Hour), StageAt: ago(2 * time.Hour)},
			{Group: "b", Stage: "handing out", BeganAt: ago(30 * time.Hour), StageAt: ago(30 * time.Hour)},
			{Group: "over", BeganAt: ago(500 * time.Hour), StageAt: ago(400 * time.Hour)},
		} {
			if err := tx.PutGroupKey(ctx, g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	o.groupKeys(t.Context())
	w := httptest.NewRecorder()
	o.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	said := w.Body.String()
	for name, hours := range map[string]float64{`replacing{site="east"}`: 2.0 / 3600, `replacing_age_seconds{site="east"}`: 80, `stage_age_seconds{site="east"}`: 30,
		`replacing{site="west"}`: 0, `replacing_age_seconds{site="west"}`: 0, `stage_age_seconds{site="west"}`: 0} {
		var got float64
		_, value, found := strings.Cut(said, "ironyard_central_group_keys_"+name+" ")
		if _, err := fmt.Sscan(value, &got); !found || err != nil || got < hours*3600 || got > hours*3600+600 {
			t.Errorf("%s is %v (found %v, %v), want %v hours", name, got, found, err, hours)
		}
	}
}
