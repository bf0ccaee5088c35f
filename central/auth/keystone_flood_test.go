package auth

import (
	"fmt"
	"testing"
	"time"
)

// Tokens that are made up, however many, do not have a good one forgotten.
func TestBogusTokensDisplaceNoGoodOne(t *testing.T) {
	i := newIdentity(t)
	i.tokens["P"] = ofProject
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	k := i.strategy(func() time.Time { return now })
	if _, err := k.Authenticate(withToken("P")); err != nil {
		t.Fatal(err)
	}
	const flood = maxTokens + 50
	for n := range flood {
		if _, err := k.Authenticate(withToken(fmt.Sprintf("bogus-%d", n))); status(err) != 401 {
			t.Fatalf("token %d: %v", n, err)
		}
	}
	asked := i.asked.Load()
	if _, err := k.Authenticate(withToken("P")); err != nil || i.asked.Load() != asked {
		t.Errorf("after %d bogus tokens the good one is asked about again: %v", flood, err)
	}
}
