package trouble

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An hour of failures each second is a line when it begins, one each five minutes and one when it is over.
func TestFewLinesOfManyFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var s Spells
		for range 3600 {
			s.Tried(log, "relay: publish", errors.New("the database is away"), "site", "par1")
			s.Tried(log, "relay: repair", nil, "site", "par1")
			time.Sleep(time.Second)
		}
		s.Tried(log, "relay: publish", nil, "site", "par1")
		s.Tried(log, "relay: publish", nil, "site", "par1")
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if len(lines) != 13 {
			t.Fatalf("%d lines:\n%s", len(lines), text.String())
		}
		for i, want := range map[int]string{0: `"relay: publish failed, trying again"`, 1: "failures=301 for=5m0s", 11: "failures=3301 for=55m0s", 12: `"relay: publish works again" site=par1 failures=3600 for=1h0m0s`} {
			if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], "site=par1") {
				t.Errorf("line %d is %s, want %s", i, lines[i], want)
			}
		}
	})
}

// A thing that fails every other time, a hundred times a second for a minute, has two lines each Pause.
func TestFewLinesOfWhatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var s Spell
		for range 6000 {
			s.Failed(log, "to take in questions", errors.New("too many"))
			s.Over(log)
			time.Sleep(10 * time.Millisecond)
		}
		if lines := strings.Count(text.String(), "\n"); lines != 12 || !strings.Contains(text.String(), "failures=1000") {
			t.Errorf("%d lines:\n%s", lines, text.String())
		}
	})
}
