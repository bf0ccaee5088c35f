package refusal

import (
	"errors"
	"fmt"
	"testing"
)

// A caller that only has to try again is told 503, at a rackd's own door as through central.
func TestStatus(t *testing.T) {
	for err, want := range map[error]int{ErrNoNode: 404, ErrBadToken: 401, ErrBadCallback: 400, ErrNotOwner: 503, &NotOwnerError{Node: "n"}: 503, ErrInDoubt: 503,
		ErrUnproven: 503, errors.New("another"): 0} {
		if got := Status(fmt.Errorf("node n: %w", err)); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
