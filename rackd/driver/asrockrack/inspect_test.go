package asrockrack

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
)

// What the recorded board is made of. What it does not tell is named, and what an operator has set stays.
func TestInspect(t *testing.T) {
	n := newBench(t)
	inspect := func() (map[string]any, map[string]any) {
		t.Helper()
		task := n.Task(nil)
		n.Phases = nil
		out, err := (Inspection{n.f.Driver}).InspectSteps(n.Node)[0].Run(t.Context(), task)
		if _, waits := out.Waiting(); err != nil || waits {
			t.Fatal(err)
		}
		var found, plugin map[string]any
		if err := errors.Join(json.Unmarshal(n.Inv.Sent, &found), json.Unmarshal(n.Inv.PluginData, &plugin)); err != nil {
			t.Fatal(err)
		}
		return found, plugin
	}
	n.Node.Properties = map[string]any{"local_gb": json.Number("440")}
	found, plugin := inspect()
	want := map[string]any{
		"system_vendor": map[string]any{"manufacturer": "ASRockRack", "product_name": "E3C246D4I-NL", "serial_number": "197965920000514"},
		"memory":        map[string]any{"physical_mb": 32768.0},
		"cpu":           map[string]any{"model_name": "Intel(R) Xeon(R) E-2278G CPU @ 3.40GHz", "architecture": "x86_64"},
		"interfaces":    []any{},
		"disks": []any{map[string]any{"vendor": "intel", "model": "INTEL SSDSC2KB480G8", "serial": "PHYF001303ED480BGN"},
			map[string]any{"vendor": "intel", "model": "INTEL SSDSC2KB480G8", "serial": "BTYF01940L38480BGN"}},
	}
	if !reflect.DeepEqual(found, want) || plugin["local_gb"] != 440.0 {
		t.Errorf("found %v and %v, want %v and 440 GB", found, plugin, want)
	}
	if text := strings.Join(n.Phases, "\n"); strings.Count(text, "inventory incomplete") != 2 || !strings.Contains(text, "MAC address of no NIC") {
		t.Errorf("the history tells %s", text)
	}
	said := n.b.said["inventoryinfoResponse"]
	n.b.Set(func() {
		n.b.answers["/api/asrr/inventory_info"] = func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(strings.Replace(string(said), `2666 MT\/s  16GB`, `N\/A`, 1)))
		}
	})
	delete(n.Node.Properties, "local_gb")
	found, plugin = inspect()
	if found["memory"] != nil || plugin["local_gb"] != 0.0 || !strings.Contains(strings.Join(n.Phases, "\n"), "of 2 memory modules it tells the size of 1") {
		t.Errorf("half of the memory: %v and %v, %s", found, plugin, n.Phases)
	}
	n.b.Set(func() {
		n.b.answers["/api/asrr/inventory_info"] = func(w http.ResponseWriter) { http.Error(w, "later", http.StatusServiceUnavailable) }
	})
	if _, err := (Inspection{n.f.Driver}).inspect(t.Context(), n.Task(nil)); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("a busy BMC: %v", err)
	}
}
