package membership

import (
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		what    string
		renewed time.Duration // before now
		failed  bool
		spread  float64
		want    time.Duration
	}{
		{"just renewed, early of the crowd", 0, false, 0, 54 * time.Minute},
		{"just renewed, late of the crowd", 0, false, 1, 66 * time.Minute},
		{"long ago", 24 * time.Hour, false, 0.5, 0},
		{"in the future: the clock was set back", -10 * time.Minute, false, 0.5, 60 * time.Minute},
		{"in the future: the clock was years ahead", -3 * 365 * 24 * time.Hour, false, 0.5, 60 * time.Minute},
		{"failed, and long ago", 24 * time.Hour, true, 0.5, renewAgain},
	} {
		if got := due(now, now.Add(-c.renewed), time.Hour, c.failed, c.spread); got.Round(time.Millisecond) != c.want {
			t.Errorf("%s: in %v, want %v", c.what, got, c.want)
		}
	}
}
