package irmc

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/redfish/redfishtest"
)

// An order whose answer cannot be read may have been carried out. It is looked at again, and not given twice.
func TestHalfAnAnswerToAnOrder(t *testing.T) {
	d := newDouble(t)
	i := newInterface(t, lan{d})
	n, f := &node.Document{UUID: "u", Name: "web1", DriverInfo: d.info(redfishtest.Password)}, &drivertest.Fence{}
	d.do(func() { d.half = true })
	if err := i.SetPower(t.Context(), f, n, driver.PowerOn); !errors.Is(err, driver.ErrUnknown) {
		t.Errorf("%v, want an ErrUnknown", err)
	}
	if err := driver.Settle(func() error { return i.SetPower(t.Context(), f, n, driver.PowerOn) }); err != nil || !d.on || len(d.orders) != 1 {
		t.Errorf("looked at again: %v, orders %v", err, d.orders)
	}
}
