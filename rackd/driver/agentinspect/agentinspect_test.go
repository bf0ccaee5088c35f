package agentinspect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

var _ driver.Inspect = Interface{}

func TestInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drivertest.NewRig()
		r.Answer = func(string) (any, string) { return agentapi.Inventory{CPU: agentapi.CPU{Count: 4}}, "" }
		for _, s := range New(bringup.Settings{}).InspectSteps(r.Node) {
			if out, err := s.Run(t.Context(), r.Task(networkboot.IPXE())); err != nil || out != driver.Done() {
				t.Fatalf("%s: %+v, %v", s.Name, out, err)
			}
			r.NextStep()
		}
		if r.Inv == nil || r.Inv.CPU.Count != 4 {
			t.Errorf("inventory %+v", r.Inv)
		}
		if got := r.Writes("power"); got[len(got)-1] != "power power off" {
			t.Errorf("power writes %q: the machine stays on", got)
		}
	})
}

// An inspection boots the ramdisk. Where the node's boot interface cannot, validate says so, in its words.
func TestInspectionNeedsABoot(t *testing.T) {
	for name, c := range map[string]struct {
		boot   driver.Boot
		change func(n *node.Document)
		want   string
	}{
		"all is well":            {networkboot.IPXE(), func(*node.Document) {}, ""},
		"no port":                {networkboot.IPXE(), func(n *node.Document) { n.Ports = nil }, "none of them with pxe_enabled"},
		"BIOS, by HTTP":          {networkboot.HTTPIPXE(), func(n *node.Document) { n.Properties = map[string]any{"capabilities": "boot_mode:bios"} }, "only UEFI firmware boots by HTTP"},
		"no medium can be made":  {mediaboot.VirtualMedia(nil), func(*node.Document) {}, "this rackd serves no media"},
		"no virtual drive":       {mediaboot.VirtualMedia(nil), func(n *node.Document) { n.DriverInfo = map[string]any{"deploy_iso": "http://192.0.2.1/i.iso"} }, "has no virtual media"},
		"nothing boots machines": {nil, func(*node.Document) {}, "has no boot interface"},
	} {
		r := drivertest.NewRig()
		c.change(r.Node)
		kinds := map[string][]driver.Named{"inspect": {{Name: "agent", Impl: New(bringup.Settings{})}}}
		for kind, impl := range r.Task(networkboot.IPXE()).Hardware.Kinds() {
			if kind == "power" || kind == "management" || kind == "deploy" {
				kinds[kind] = []driver.Named{impl}
			}
		}
		if c.boot != nil {
			kinds["boot"] = []driver.Named{{Name: "boot", Impl: c.boot}}
		}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: kinds})
		if err != nil {
			t.Fatal(err)
		}
		r.Node.Driver, r.Node.Interfaces = "t", nil
		hw, err := reg.Resolve(r.Node)
		if err != nil {
			t.Fatal(err)
		}
		err = hw.Validate("inspect", r.Node)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestInventoriesThatAreNone(t *testing.T) {
	for raw, want := range map[string]string{
		`{"inventory":{"cpu":{"count":2}}}`:    "",
		`{"cpu":{"count":2},"inventory":null}`: "",
		`{}`:                                   "neither",
		`[]`:                                   "read",
		`{"cpu":"many"}`:                       "neither",
		`"` + strings.Repeat("x", maxInventory) + `"`: "bytes",
	} {
		_, err := parse(json.RawMessage(raw))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", raw, err, want)
		}
	}
}

// What a machine says of its inventory's own keys is its inventory, and no more.
func TestInventoriesSayNothingOfThemselves(t *testing.T) {
	const raw = `{"cpu":{"count":2},"usb":[1],"sent":{"cpu":{"count":9}},"plugin_data":{"a":1}}`
	inv, err := parse(json.RawMessage(`{"inventory":` + raw + `}`))
	if err != nil || inv.CPU.Count != 2 || string(inv.Sent) != raw || inv.PluginData != nil {
		t.Errorf("%d CPUs, sent %s, beside it %s, %v", inv.CPU.Count, inv.Sent, inv.PluginData, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"inventory":{"cpu":{"count":2}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if inv, err := parse(raw); err == nil && inv.CPU.Count == 0 && len(inv.Disks)+len(inv.Interfaces) == 0 {
			t.Error("an empty inventory was accepted")
		}
	})
}
