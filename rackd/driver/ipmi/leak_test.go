package ipmi

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// A login whose caller gives up leaves no session at the BMC, which has few.
func TestALoginThatIsGivenUpLeavesNoSession(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	d, n := newDriver(t, Options{}), r.node("s3cret-pass", nil)
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan struct{}, 4)
	r.set(func() {
		r.after = func(q request) {
			switch {
			case q.NetFn == netFnApp && q.Command == 0x3B: // the privilege: the session is open
				cancel()
				time.Sleep(20 * time.Millisecond)
			case q.NetFn == netFnApp && q.Command == 0x3C:
				closed <- struct{}{}
			}
		}
	})
	if _, err := d.PowerState(ctx, n); err == nil {
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
