package redfish

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

const chassisOfAdapters = "/redfish/v1/Chassis/1"

// functionAt is the place of one of the functions of adapters.
func functionAt(number int) string {
	return fmt.Sprintf("%s/NetworkAdapters/NIC.1/NetworkDeviceFunctions/%d", chassisOfAdapters, number)
}

var tenant = driver.ISCSITarget{Host: "192.0.2.10", Port: 3260, IQN: "iqn.2010-10.org.example:tenant", LUN: 2, User: "chap", Secret: "pa55w0rd1234"}

// withPorts is the node of a machine with adapters.
func withPorts(b *redfishtest.BMC, macs ...string) *node.Document {
	n := &node.Document{UUID: "u", DriverInfo: map[string]any{fieldAddress: b.URL, fieldUser: redfishtest.User, fieldPassword: redfishtest.Password, fieldVerifyCA: b.CA}}
	for _, mac := range macs {
		n.Ports = append(n.Ports, node.Port{Address: mac})
	}
	return n
}

// A node's ports may be others when its volume is taken away than when it was given: central lets a port without a VIF be deleted, and a
// new one be made, while an instance runs. No function keeps the target, and what never had one is not written.
func TestAVolumeIsTakenFromTheFunctionThatHasIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string
		writes int // of the clearing
	}{
		"another port":                {[]string{"52:54:00:00:00:01"}, 1},
		"a port where there was none": {nil, 2},
	} {
		for _, staged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, staged %t", name, staged), func(t *testing.T) {
				b, d := adapters(t, staged), newDriver(t, Options{})
				if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, withPorts(b, c.before...), tenant); err != nil {
					t.Fatal(err)
				}
				after, before := withPorts(b, "52:54:00:00:00:02"), len(b.Written())
				if list, err := d.ISCSIBoot(t.Context(), after); err != nil || len(list) != c.writes || !tenant.Same(list[0]) {
					t.Errorf("the machine attaches %+v, %v", list, err)
				}
				if err := d.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, after); err != nil {
					t.Fatal(err)
				}
				if left := held(b, staged); strings.Contains(left, tenant.Secret) || strings.Contains(left, tenant.IQN) || strings.Contains(left, "CHAPUsername:chap") {
					t.Errorf("after the clearing an adapter has %s", left)
				}
				if list, err := d.ISCSIBoot(t.Context(), after); err != nil || len(list) > 0 {
					t.Errorf("after the clearing the machine attaches %+v, %v", list, err)
				}
				if w := b.Written()[before:]; len(w) != c.writes {
					t.Errorf("the clearing writes %d times, want %d: %q", len(w), c.writes, w)
				}
			})
		}
	}
}

// In a chassis of several systems the functions that are no port's may be another machine's, and have its volume.
func TestAdaptersOfAnotherSystemKeepTheirVolume(t *testing.T) {
	t.Parallel()
	b, d := adapters(t, false), newDriver(t, Options{})
	b.Do(func() {
		b.At[chassisOfAdapters]["Links"] = map[string]any{"ComputerSystems": []any{redfishtest.Link(redfishtest.System), redfishtest.Link("/redfish/v1/Systems/other")}}
	})
	theirs := tenant
	theirs.IQN = "iqn.2010-10.org.example:theirs"
	mine := withPorts(b, "52:54:00:00:00:01")
	for mac, target := range map[string]driver.ISCSITarget{"52:54:00:00:00:01": tenant, "52:54:00:00:00:02": theirs} {
		if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, withPorts(b, mac), target); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := d.ISCSIBoot(t.Context(), mine); err != nil || len(list) != 1 || list[0].IQN != tenant.IQN {
		t.Errorf("the machine attaches %+v, %v", list, err)
	}
	if err := d.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, mine); err != nil {
		t.Fatal(err)
	}
	if left := held(b, false); strings.Contains(left, tenant.IQN) || !strings.Contains(left, theirs.IQN) {
		t.Errorf("after the clearing the adapters have %s", left)
	}
}

// A function that refuses all that would clear it does not keep the others from being cleared. If it is on that is an error. If it only
// tells of a target, which boots nothing, that is told.
func TestAFunctionThatCannotBeClearedKeepsNoOtherOne(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		b, d := adapters(t, false), newDriver(t, Options{})
		n := withPorts(b)
		if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, n, tenant); err != nil {
			t.Fatal(err)
		}
		b.Do(func() {
			if !on {
				b.At[functionAt(1)]["BootMode"] = "Disabled"
			}
			b.Write = func(w http.ResponseWriter, r *http.Request, _ map[string]any) bool {
				if strings.TrimSuffix(r.URL.Path, "/") != functionAt(1) {
					return false
				}
				redfishtest.Refuse(w, http.StatusBadRequest, "it is read-only")
				return true
			}
		})
		err := d.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, n)
		if err == nil || errors.Is(err, driver.ErrTargetKept) == on || !strings.Contains(err.Error(), functionAt(1)) || strings.Contains(err.Error(), functionAt(2)) {
			t.Errorf("on: %t: %v", on, err)
		}
		b.Do(func() {
			if left := fmt.Sprint(b.At[functionAt(2)]); strings.Contains(left, tenant.Secret) || strings.Contains(left, tenant.IQN) {
				t.Errorf("on: %t: the other function has %s", on, left)
			}
		})
	}
}

// A function that boots otherwise, and still has the target, forgets it and boots as it did.
func TestAFunctionThatIsNotOnKeepsItsBootMode(t *testing.T) {
	t.Parallel()
	b, d := adapters(t, false), newDriver(t, Options{})
	n := withPorts(b, "52:54:00:00:00:01")
	if err := d.SetISCSIBoot(t.Context(), &drivertest.Fence{}, n, tenant); err != nil {
		t.Fatal(err)
	}
	b.Do(func() { b.At[functionAt(1)]["BootMode"] = "Disabled" })
	if err := d.ClearISCSIBoot(t.Context(), &drivertest.Fence{}, n); err != nil {
		t.Fatal(err)
	}
	b.Do(func() {
		if mode := b.At[functionAt(1)]["BootMode"]; mode != "Disabled" {
			t.Errorf("its boot mode is %v", mode)
		}
	})
	if left := held(b, false); strings.Contains(left, tenant.Secret) || strings.Contains(left, tenant.IQN) {
		t.Errorf("after the clearing the adapters have %s", left)
	}
}
