package vbmc

import (
	"context"
	"net/http"
	"sync"
)

// Faults are troubles on demand. The zero value is a healthy BMC. Safe for
// concurrent use; each setting acts from the next connection or request on.
type Faults struct {
	mu       sync.Mutex
	refuse   bool
	hang     bool
	lockout  bool
	failures int
}

// Refuse drops every connection as soon as it is made.
func (f *Faults) Refuse(on bool) { f.set(func() { f.refuse = on }) }

// Hang takes requests and never answers them, as a BMC whose web server is stuck.
func (f *Faults) Hang(on bool) { f.set(func() { f.hang = on }) }

// RejectCredentials answers 401 to right credentials and live sessions too.
func (f *Faults) RejectCredentials(on bool) { f.set(func() { f.lockout = on }) }

// Fail answers 500 to the next n requests.
func (f *Faults) Fail(n int) { f.set(func() { f.failures = n }) }

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *Faults) refusing() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.refuse }

func (f *Faults) rejecting() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.lockout }

func (f *Faults) wrap(serving context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		hang, refuse, fail := f.hang, f.refuse, f.failures > 0
		if fail && !hang && !refuse {
			f.failures--
		}
		f.mu.Unlock()
		switch {
		case hang:
			select {
			case <-r.Context().Done():
			case <-serving.Done():
			}
			panic(http.ErrAbortHandler)
		case refuse:
			panic(http.ErrAbortHandler) // a connection from before the fault
		case fail:
			refusal{http.StatusInternalServerError, "InternalError", "The request failed due to an internal service error."}.write(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
