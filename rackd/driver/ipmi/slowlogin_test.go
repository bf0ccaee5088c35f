package ipmi

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// A BMC that takes longer to answer the messages of a login than the first try waits has refused no password. It makes a new
// number of each repetition, and the proof that was made of the one before does not fit.
func TestALoginOfASlowBMC(t *testing.T) {
	t.Parallel()
	r := newRig(t, "s3cret-pass")
	r.wire.Up(func(b []byte) []ipmitest.Packet {
		if len(b) > 5 && b[4] == 0x06 && b[5] >= 0x10 && b[5] <= 0x14 {
			return []ipmitest.Packet{{Data: b, After: 500 * time.Millisecond}} // the first try waits for 400 ms
		}
		return ipmitest.As(b)
	})
	d, n := newDriver(t, Options{Timeout: 4 * time.Second}), r.node("s3cret-pass", nil)
	if _, err := d.PowerState(t.Context(), n); err != nil {
		t.Error(err)
	}
	if _, err := newDriver(t, Options{Timeout: 4 * time.Second}).PowerState(t.Context(), r.node("wrong", nil)); err == nil {
		t.Error("a wrong password is taken")
	}
}
