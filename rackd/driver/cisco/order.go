package cisco

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// BootClass is a class of boot devices, and the device that it is. Access, if not empty, tells classes of one name apart.
type BootClass struct {
	Device        driver.BootDevice
	Class, Access string
}

// First returns the device that is first in a boot policy, empty for one that is not among classes.
func First(policy Object, classes []BootClass) driver.BootDevice {
	list := policy.Ordered()
	if len(list) == 0 {
		return ""
	}
	for _, c := range classes {
		if c.is(list[0]) {
			return c.Device
		}
	}
	return ""
}

func (c BootClass) is(o Object) bool {
	return o.Class() == c.Class && (c.Access == "" || o.Get("access") == c.Access)
}

// Reorder returns the policy's boot devices with those of a device first, numbered from 1. found: there is one.
func Reorder(policy Object, classes []BootClass, device driver.BootDevice) (list []Object, found bool) {
	wanted := func(o Object) bool {
		return slices.ContainsFunc(classes, func(c BootClass) bool { return c.Device == device && c.is(o) })
	}
	for _, o := range policy.Ordered() {
		if o.Get("order") == "" {
			continue // no device, but a setting such as boot security
		}
		list = append(list, o)
	}
	slices.SortStableFunc(list, func(a, b Object) int {
		switch is, too := wanted(a), wanted(b); {
		case is == too:
			return 0
		case is:
			return -1
		}
		return 1
	})
	found = len(list) > 0 && wanted(list[0])
	return Numbered(list), found
}

// Numbered numbers boot devices from 1.
func Numbered(list []Object) []Object {
	list = slices.Clone(list)
	for i := range list {
		list[i] = list[i].Set("order", strconv.Itoa(i+1))
	}
	return list
}

// Powered is the power state of a server, from its operPower.
func Powered(server Object) driver.PowerState {
	switch server.Get("operPower") {
	case "on":
		return driver.PowerOn
	case "off":
		return driver.PowerOff
	}
	return driver.PowerError
}

// Switch gives one power order, if the server is not there. word is the API's for each target; give writes it.
func Switch(ctx context.Context, is driver.PowerState, target driver.PowerState, words map[driver.PowerState]string, give func(ctx context.Context, word string) error) error {
	if is == driver.PowerOff && (target == driver.Rebooting || target == driver.SoftReboot) {
		target = driver.PowerOn
	}
	if is == target || is == driver.PowerOff && target == driver.SoftPowerOff {
		return nil
	}
	return give(ctx, words[target])
}

// Kept checks that a boot device that was written is there.
func Kept(policy Object, classes []BootClass, device driver.BootDevice) error {
	if is := First(policy, classes); is != device {
		return &bmc.Failure{Said: fmt.Sprintf("that all is well, and has %q as its first boot device still", is)}
	}
	return nil
}
