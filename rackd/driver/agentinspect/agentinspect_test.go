package agentinspect

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
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
