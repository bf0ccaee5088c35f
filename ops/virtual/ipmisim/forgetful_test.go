package ipmisim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootguard"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
)

// history keeps the lines of a node's history.
type history []string

func (*history) Fence(*node.Document) driver.Fence { return &drivertest.Fence{} }
func (*history) BootAsked(string) (at time.Time, device string, lasts bool) {
	return time.Now(), "disk", true
}
func (*history) OursSince(string) time.Time       { return time.Time{} }
func (*history) StartAfter(string) (at time.Time) { return }
func (h *history) TellLog(_ context.Context, _ *node.Document, _ *hardware.Observation, lines []work.Line) error {
	for _, l := range lines {
		*h = append(*h, l.Phase+": "+l.Detail)
	}
	return nil
}

// Another manager, ipmitool, takes the boot device away that a request has set on a node without an instance. The guard of boot orders sets
// it again, and the history names the BMC. The simulator never shows its flags as in force, as some BMCs do, so the guard sets it at each
// look.
func TestGuardOfABMCThatForgets(t *testing.T) {
	t.Parallel()
	c := &computer{}
	at := start(t, c, "s3cret-pass")
	d, n := newDriver(t), nodeAt(at.Port(), "s3cret-pass", nil)
	n.Driver, n.State, n.BootSet = "ipmi", provision.Available, "disk"
	registry, err := driver.NewRegistry(driver.Type{Name: "ipmi", Interfaces: map[string][]driver.Named{"power": {{Name: "ipmitool", Impl: d}},
		"management": {{Name: "ipmitool", Impl: d}}, "boot": {{Name: "ipxe", Impl: networkboot.IPXE()}}, "deploy": {{Name: "noop", Impl: none.Deploy{}}}}})
	if err != nil {
		t.Fatal(err)
	}
	hw, err := registry.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	var told history
	guard := bootguard.Task(time.Hour, &told)
	if !guard.Wants(n, hw) {
		t.Fatal("the guard leaves the node alone")
	}
	for round := range 2 {
		if err := d.SetBootDevice(t.Context(), &drivertest.Fence{}, n, driver.BootDisk, true); err != nil {
			t.Fatal(err)
		}
		run(t, "ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", strconv.Itoa(int(at.Port())), "-U", "admin", "-P", "s3cret-pass", "chassis", "bootdev", "none")
		if device, _ := c.BootOverride(); device != "" {
			t.Fatalf("ipmitool has left the boot device %q", device)
		}
		if err := guard.Do(t.Context(), n, hw); err != nil {
			t.Fatal(err)
		}
		if device, _ := c.BootOverride(); device != "disk" {
			t.Errorf("round %d: the machine boots from %q", round, device)
		}
	}
	if len(told) != 1 || !strings.Contains(fmt.Sprint(told), "boot order: the BMC has forgotten disk and shows no boot device; disk was set again") {
		t.Errorf("the history tells %q", told)
	}
}
