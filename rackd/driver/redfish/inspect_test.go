package redfish

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// newServer is the resources of a machine with two processors, two network cards, one of which
// has no address yet, drives behind a controller, and a simple controller.
func newServer() *tree {
	k := newTree()
	link := func(p string) map[string]any { return map[string]any{"@odata.id": p} }
	list := func(paths ...string) map[string]any {
		var all []any
		for _, p := range paths {
			all = append(all, link(p))
		}
		return map[string]any{"Members": all, "Members@odata.count": len(all)}
	}
	maps.Copy(k.at[systemAt], map[string]any{"Model": "M1", "SerialNumber": "S1", "Manufacturer": "Maker", "UUID": "uu-id",
		"MemorySummary": map[string]any{"TotalSystemMemoryGiB": 1.5}, "EthernetInterfaces": link(systemAt + "/EthernetInterfaces"),
		"Processors": link(systemAt + "/Processors"), "Storage": link(storageAt), "SimpleStorage": link(systemAt + "/SimpleStorage")})
	maps.Copy(k.at, map[string]map[string]any{
		systemAt + "/Processors":   list(systemAt+"/Processors/1", systemAt+"/Processors/2"),
		systemAt + "/Processors/1": {"Model": "Fast", "InstructionSet": "x86-64", "MaxSpeedMHz": 3700, "TotalThreads": 16},
		systemAt + "/Processors/2": {"Model": "Slow", "InstructionSet": "ARM-A64", "MaxSpeedMHz": 1000, "TotalThreads": 8},

		systemAt + "/EthernetInterfaces":   list(systemAt+"/EthernetInterfaces/1", systemAt+"/EthernetInterfaces/2", systemAt+"/EthernetInterfaces/3"),
		systemAt + "/EthernetInterfaces/1": {"Id": "1", "MACAddress": "52:54:00:AA:BB:01", "SpeedMbps": 25000},
		systemAt + "/EthernetInterfaces/2": {"Id": "2", "MACAddress": "", "SpeedMbps": nil},
		systemAt + "/EthernetInterfaces/3": {"Id": "3", "MACAddress": "52:54:00:aa:bb:03", "SpeedMbps": nil},

		storageAt:                     list(storageAt + "/A"),
		storageAt + "/A":              {"Drives": []any{link(storageAt + "/A/D1"), link(storageAt + "/A/D2")}, "Volumes": link(volumesAt)},
		storageAt + "/A/D1":           {"Name": "bay 1", "CapacityBytes": int64(2) << 30, "MediaType": "SSD"},
		storageAt + "/A/D2":           {"Name": "bay 2", "CapacityBytes": int64(200) << 30, "MediaType": "HDD", "Manufacturer": "Disks", "Model": "D9", "SerialNumber": "X"},
		volumesAt:                     list(),
		systemAt + "/SimpleStorage":   list(systemAt + "/SimpleStorage/1"),
		systemAt + "/SimpleStorage/1": {"Devices": []any{map[string]any{"Name": "stick", "CapacityBytes": int64(300) << 30}}},
	})
	return k
}

func inspectionOf(t *testing.T, k *tree) (inventory, plugin map[string]any, err error) {
	t.Helper()
	e := newEmulator(t)
	e.hook = k.serve
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = e.node(nil).DriverInfo
	i := Inspection{Driver: newDriver(t, Options{})}
	if err := runStep(t, rig, stepNamed(t, i.InspectSteps(rig.Node), "inspect_hardware"), nil); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(json.Unmarshal(rig.Inv.Sent, &inventory), json.Unmarshal(rig.Inv.PluginData, &plugin)); err != nil {
		t.Fatal(err)
	}
	if len(k.writes) > 0 || len(e.written()) > 0 {
		t.Errorf("the BMC was told %v %v by an inspection", k.writes, e.written())
	}
	return inventory, plugin, nil
}

func TestInspection(t *testing.T) {
	k := newServer()
	got, plugin, err := inspectionOf(t, k)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"memory": map[string]any{"physical_mb": 1536.0},
		"cpu":    map[string]any{"count": 24.0, "architecture": "x86_64", "model_name": "Fast", "frequency": 3700.0},
		"interfaces": []any{map[string]any{"name": "1", "mac_address": "52:54:00:aa:bb:01", "speed_mbps": 25000.0},
			map[string]any{"name": "3", "mac_address": "52:54:00:aa:bb:03"}},
		"disks": []any{map[string]any{"name": "bay 1", "size": float64(2 << 30), "vendor": "", "model": "", "serial": "", "rotational": false},
			map[string]any{"name": "bay 2", "size": float64(200 << 30), "vendor": "Disks", "model": "D9", "serial": "X", "rotational": true}},
		"system_vendor": map[string]any{"product_name": "M1", "serial_number": "S1", "manufacturer": "Maker", "system_uuid": "uu-id"},
		"boot":          map[string]any{"current_boot_mode": "uefi"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("inventory\n%v\nwant\n%v", got, want)
	}
	if plugin["local_gb"] != 199.0 {
		t.Errorf("size of the disk %v, want that of the smallest drive of 4 GiB or more, less one", plugin["local_gb"])
	}

	// Volumes are what an image is written to, whatever they are made of.
	k = newServer()
	k.at[volumesAt] = map[string]any{"Members": []any{map[string]any{"@odata.id": volumesAt + "/1"}}}
	k.at[volumesAt+"/1"] = map[string]any{"CapacityBytes": int64(50) << 30}
	if _, plugin, err = inspectionOf(t, k); err != nil || plugin["local_gb"] != 49.0 {
		t.Errorf("size of the volume %v, error %v", plugin["local_gb"], err)
	}
}

// A BMC that tells little is not an error here; one that fails is.
func TestInspectionOfLittle(t *testing.T) {
	t.Parallel()
	got, plugin, err := inspectionOf(t, newTree())
	want := map[string]any{"cpu": map[string]any{"count": 0.0, "architecture": ""}, "interfaces": []any{}, "boot": map[string]any{"current_boot_mode": "uefi"}}
	if err != nil || !reflect.DeepEqual(got, want) || plugin["local_gb"] != 0.0 {
		t.Errorf("inventory %v, plugin %v, error %v, want %v", got, plugin, err, want)
	}
	k := newServer()
	e := newEmulator(t)
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == storageAt+"/A/D2" {
			refuse(w, http.StatusInternalServerError, "no idea")
			return true
		}
		return k.serve(w, r)
	}
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = e.node(nil).DriverInfo
	i := Inspection{Driver: newDriver(t, Options{})}
	err = runStep(t, rig, stepNamed(t, i.InspectSteps(rig.Node), "inspect_hardware"), nil)
	if err == nil || rig.Inv != nil {
		t.Errorf("a drive that cannot be read: error %v, inventory %v", err, rig.Inv)
	}
	var _ driver.Inspect = i
}

// A link that leads nowhere costs what it leads to, and a line of the history.
func TestInspectionWithADanglingLink(t *testing.T) {
	k := newServer()
	delete(k.at, storageAt+"/A/D1")
	e := newEmulator(t)
	e.hook = k.serve
	rig := drivertest.NewRig()
	rig.Node.DriverInfo = e.node(nil).DriverInfo
	i := Inspection{Driver: newDriver(t, Options{})}
	if err := runStep(t, rig, stepNamed(t, i.InspectSteps(rig.Node), "inspect_hardware"), nil); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(rig.Phases, "\n"); !strings.Contains(said, "2 NICs, 1 disks") || !strings.Contains(said, "the BMC links to "+storageAt+"/A/D1, and has no such resource") {
		t.Errorf("history %q", rig.Phases)
	}
}

// NICs that the system does not list are those of the network adapters in its chassis. What lies in another machine's is not.
func TestInspectionOfNetworkAdapters(t *testing.T) {
	const c = "/redfish/v1/Chassis/"
	k := newServer()
	delete(k.at[systemAt], "EthernetInterfaces")
	k.at[systemAt]["Links"] = map[string]any{"Chassis": []any{link(c + "Board")}}
	of := func(system string) map[string]any { return map[string]any{"ComputerSystems": []any{link(system)}} }
	within := func(links map[string]any, key string, value any) map[string]any { links[key] = value; return links }
	maps.Copy(k.at, map[string]map[string]any{
		c + "Board":                 {"Links": within(of(systemAt), "ContainedBy", link(c+"Tray"))},
		c + "Tray":                  {"Links": within(of(systemAt), "Contains", []any{link(c + "Board"), link(c + "IO"), link(c + "Other"), link(c + "gone")})},
		c + "IO":                    {"NetworkAdapters": link(c + "IO/NetworkAdapters"), "Links": of(systemAt + "/")},
		c + "Other":                 {"NetworkAdapters": link(c + "Other/NetworkAdapters"), "Links": of("/redfish/v1/Systems/2")},
		c + "IO/NetworkAdapters":    links(c+"IO/N1", c+"IO/N2"),
		c + "IO/N1":                 {"Id": "N1", "NetworkDeviceFunctions": link(c + "IO/N1/F")},
		c + "IO/N1/F":               links(c+"IO/N1/F/1", c+"IO/N1/F/2"),
		c + "IO/N1/F/1":             {"Id": "1", "Ethernet": map[string]any{"MACAddress": "02:00:00:00:00:01", "PermanentMACAddress": "52:54:00:AA:BB:01"}},
		c + "IO/N1/F/2":             {"Id": "2", "Ethernet": nil},
		c + "IO/N2":                 {"Id": "N2", "Ports": link(c + "IO/N2/P")},
		c + "IO/N2/P":               links(c + "IO/N2/P/1"),
		c + "IO/N2/P/1":             {"Id": "1", "CurrentSpeedGbps": 400, "Ethernet": map[string]any{"AssociatedMACAddresses": []any{"52:54:00:aa:bb:02"}}},
		c + "Other/NetworkAdapters": links(c + "IO/N1"),
	})
	got, _, err := inspectionOf(t, k)
	want := []any{map[string]any{"name": "N1/1", "mac_address": "52:54:00:aa:bb:01"}, map[string]any{"name": "N2/1", "mac_address": "52:54:00:aa:bb:02", "speed_mbps": 400000.0}}
	if err != nil || !reflect.DeepEqual(got["interfaces"], want) {
		t.Errorf("interfaces %v, %v, want %v", got["interfaces"], err, want)
	}
	// A board's OpenBMC does not link the chassis of the adapters to the board. Each chassis names its systems; one that names two is
	// of neither alone.
	delete(k.at, c+"Tray")
	k.at["/redfish/v1/Chassis"] = links(c+"Other", c+"Both", c+"Board", c+"IO", c+"gone")
	k.at[c+"Board"] = map[string]any{"Links": of(systemAt)}
	k.at[c+"Both"] = map[string]any{"NetworkAdapters": link(c + "IO/NetworkAdapters"), "Links": map[string]any{"ComputerSystems": []any{link(systemAt), link("/redfish/v1/Systems/2")}}}
	k.at[c+"IO"]["Links"].(map[string]any)["ContainedBy"] = []any{link(c + "gone")} // a list, as Intel's boards write it
	if got, _, err = inspectionOf(t, k); err != nil || !reflect.DeepEqual(got["interfaces"], want) {
		t.Errorf("interfaces of chassis that name the system %v, %v, want %v", got["interfaces"], err, want)
	}
	delete(k.at, c+"IO")
	if got, _, err = inspectionOf(t, k); err != nil || !reflect.DeepEqual(got["interfaces"], []any{}) {
		t.Errorf("interfaces %v, %v, want none: the chassis with adapters is of two systems", got["interfaces"], err)
	}
}
