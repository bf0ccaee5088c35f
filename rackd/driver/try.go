package driver

import (
	"context"
	"sync"
	"time"
)

// Try is the login that a person's request has of its own for each account of a BMC that refuses the credentials: the person may have
// corrected the account at the BMC. Background work has none. A nil *Try has none either. It is safe for concurrent use.
type Try struct {
	mu    sync.Mutex
	spent map[[32]byte]bool
}

type tryKey struct{}

// WithTry returns the context of what a person has asked for. All calls with it, and with contexts made of it, share one Try.
func WithTry(ctx context.Context) context.Context {
	return context.WithValue(ctx, tryKey{}, &Try{spent: map[[32]byte]bool{}})
}

// TryOf returns the Try of a context, nil for that of background work.
func TryOf(ctx context.Context) *Try {
	t, _ := ctx.Value(tryKey{}).(*Try)
	return t
}

// Left reports whether the request may log in with an account that the BMC refuses.
func (t *Try) Left(account [32]byte) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.spent[account]
}

// Spend takes the login away: the BMC has refused one that the request has caused.
func (t *Try) Spend(account [32]byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent[account] = true
}

// Spent reports whether a BMC has refused a login that the request has caused.
func (t *Try) Spent() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.spent) > 0
}

// Withheld is an error of credentials that a BMC refuses, and that rackd holds back so that the account is not locked. It wraps ErrDenied.
type Withheld interface {
	error
	// Again is when rackd logs in with them again by itself. Zero: not before they change, or a request asks for something of a node.
	Again() time.Time
	// Tried reports whether the call has logged in. One that has not sent nothing, so that it is no failure of the BMC.
	Tried() bool
}
