package ipmi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// A login whose caller gives up leaves no session at the BMC, which has few.
func TestALoginThatIsGivenUpLeavesNoSession(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	ctx, cancel := context.WithCancel(t.Context())
	closed, gaveUp := make(chan struct{}, 4), make(chan struct{})
	r.set(func() {
		r.after = func(q request) {
			switch {
			case q.NetFn == netFnApp && q.Command == 0x3B: // the privilege: the session is open
				cancel()
				<-gaveUp // an answer in time would end the login, and the pool would keep its session
			case q.NetFn == netFnApp && q.Command == 0x3C:
				closed <- struct{}{}
			}
		}
	})
	_, err := d.PowerState(ctx, n)
	close(gaveUp)
	if err == nil {
		t.Fatal("no error")
	}
	select {
	case <-closed:
	case <-time.After(2 * time.Second):
		t.Error("the session stays open at the BMC")
	}
}

// A BMC that is reset while a session of IPMI 1.5 is opened is silent, and has refused no password.
func TestABMCThatIsResetInALogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{Timeout: 400 * time.Millisecond}), r.node("s3cret-pass", map[string]any{fieldVersion: "1.5"})
	var down atomic.Bool
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		if m, ok := ipmitest.Read(b); ok && m.NetFn == netFnApp && m.Command == 0x3A { // Activate Session
			down.Store(true)
		}
		if down.Load() {
			return nil
		}
		return ipmitest.As(b)
	})
	if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrDenied) {
		t.Errorf("%v, want ErrUnreachable", err)
	}
	r.wire.Up(ipmitest.As)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

// A BMC that restarts between the challenge and the password has forgotten the challenge. It is silent, or says that it knows no such
// session, and has refused no password: the login begins once more. A wrong password is sent twice, and then no more.
func TestABMCThatRestartsInALogin(t *testing.T) {
	t.Parallel()
	activate := func(b []byte) bool {
		m, ok := ipmitest.Read(b)
		return ok && m.NetFn == netFnApp && m.Command == 0x3A
	}
	for name, code := range map[string]types.CompletionCode{"silent": 0, "no such session": 0x85, "no such number": 0x84} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "s3cret-pass")
			d, n := newDriver(t, Options{Timeout: 400 * time.Millisecond}), r.node("s3cret-pass", map[string]any{fieldVersion: "1.5"})
			var logins atomic.Int64
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					return nil, code, code != 0 && q.NetFn == netFnApp && q.Command == 0x3A && logins.Load() == 1
				}
			})
			restarted := r.start("s3cret-pass")
			var restart sync.WaitGroup
			r.wire.Up(func(b []byte) []ipmitest.Packet {
				if activate(b) && logins.Add(1) == 1 && code == 0 {
					restart.Go(func() { r.wire.To(restarted) })
					return nil
				}
				return ipmitest.As(b)
			})
			if _, err := d.PowerState(t.Context(), n); err != nil {
				t.Error(err)
			}
			restart.Wait()
			if got := logins.Load(); got != 2 {
				t.Errorf("%d requests for a session, want 2", got)
			}
			logins.Store(10)
			wrong := r.node("wrong", map[string]any{fieldVersion: "1.5"})
			for range 3 {
				if _, err := d.PowerState(t.Context(), wrong); !errors.Is(err, driver.ErrDenied) {
					t.Errorf("a wrong password: %v, want ErrDenied", err)
				}
			}
			if got := logins.Load() - 10; got > 2 {
				t.Errorf("a wrong password was sent %d times, want 2 at most: BMCs lock accounts", got)
			}
		})
	}
}

// A BMC has opened a session, and its answer gets lost. This one has room for one of a user: it is busy until it ends that. It has refused
// no password.
func TestALoginWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{Timeout: 400 * time.Millisecond}), r.node("s3cret-pass", map[string]any{fieldVersion: "1.5"})
	var lost atomic.Bool
	r.wire.Down(func(b []byte) []ipmitest.Packet {
		if m, ok := ipmitest.Read(b); ok && m.NetFn == netFnApp|1 && m.Command == 0x3A && lost.CompareAndSwap(false, true) {
			return nil
		}
		return ipmitest.As(b)
	})
	if _, err := d.PowerState(t.Context(), n); !errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "busy") {
		t.Errorf("%v, want a busy BMC", err)
	}
	if !lost.Load() {
		t.Error("no answer was lost")
	}
}
