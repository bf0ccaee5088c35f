package store

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestARefusedCommitLeavesThoseBefore: who has read while it was asked for may have seen
// what was committed before it, and waits for that.
func TestARefusedCommitLeavesThoseBefore(t *testing.T) {
	for _, lost := range []error{nil, errors.New("lost")} {
		synctest.Test(t, func(t *testing.T) {
			var u unsettled
			first, second := u.begin(), u.begin()
			got := make(chan error, 1)
			go func() { got <- u.seen().wait(t.Context()) }()
			second.refused()
			synctest.Wait()
			select {
			case err := <-got:
				t.Fatalf("did not wait for the commit before: %v", err)
			default:
			}
			first.end(lost)
			if err := <-got; err != lost {
				t.Errorf("%v, want %v", err, lost)
			}
			if err := u.seen().wait(t.Context()); err != lost {
				t.Errorf("later: %v, want %v", err, lost)
			}
		})
	}
}
