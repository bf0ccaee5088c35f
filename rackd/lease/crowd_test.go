package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A stolen rackd of another group says under its own key that it has tens of thousands of hardware types, and is another rackd each time. No
// rackd builds rings of that: each would hold up its lease, and so all work of the site.
func TestThiefWithManyHardwareTypes(t *testing.T) {
	s, _ := openSite(t)
	b, changes, stop := holder(t, s, "b")
	until(t, changes, "b is there", func() bool { return b.Check() == nil && b.Owner("n", "redfish", "rack-b") == "b" })
	m := bus.Member{Name: "thief", Group: "rack-a", Drivers: map[string]map[string][]string{}}
	for i := range 80_000 {
		m.Drivers[fmt.Sprintf("%05x", i)] = nil
	}
	begun, longest := time.Now(), time.Duration(0)
	for range 10 {
		m.Instance, m.Lease = uuid.NewString(), uuid.NewString()
		thief(t, s, m)
	}
	for time.Since(begun) < 8*time.Second {
		began := time.Now()
		err := b.Confirm()
		longest = max(longest, time.Since(began))
		if err != nil {
			t.Errorf("after %v: %v", time.Since(begun), err)
			break
		}
	}
	t.Logf("a confirmation took %v at most", longest)
	if longest > time.Second {
		t.Errorf("a confirmation took %v", longest)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
