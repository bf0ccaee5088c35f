package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

func conductors(t *testing.T, s *store.Store) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 12, minute, 0, 0, time.UTC) }
	note := func(c store.Conductor) {
		t.Helper()
		update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.NoteConductor(ctx, &c, at(30)) })
	}
	shown := func(c store.Conductor) string { return fmt.Sprint(c) }
	all := func() []string {
		t.Helper()
		rows, err := s.Conductors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, c := range rows {
			list = append(list, shown(*c))
		}
		return list
	}
	newest := func() time.Time {
		t.Helper()
		when, err := s.NewestConductor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	expect(t, "none yet", len(all()), 0)
	expect(t, "no sign of life yet", newest(), time.Time{})
	first := store.Conductor{Name: "r2", Group: "east", Drivers: []string{"fake-hardware", "redfish"}, Created: at(1), Updated: at(2)}
	note(first)
	note(store.Conductor{Name: "r1", Created: at(3), Updated: at(9)})
	expect(t, "in order of name", strings.HasPrefix(all()[0], "{r1 ") && strings.HasPrefix(all()[1], "{r2 "), true)
	expect(t, "as it was noted", all()[1], shown(first))
	note(store.Conductor{Name: "r2", Group: "west", Created: at(4), Updated: at(5)})
	expect(t, "changed, but for its beginning", all()[1], shown(store.Conductor{Name: "r2", Group: "west", Created: at(1), Updated: at(5)}))
	note(first)
	expect(t, "what is older changes nothing", all()[1], shown(store.Conductor{Name: "r2", Group: "west", Created: at(1), Updated: at(5)}))
	expect(t, "the newest sign of life", newest(), at(9))
	note(store.Conductor{Name: "r3", Group: "past", Created: at(1), Updated: at(50)})
	note(store.Conductor{Name: "r3", Group: "now", Created: at(1), Updated: at(5)})
	expect(t, "what was noted by a clock that was ahead hides nothing", all()[2], shown(store.Conductor{Name: "r3", Group: "now", Created: at(1), Updated: at(5)}))
	update(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.ForgetConductors(ctx, at(6)) })
	expect(t, "the one seen since", all()[0], shown(store.Conductor{Name: "r1", Created: at(3), Updated: at(9)}))
	expect(t, "alone", len(all()), 1)
	clock, err := s.Clock(t.Context())
	if off := time.Since(clock); err != nil || off.Abs() > time.Minute {
		t.Errorf("the database's clock is off by %s, error %v", off, err)
	}
}
