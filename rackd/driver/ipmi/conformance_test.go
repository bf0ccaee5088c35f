package ipmi

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/ipmi/ipmitest"
)

// The driver keeps the contract on the BMC of go-ipmi, in each version and with each cipher suite that it has.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]map[string]any{
		"2.0":          nil,
		"intel":        nil,
		"cipher suite": {fieldSuite: "3"},
		"1.5":          {fieldVersion: "1.5"},
		"force":        {fieldForce: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Conformance(t, func(t *testing.T) *drivertest.Machine {
				m := machineOf(t, fields)
				switch {
				case name == "1.5":
					m.Spoil, m.Asked, m.Without["Spoil"] = nil, nil, "this BMC has one session of 1.5 for a user: one whose answer is lost bars the user for a minute. ops/virtual/ipmisim has that"
				case name != "2.0" && os.Getenv("IRONYARD_HARDWARE") == "": // a minute each
					m.Spoil, m.Asked, m.Without["Spoil"] = nil, nil, "2.0 has that; for the others set IRONYARD_HARDWARE=1"
				}
				if name == "force" {
					m.Forget, m.Without["Forget"] = nil, "with ipmi_force_boot_device rackd tells the BMC before each start, and answers from what it keeps: TestForcedBootDevice"
				}
				if name == "intel" {
					m.Management = Intel{Driver: m.Power.(*Driver)}
				}
				return m
			})
		})
	}
}

func machineOf(t *testing.T, fields map[string]any) *drivertest.Machine {
	r := newRig(t, "s3cret-pass")
	d := newDriver(t, Options{Log: drivertest.Logger(t)})
	var lose, losing, hang atomic.Bool
	var whileRead atomic.Pointer[func()]
	r.set(func() {
		r.after = func(q request) {
			if q.Order() && lose.CompareAndSwap(true, false) {
				losing.Store(true)
			}
			if do := whileRead.Load(); q.Question() && do != nil && whileRead.CompareAndSwap(do, nil) {
				(*do)()
			}
		}
	})
	spoiler := &drivertest.Datagrams{Spoiler: drivertest.Spoiler{Restart: func() { r.wire.To(r.start("s3cret-pass")) }}}
	t.Cleanup(spoiler.Wait)
	carry := func(up bool) func([]byte) []ipmitest.Packet {
		return func(b []byte) []ipmitest.Packet {
			if ipmitest.Refused(b) {
				r.set(func() { r.refused++ })
			}
			if hang.Load() || !up && losing.CompareAndSwap(true, false) {
				return nil
			}
			if up && !spoiler.Up() {
				return nil
			}
			if up {
				return ipmitest.As(b)
			}
			packets, late := spoiler.Down(b)
			return ipmitest.After(late, packets...)
		}
	}
	r.wire.Up(carry(true))
	r.wire.Down(carry(false))
	return &drivertest.Machine{
		Power: d, Management: d, Node: r.node("s3cret-pass", fields), Secret: "s3cret-pass", Port: func() string { return strconv.Itoa(r.wire.Port()) }, Without: map[string]string{"Second": "a BMC of IPMI has one machine that is not bridged to", "Sessions": "the double does not tell of them: TestALoginThatIsGivenUpLeavesNoSession looks"},
		Writes:    r.orders,
		Lose:      func() { lose.Store(true) },
		Silence:   r.wire.Cut,
		Spoil:     spoiler.Spoil,
		Asked:     spoiler.Asked,
		Restart:   spoiler.Restart,
		Hang:      func() { hang.Store(true) },
		WhileRead: func(do func()) { whileRead.Store(&do) },
		Deny:      func() { r.wire.To(r.start("an0ther-pass")) },
		Logins:    func() (n int) { r.set(func() { n = r.refused }); return n },
		Forget:    func() { r.chassis.set(func() { r.chassis.flags = types.BootOptionParam_BootFlags{} }) },
		Corrected: func() *node.Document { return r.node("an0ther-pass", fields) },
	}
}
