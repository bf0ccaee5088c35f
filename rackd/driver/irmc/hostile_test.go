package irmc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
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

// A session that does not end fails the step. The iRMC may be writing to the BIOS still: whatever the cleaning ends in, the machine is to
// keep its power.
func TestASessionWithoutAnEndKeepsThePower(t *testing.T) {
	d := withStore(t)
	i, r := newInterface(t, lan{d}), rigOf(d)
	steps := i.NamedSteps(r.Node)
	step := steps[slices.IndexFunc(steps, func(s driver.Step) bool { return s.Name == backupBIOS })]
	r.NextStep()
	task := r.Task(networkboot.IPXE())
	for range 2 { // the order, and a look at its session
		if out, err := step.Run(t.Context(), task); err != nil || out == driver.Done() {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	var h session
	if err := json.Unmarshal([]byte(r.HandleText()), &h); err != nil || h.ID == "" {
		t.Fatalf("handle %s, %v", r.HandleText(), err)
	}
	h.Since = h.Since.Add(-sessionLasts)
	if err := task.Record.SaveHandle(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if _, err := step.Run(t.Context(), task); err == nil || !strings.Contains(err.Error(), "session 1 has been running for 30m0s") || len(r.Busy) == 0 {
		t.Errorf("%v; the iRMC is at work: %q", err, r.Busy)
	}
}
