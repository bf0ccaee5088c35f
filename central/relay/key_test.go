package relay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A write of a key that was not as it was read is tried again, whichever way the server
// says so; anything else is reported.
func TestRaces(t *testing.T) {
	coded := func(code jetstream.ErrorCode) error {
		return fmt.Errorf("write: %w", &jetstream.APIError{ErrorCode: code})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{coded(jetstream.JSErrCodeStreamWrongLastSequence), true},
		{coded(jetstream.JSErrCodeStreamWrongLastSequenceConstant), true},
		{coded(jetstream.JSErrCodeStreamNotFound), false},
		{errors.New("timeout"), false},
		{nil, false},
	} {
		if got := isRace(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
}

// A work's key that held something in an earlier attempt, and holds not even a marker now,
// was lost.
func TestVanished(t *testing.T) {
	for _, c := range []struct {
		had      bool
		revision uint64
		want     bool
	}{{false, 0, false}, {false, 7, false}, {true, 7, false}, {true, 0, true}} {
		o := order{hadWork: c.had, work: held{revision: c.revision}}
		if got := o.vanished(); got != c.want {
			t.Errorf("had %t, now at revision %d: vanished %t, want %t", c.had, c.revision, got, c.want)
		}
	}
}
