package ipmi

import (
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// A message 1 that was repeated may reach the BMC after message 3. The BMC then says that this session is no longer logged in to. The
// session goes on, and ipmitest.Refused counts no refused login: no credentials were judged.
func TestARepetitionThatComesAfterTheLogin(t *testing.T) {
	const message1, message2, notInLogin = 0x12, 0x13, 0x08
	r := newRig(t, "s3cret-pass")
	var mu sync.Mutex
	var first []byte
	var late bool
	said := make(chan byte, 1)
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		mu.Lock()
		defer mu.Unlock()
		kind := b[5] & 0x3F
		if b[4] == 0x06 && kind == message1 && first == nil {
			first = b
		}
		if b[4] == 0x06 && kind < 0x10 && first != nil && !late { // the first message within the session
			late = true
			return append(ipmitest.As(first), ipmitest.Packet{Data: b, After: 50 * time.Millisecond})
		}
		return ipmitest.As(b)
	})
	r.wire.Down(func(b []byte) []ipmitest.Packet {
		mu.Lock()
		defer mu.Unlock()
		if ipmitest.Refused(b) {
			r.set(func() { r.refused++ })
		}
		if b[4] == 0x06 && b[5]&0x3F == message2 && late {
			said <- b[17]
		}
		return ipmitest.As(b)
	})
	if _, err := newDriver(t, Options{}).PowerState(t.Context(), r.node("s3cret-pass", nil)); err != nil {
		t.Error(err)
	}
	select {
	case status := <-said:
		if status != notInLogin {
			t.Errorf("the BMC answers the repetition with status %#02x, want %#02x", status, notInLogin)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the BMC does not answer the repetition")
	}
	r.set(func() {
		if r.refused != 0 {
			t.Errorf("%d logins were refused", r.refused)
		}
	})
}
