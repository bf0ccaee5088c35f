package sites

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// Requests wait until central has looked at each site once; a site of which nothing is ever known keeps them for a bounded time.
func TestAwaitFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMap([]Site{{Name: "east", Groups: []string{"a"}}, {Name: "west"}})
		if err != nil {
			t.Fatal(err)
		}
		s := NewSet(m, func(string) *nats.Conn { return nil }, slog.New(slog.DiscardHandler))
		began := time.Now()
		read := func(site string) bool { return time.Since(began) >= 300*time.Millisecond }
		s.AwaitFirst(t.Context(), read)
		if took := time.Since(began); took != firstSight {
			t.Errorf("waited %s for sites that were never tried, want %s", took, firstSight)
		}
		var away *AwayError
		if err := s.Away("a"); !errors.As(err, &away) || !away.NotYet {
			t.Errorf("a site that was never open: %v", err)
		}
		began = time.Now()
		s.links["east"].lose(errors.New("no answer"))
		s.links["west"].found()
		s.AwaitFirst(t.Context(), read)
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Errorf("waited %s, want until the conductors of the open site are read", took)
		}
		s.links["west"].lose(errors.New("cut"))
		if err := s.Away("b"); !errors.As(err, &away) || away.NotYet {
			t.Errorf("a site that was open: %v", err)
		}
	})
}
