package inspection

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

func processor(t testing.TB, set Settings) *Processor {
	t.Helper()
	p, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSettings(t *testing.T) {
	for text, set := range map[string]Settings{
		`no inspection hook "nope"`:            {Hooks: []string{"nope"}},
		"ports needs the hook validate-interf": {Hooks: []string{"ports", "validate-interfaces"}},
		`add ports "some"`:                     {AddPorts: "some"},
		`keep ports "some"`:                    {KeepPorts: "some"},
	} {
		if _, err := New(set); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", set, err, text)
		}
	}
}

// addresses are those of the ports, in order.
func addresses(list []*store.Port) string {
	var all []string
	for _, p := range list {
		all = append(all, p.Address[len(p.Address)-2:])
	}
	return strings.Join(all, " ")
}

func TestPorts(t *testing.T) {
	for _, c := range []struct {
		set                    Settings
		change                 func(*Subject)
		added, removed, booted string
	}{
		{Settings{}, nil, "01", "", "01"},
		{Settings{AddPorts: "active"}, nil, "01", "", "01"}, // the other has a port already
		{Settings{AddPorts: "disabled"}, nil, "", "", ""},
		{Settings{KeepPorts: "added"}, nil, "01", "02", "01"},
		{Settings{KeepPorts: "present"}, nil, "01", "", "01"},
		{Settings{KeepPorts: "present"}, func(s *Subject) { s.Ports[0].Address = "52:54:00:aa:bb:99" }, "01", "99", "01"},
		{Settings{AddPorts: "all"}, func(s *Subject) { delete(s.part("boot"), "pxe_interface") }, "01", "", "02 01"},
		{Settings{}, func(s *Subject) { s.part("boot")["pxe_interface"] = "01-52-54-00-aa-bb-02" }, "", "", "02"},
	} {
		s := newSubject(t)
		if c.change != nil {
			c.change(s)
		}
		if err := processor(t, c.set).Run(s, nil); err != nil {
			t.Fatal(err)
		}
		var booted []*store.Port
		for _, p := range s.Ports {
			if p.PXEEnabled {
				booted = append(booted, p)
			}
		}
		if addresses(s.Added) != c.added || addresses(s.Removed) != c.removed || addresses(booted) != c.booted {
			t.Errorf("%+v: added %q, removed %q, boot from %q; want %q, %q, %q", c.set, addresses(s.Added), addresses(s.Removed), addresses(booted), c.added, c.removed, c.booted)
		}
		if s.Node.Properties["cpu_arch"] != "x86_64" {
			t.Errorf("properties %v", s.Node.Properties)
		}
	}
}

// TestWhatWasFoundMayBeAnything holds that hooks fail an inspection, and do no more,
// when what was found is not what it should be.
func TestWhatWasFoundMayBeAnything(t *testing.T) {
	every := []string{"ramdisk-error", "validate-interfaces", "ports", "architecture", "cpus", "memory", "root-device", "boot-mode",
		"cpu-capabilities", "physical-network", "local-link-connection", "parse-lldp", "pci-devices", "accelerators"}
	for inventory, want := range map[string]string{
		`{}`:               "no valid network interfaces",
		`{"interfaces":5}`: "no valid network interfaces",
		`{"interfaces":[1,null,{"name":"eth0"},{"name":"eth1","mac_address":"x"}]}`:                                                                           "no valid network interfaces",
		`{"interfaces":[{"name":"lo","mac_address":"00:00:00:00:00:00"}]}`:                                                                                    "no network interfaces match",
		`{"interfaces":[{"name":"e","mac_address":"52:54:00:00:00:01"}],"cpu":7}`:                                                                             "CPU's architecture",
		`{"interfaces":[{"name":"e","mac_address":"52:54:00:00:00:01","lldp":[[1],["x","y"],[2,"zz"],5]}],"cpu":{"architecture":"a","flags":[3]},"disks":{}}`: "disks",
	} {
		s := newSubject(t)
		s.Inventory = decode[map[string]any](t, inventory)
		err := processor(t, Settings{Hooks: every}).Run(s, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", inventory, err, want)
		}
	}
	s := newSubject(t)
	s.Plugin["error"] = "out of memory"
	if err := Default().Run(s, nil); err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a ramdisk's error: %v", err)
	}
}

func TestFacts(t *testing.T) {
	s := newSubject(t)
	s.Plugin["pci_devices"] = decode[any](t, `[{"vendor_id":"10de","product_id":"1eb8","bus":"0000:3b:00.0"},{"vendor_id":"8086","product_id":"0953"},5]`)
	p := processor(t, Settings{Hooks: []string{"validate-interfaces", "ports", "cpus", "memory", "root-device", "boot-mode", "cpu-capabilities", "physical-network",
		"local-link-connection", "parse-lldp", "pci-devices", "accelerators"},
		PhysicalNetworks: map[string]string{"192.0.2.0/24": "lab", "192.0.0.0/8": "wide"}, PCIAliases: map[string]string{"8086:0953": "nvme", "1:2": "none"}})
	if err := p.Run(s, nil); err != nil {
		t.Fatal(err)
	}
	properties := s.Node.Properties
	if properties["cpus"] != int64(8) || properties["memory_mb"] != int64(16384) || properties["local_gb"] != "49" {
		t.Errorf("properties %v", properties)
	}
	if got, want := properties["capabilities"], "a:b,boot_mode:uefi,cpu_vt:true,cpu_aes:true,nvme:1"; got != want {
		t.Errorf("capabilities %v, want %v", got, want)
	}
	if list := properties["accelerators"].([]any); len(list) != 1 || list[0].(map[string]any)["pci_address"] != "0000:3b:00.0" {
		t.Errorf("accelerators %v", list)
	}
	port := s.Added[0]
	if port.PhysicalNetwork != "lab" || port.LocalLinkConnection["switch_id"] != "88:5a:92:ec:54:59" || port.LocalLinkConnection["port_id"] != "Ethernet1/18" {
		t.Errorf("port %+v", port)
	}
	want := map[string]any{"eth0": map[string]any{"switch_chassis_id": "88:5a:92:ec:54:59", "switch_port_id": "Ethernet1/18", "switch_system_name": "sw1"}}
	if !reflect.DeepEqual(s.Plugin["parsed_lldp"], want) {
		t.Errorf("parsed LLDP %v, want %v", s.Plugin["parsed_lldp"], want)
	}
}

func TestRootDeviceHints(t *testing.T) {
	p := processor(t, Settings{Hooks: []string{"root-device"}})
	for hint, want := range map[string]string{`{"name":"/dev/sda"}`: "99", `{"model":"C"}`: "No disks satisfied", `{"size":"x"}`: "not valid"} {
		s := newSubject(t)
		s.Node.Properties["root_device"] = decode[any](t, hint)
		err := p.Run(s, nil)
		if err == nil && s.Node.Properties["local_gb"] != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: local_gb %v, error %v, want %q", hint, s.Node.Properties["local_gb"], err, want)
		}
	}
}

// TestRulesComeLast holds the order: what hooks look at, what they do, and rules, which see both.
func TestRulesComeLast(t *testing.T) {
	s := newSubject(t)
	rule, err := Parse(nil, decode[[]any](t, `[{"op":"set-attribute","args":["extra/found","{plugin_data[macs]} {node.properties[cpu_arch]}"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if err := Default().Run(s, []Rule{rule}); err != nil || s.Node.Extra["found"] != "['52:54:00:AA:BB:01'] x86_64" {
		t.Errorf("extra %v, error %v", s.Node.Extra, err)
	}
}

func TestCalls(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1); r.URL.Path == "/bad" || r.Header.Get("X") != "y" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	call := Call{URL: server.URL + "/good", Headers: map[string]string{"X": "y"}, Timeout: 10 * time.Second}
	if err := call.Make(t.Context(), server.Client()); err != nil {
		t.Error(err)
	}
	call.URL = server.URL + "/bad"
	if err := call.Make(t.Context(), server.Client()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("a call that is refused: %v", err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests, want 2: no retries were asked for", n)
	}
}

// What a BMC tells becomes properties whichever hooks are chosen; no ramdisk has booted, so each
// interface gets a port.
func TestToldByBMC(t *testing.T) {
	told := func(change func(*Subject)) (*Subject, error) {
		s := newSubject(t)
		s.Node.Interfaces = map[string]string{"inspect": "redfish"}
		s.Node.Properties = map[string]any{"capabilities": "a:b"}
		s.Plugin = map[string]any{"local_gb": 99.0}
		delete(s.part("boot"), "pxe_interface")
		change(s)
		return s, Default().Run(s, nil)
	}
	s, err := told(func(*Subject) {})
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Node.Properties; p["local_gb"] != int64(99) || p["memory_mb"] == nil || p["cpu_arch"] != "x86_64" || p["capabilities"] != "a:b,boot_mode:uefi" {
		t.Errorf("properties %v", p)
	}
	if len(s.Added) == 0 {
		t.Error("no port was added")
	}
	s, err = told(func(s *Subject) {
		s.Node.Properties["capabilities"], s.Node.Properties["memory_mb"], s.Node.Properties["cpu_arch"] = "boot_mode:bios", "1", "aarch64"
		delete(s.Inventory, "memory")
		s.part("cpu")["architecture"] = ""
		s.Plugin = map[string]any{}
	})
	if p := s.Node.Properties; err != nil || p["local_gb"] != int64(0) || p["memory_mb"] != "1" || p["cpu_arch"] != "aarch64" || p["capabilities"] != "boot_mode:bios" {
		t.Errorf("properties %v, error %v, of a BMC that tells nothing", p, err)
	}
	if _, err = told(func(s *Subject) { delete(s.Inventory, "memory") }); err == nil || !strings.Contains(err.Error(), "memory_mb") {
		t.Errorf("without any memory: %v", err)
	}
}
