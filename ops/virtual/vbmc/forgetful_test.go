package vbmc

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootguard"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
	redfishdriver "github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// history keeps the lines of a node's history.
type history struct {
	lines []string
	// asked is the device that a request has set for one start, and start when another has started the machine.
	asked string
	start time.Time
}

func (*history) Fence(*node.Document) driver.Fence { return open{} }

func (h *history) StartAfter(string) time.Time { return h.start }
func (h *history) BootAsked(string) (at time.Time, device string, lasts bool) {
	return at, h.asked, false
}
func (*history) OursSince(string) time.Time { return time.Time{} }

func (h *history) TellLog(_ context.Context, _ *node.Document, _ *hardware.Observation, lines []work.Line) error {
	for _, l := range lines {
		h.lines = append(h.lines, l.Phase+": "+l.Detail)
	}
	return nil
}

// A BMC that loses its boot device, as one does whose settings are reset, is told again by the guard of boot orders, and the history
// names it. One that keeps it is only read. So it is with an instance's device, and with one that a request has set on a node without.
func TestGuardOfAForgetfulBMC(t *testing.T) {
	for _, state := range []provision.State{provision.Active, provision.Available, provision.Manageable} {
		t.Run(string(state), func(t *testing.T) { guardForgetful(t, state) })
	}
}

func guardForgetful(t *testing.T, state provision.State) {
	b, computer, address := serveEquipped(t)
	d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	n := &node.Document{UUID: "b3d1", Name: "web1", Driver: "redfish", State: state, BootSet: "disk", DriverInfo: map[string]any{
		"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
	hw := hardwareOf(t, n, d)
	var told history
	guard := bootguard.Task(time.Hour, &told)
	if !guard.Wants(n, hw) {
		t.Fatal("the guard leaves the node alone")
	}
	if err := d.SetBootDevice(t.Context(), open{}, n, driver.BootDisk, true); err != nil {
		t.Fatal(err)
	}
	look := func(writes, lines int) {
		t.Helper()
		before := len(b.Journal.Matching("Systems/1"))
		if err := guard.Do(t.Context(), n, hw); err != nil {
			t.Fatal(err)
		}
		if device, once := computer.BootOverride(); device != Disk || once {
			t.Errorf("afterwards the machine boots from %q, once: %t", device, once)
		}
		if wrote := len(b.Journal.Matching("Systems/1")) - before; wrote != writes || len(told.lines) != lines {
			t.Errorf("%d writes, want %d; history %q, want %d lines", wrote, writes, told.lines, lines)
		}
	}
	look(0, 0)
	for _, is := range []string{"", Network} {
		if err := computer.SetBootOverride(is, false); err != nil {
			t.Fatal(err)
		}
		look(1, 1) // the second time is within an hour of the first
		look(0, 1)
	}
	if line := fmt.Sprint(told.lines); !strings.Contains(line, "boot order: the BMC has forgotten disk and shows no boot device; disk was set again") {
		t.Errorf("the history tells %s", line)
	}
}

// A machine's firmware does not use up a boot device for one start. The guard takes it back by Redfish, or sets the one for all starts in
// its place. Before a start it stays.
func TestGuardOfADeviceThatIsNotUsedUp(t *testing.T) {
	for _, set := range []string{"", "disk"} {
		b, computer, address := serveEquipped(t)
		d := redfishdriver.New(redfishdriver.Options{Networks: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}})
		t.Cleanup(func() {
			if err := d.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		n := &node.Document{UUID: "b3d1", Name: "web1", Driver: "redfish", State: provision.Available, BootSet: set, DriverInfo: map[string]any{
			"redfish_address": "https://" + address, "redfish_username": "admin", "redfish_password": "secret-word", "redfish_verify_ca": false}}
		hw, told := hardwareOf(t, n, d), history{asked: "pxe"}
		guard := bootguard.Task(time.Hour, &told)
		if err := d.SetBootDevice(t.Context(), open{}, n, driver.BootPXE, false); err != nil {
			t.Fatal(err)
		}
		for _, look := range []struct {
			start  time.Time
			device string
			writes int
			says   string
		}{
			{time.Time{}, Network, 0, ""},
			{time.Now().Add(-time.Hour), map[string]string{"": "", "disk": Disk}[set], 1, "the BMC shows pxe for one start, and the machine has started since"},
		} {
			before := len(b.Journal.Matching("Systems/1"))
			told.start, told.lines = look.start, nil
			if err := guard.Do(t.Context(), n, hw); err != nil {
				t.Fatal(err)
			}
			wrote := len(b.Journal.Matching("Systems/1")) - before
			device, once := computer.BootOverride()
			if text := strings.Join(told.lines, "\n"); device != look.device || once != (device == Network) || wrote != look.writes || !strings.Contains(text, look.says) || look.says == "" && text != "" {
				t.Errorf("for all starts %q, start %s: boots from %q, once: %t, %d writes; the history tells %q", set, look.start, device, once, wrote, text)
			}
		}
	}
}

// hardwareOf is what serves n, as a rackd would choose it.
func hardwareOf(t *testing.T, n *node.Document, d *redfishdriver.Driver) *driver.Hardware {
	t.Helper()
	m := redfishdriver.Management{Driver: d}
	registry, err := driver.NewRegistry(driver.Type{Name: "redfish", Interfaces: map[string][]driver.Named{"power": {{Name: "redfish", Impl: d}},
		"management": {{Name: "redfish", Impl: m}}, "boot": {{Name: "ipxe", Impl: networkboot.IPXE()}}, "deploy": {{Name: "noop", Impl: none.Deploy{}}}}})
	if err != nil {
		t.Fatal(err)
	}
	hw, err := registry.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	return hw
}
