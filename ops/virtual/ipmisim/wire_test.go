package ipmisim

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// A login whose datagrams are lost once, or come later than the first try waits, succeeds with a BMC that counts what it has
// answered. Nothing of it is a refusal of the password, which would leave the BMC alone for minutes.
func TestLoginOnABadWire(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]byte{"open session": 0x11, "RAKP 2": 0x13, "RAKP 4": 0x15, "all": 0} {
		ways := []string{"lost", "late"}
		if payload == 0 {
			ways = []string{"slow"}
		}
		for _, way := range ways {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				at := start(t, &computer{}, "s3cret-pass")
				w := ipmitest.NewWire(t, at.String())
				var seen atomic.Int32
				w.Down(func(b []byte) []ipmitest.Packet {
					switch {
					case way == "slow" || len(b) < 6 || b[4] != 0x06 || b[5] != payload || seen.Add(1) > 1:
						return ipmitest.As(b)
					case way == "lost":
						return nil
					}
					return []ipmitest.Packet{{Data: b, After: 600 * time.Millisecond}} // the first try waits for 400 ms
				})
				w.Up(func(b []byte) []ipmitest.Packet {
					if way == "slow" && len(b) > 5 && b[4] == 0x06 && b[5] >= 0x10 && b[5] <= 0x14 {
						return []ipmitest.Packet{{Data: b, After: 600 * time.Millisecond}}
					}
					return ipmitest.As(b)
				})
				d, n := newDriverWith(t, 4*time.Second), nodeAt(uint16(w.Port()), "s3cret-pass", nil)
				_, err := d.PowerState(t.Context(), n)
				if err != nil {
					t.Errorf("%v; denied: %t, unreachable: %t", err, errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrUnreachable))
				}
			})
		}
	}
}
