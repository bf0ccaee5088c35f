package age

import (
	"testing"
	"time"
)

// A clock that was set ahead removes nothing for a day, unless it is set back before.
func TestAClockThatWasSetAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	start := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	type look struct {
		passed, set time.Duration // set: the clock is ahead of the time by so much
		ahead       time.Duration
		may         bool
	}
	for name, looks := range map[string][]look{
		"a good clock":               {{0, 0, 0, true}, {10 * time.Minute, 0, 0, true}, {48 * time.Hour, 0, 0, true}},
		"set right by a minute":      {{0, 0, 0, true}, {10 * time.Minute, time.Minute, 0, true}},
		"ahead, and it stays so":     {{0, 0, 0, true}, {10 * time.Minute, year, year, false}, {23 * time.Hour, year, 0, false}, {25 * time.Hour, year, 0, true}},
		"ahead, and set back":        {{0, 0, 0, true}, {10 * time.Minute, year, year, false}, {time.Hour, 0, 0, true}},
		"behind, and right later on": {{0, -year, 0, true}, {10 * time.Minute, 0, year, false}, {25 * time.Hour, 0, 0, true}},
	} {
		var w watch
		for i, l := range looks {
			if ahead, may := w.look(start.Add(l.passed+l.set), l.passed); ahead != l.ahead || may != l.may {
				t.Errorf("%s, look %d: ahead %s, lines may go %t; want %s, %t", name, i+1, ahead, may, l.ahead, l.may)
			}
		}
	}
}
