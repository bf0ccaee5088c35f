package inspection

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/work"
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
		`unknown inspection hook "nope"`:   {Hooks: []string{"nope"}},
		"ports needs hook validate-interf": {Hooks: []string{"ports", "validate-interfaces"}},
		`add ports "some"`:                 {AddPorts: "some"},
		`keep ports "some"`:                {KeepPorts: "some"},
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

// A BMC that tells the address of no interface has told of the rest: that is kept, and the ports are left as they are.
func TestABMCWithoutInterfaces(t *testing.T) {
	s := newSubject(t)
	s.Source = work.FromBMC
	s.Inventory["interfaces"] = []any{}
	if err := processor(t, Settings{KeepPorts: "present"}).Run(s, nil); err != nil {
		t.Fatal(err)
	}
	if len(s.Ports) == 0 || len(s.Added)+len(s.Removed) > 0 || s.Node.Properties["cpu_arch"] != "x86_64" {
		t.Errorf("ports %v, added %v, removed %v, properties %v", s.Ports, s.Added, s.Removed, s.Node.Properties)
	}
}

// TestWhatWasFoundMayBeAnything holds that hooks fail an inspection, and do no more,
// when what was found is not what it should be.
func TestWhatWasFoundMayBeAnything(t *testing.T) {
	every := []string{"ramdisk-error", "validate-interfaces", "ports", "architecture", "cpus", "memory", "root-device", "boot-mode",
		"cpu-capabilities", "physical-network", "local-link-connection", "parse-lldp", "pci-devices", "accelerators", "extra-hardware", "raid-device"}
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
	if properties["cpus"] != int64(8) || properties["memory_mb"] != int64(16384) || properties["local_gb"] != int64(49) {
		t.Errorf("properties %v", properties)
	}
	if got, want := properties["capabilities"], "a:b,boot_mode:uefi,cpu_vt:true,cpu_aes:true,nvme:1"; got != want {
		t.Errorf("capabilities %v, want %v", got, want)
	}
	if list := properties["accelerators"].([]any); len(list) != 1 || list[0].(map[string]any)["pci_address"] != "0000:3b:00.0" {
		t.Errorf("accelerators %v", list)
	}
	port := s.Added[0]
	if port.PhysicalNetwork != "lab" || port.LocalLinkConnection["switch_id"] != "88:5a:92:ec:54:59" || port.LocalLinkConnection["port_id"] != "Ethernet1/18" || port.LocalLinkConnection["switch_info"] != "sw1" {
		t.Errorf("port %+v", port)
	}
	want := map[string]any{"eth0": map[string]any{"switch_chassis_id": "88:5a:92:ec:54:59", "switch_port_id": "Ethernet1/18", "switch_system_name": "sw1"}}
	if !reflect.DeepEqual(s.Plugin["parsed_lldp"], want) {
		t.Errorf("parsed LLDP %v, want %v", s.Plugin["parsed_lldp"], want)
	}
}

func TestRootDeviceHints(t *testing.T) {
	p := processor(t, Settings{Hooks: []string{"root-device"}})
	for _, c := range []struct {
		hint, chosen string // chosen: what the ramdisk says
		want         any
		skip         string
	}{
		{`{"name":"/dev/sda"}`, `null`, int64(99), "null"},
		{`{"name":"/dev/sda"}`, `{"name":"/dev/sdc","size":7516192768}`, int64(99), "null"},
		{`{"model":"C"}`, `null`, "No disks satisfied", "null"},
		{`{"size":"x"}`, `null`, "not valid", "null"},
		{`{}`, `{"name":"/dev/sdc","size":7516192768}`, int64(6), "null"},
		{`{}`, `{"name":"/dev/sdc","size":5}`, int64(0), "null"},
		{`{}`, `{"name":"/dev/sdc"}`, int64(49), "null"},
		{`{"size":"> 0"}`, `null`, int64(99), `[{"name":"/dev/sdb"}]`},
		{`{"name":"/dev/sdb"}`, `null`, "No disks satisfied", `[{"name":"/dev/sdb"}]`},
		{`{}`, `null`, int64(99), `[{"name":"/dev/sdb"}]`},
		{`{}`, `null`, "skip_block_devices", `[{"colour":"red"}]`},
	} {
		s := newSubject(t)
		s.Node.Properties["root_device"], s.Node.Properties["skip_block_devices"] = decode[any](t, c.hint), decode[any](t, c.skip)
		s.Plugin["root_disk"] = decode[any](t, c.chosen)
		err := p.Run(s, nil)
		if text, fails := c.want.(string); fails && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%s: error %v, want %q", c.hint, err, text)
		} else if !fails && (err != nil || s.Node.Properties["local_gb"] != c.want || s.Plugin["local_gb"] != c.want) {
			t.Errorf("%s, the ramdisk's %s: local_gb %v, error %v, want %v", c.hint, c.chosen, s.Node.Properties["local_gb"], err, c.want)
		}
	}
}

// TestPortsThatWereThere holds what an inspection changes of ports that a node has: what it found
// anew, not what an operator has said of links.
func TestPortsThatWereThere(t *testing.T) {
	const link = `{"switch_id":"00:00:00:00:00:01","port_id":"1","switch_info":"mine"}`
	for _, c := range []struct {
		nic, network, link, extra string // of the port
		want                      store.Port
		changed                   bool
	}{
		{`{"client_id":"ff:01"}`, "", `{}`, `{"a":"b"}`, store.Port{Extra: map[string]any{"a": "b", "client-id": "ff:01"}}, true},
		{`{"client_id":"ff:01"}`, "", `{}`, `null`, store.Port{Extra: map[string]any{"client-id": "ff:01"}}, true},
		{`{"client_id":"ff:01"}`, "", `{}`, `{"client-id":"ff:00"}`, store.Port{Extra: map[string]any{"client-id": "ff:01"}}, true},
		{`{"client_id":"ff:01"}`, "", `{}`, `{"client-id":"ff:01"}`, store.Port{Extra: map[string]any{"client-id": "ff:01"}}, false},
		{`{"client_id":null}`, "", `{}`, `{"client-id":"ff:00"}`, store.Port{Extra: map[string]any{"client-id": "ff:00"}}, false},
		{`{"ipv4_address":"192.0.2.9"}`, "other", `{}`, `{}`, store.Port{PhysicalNetwork: "lab"}, true},
		{`{"ipv4_address":"192.0.2.9"}`, "lab", `{}`, `{}`, store.Port{PhysicalNetwork: "lab"}, false},
		{`{"ipv4_address":"198.51.100.1"}`, "other", `{}`, `{}`, store.Port{PhysicalNetwork: "other"}, false},
		{`{"ipv4_address":"198.51.100.1","ipv6_address":"2001:db8::1%eth9"}`, "", `{}`, `{}`, store.Port{PhysicalNetwork: "six"}, true},
		{`{"ipv4_address":"192.0.2.9","ipv6_address":"2001:db8::1"}`, "", `{}`, `{}`, store.Port{PhysicalNetwork: "lab"}, true},
		{`{"lldp":[[2,"0531"],[5,"737731"]]}`, "", `{"port_id":"2"}`, `{}`, store.Port{LocalLinkConnection: map[string]any{"port_id": "2", "switch_info": "sw1"}}, true},
		{`{"lldp":[[2,"0531"],[5,"737731"]]}`, "", link, `{}`, store.Port{LocalLinkConnection: decode[map[string]any](t, link)}, false},
	} {
		s := newSubject(t)
		nic := decode[map[string]any](t, c.nic)
		nic["name"], nic["mac_address"] = "eth9", s.Ports[0].Address
		s.Inventory["interfaces"] = []any{nic}
		s.part("boot")["pxe_interface"] = s.Ports[0].Address
		port := s.Ports[0]
		port.PhysicalNetwork, port.LocalLinkConnection, port.Extra = c.network, decode[map[string]any](t, c.link), decode[map[string]any](t, c.extra)
		p := processor(t, Settings{Hooks: []string{"validate-interfaces", "ports", "physical-network", "local-link-connection"},
			PhysicalNetworks: map[string]string{"192.0.2.0/24": "lab", "2001:db8::/64": "six"}})
		if err := p.Run(s, nil); err != nil {
			t.Fatal(err)
		}
		same := func(got, want map[string]any) bool {
			return len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want)
		}
		if port.PhysicalNetwork != c.want.PhysicalNetwork || !same(port.Extra, c.want.Extra) || !same(port.LocalLinkConnection, c.want.LocalLinkConnection) {
			t.Errorf("%s: network %q, link %v, extra %v; want %+v", c.nic, port.PhysicalNetwork, port.LocalLinkConnection, port.Extra, c.want)
		}
		if _, changed := s.Changed[port.UUID]; changed != c.changed {
			t.Errorf("%s, network %q, link %s, extra %s: changed %v, want %v", c.nic, c.network, c.link, c.extra, changed, c.changed)
		}
	}
}

// TestReadLLDP holds what becomes of single items, whole and cut off.
func TestReadLLDP(t *testing.T) {
	for value, want := range map[string]string{ // the type, and the value in hexadecimal
		"7 00140004":                   `{"switch_capabilities_support":["Bridge","Router"],"switch_capabilities_enabled":["Bridge"]}`,
		"7 07ff0000":                   `{"switch_capabilities_support":["Repeater","Bridge","WLAN","Router","Telephone","DOCSIS cable device","Station only","C-Vlan","S-Vlan","TPMR"],"switch_capabilities_enabled":[]}`,
		"7 0014":                       `{}`,
		"127 0080c2010065":             `{"switch_port_untagged_vlan_id":101}`,
		"127 0080c20106":               `{}`,
		"127 0080c202060064":           `{"switch_port_protocol_vlan_support":true,"switch_port_protocol_vlan_enabled":true,"switch_port_protocol_vlan_ids":[100]}`,
		"127 0080c203006604766c6e36":   `{"switch_port_vlans":[{"id":102,"name":"vln6"}]}`,
		"127 0080c203006605766c6e36":   `{}`,
		"127 0080c20402888e":           `{"switch_protocol_identities":["888e"]}`,
		"127 0080c20403888e":           `{}`,
		"127 0080c2060007":             `{"switch_port_management_vlan_id":7}`,
		"127 0080c207030000000a":       `{"switch_port_link_aggregation_support":true,"switch_port_link_aggregation_enabled":true,"switch_port_link_aggregation_id":10}`,
		"127 00120f0301ffffffff":       `{"switch_port_link_aggregation_support":true,"switch_port_link_aggregation_enabled":false,"switch_port_link_aggregation_id":4294967295}`,
		"127 00120f01030c01001e":       `{"switch_port_autonegotiation_support":true,"switch_port_autonegotiation_enabled":true}`,
		"127 00120f042400":             `{"switch_port_mtu":9216}`,
		"127 00120f04":                 `{}`,
		"127 00":                       `{}`,
		"8 0501c0a8000102000000000000": `{"switch_mgmt_addresses":["192.168.0.1"]}`,
	} {
		kind, text, _ := strings.Cut(value, " ")
		n := nic{name: "eth0", fields: map[string]any{"lldp": []any{[]any{json.Number(kind), text}}}}
		said, err := json.Marshal(readable(newSubject(t).lldp(n)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decode[any](t, string(said)), decode[any](t, want)) {
			t.Errorf("%s: %s, want %s", value, said, want)
		}
	}
	n := nic{name: "eth0", fields: map[string]any{"lldp": decode[any](t, `[[127,"0080c2030066017a"],[127,"0080c2030067017a"]]`)}}
	if vlans, _ := readable(newSubject(t).lldp(n))["switch_port_vlans"].([]any); len(vlans) != 2 {
		t.Errorf("two VLANs: %v", vlans)
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
		s.Source = work.FromBMC
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
		s.Plugin["capabilities"] = map[string]any{"iscsi_boot": "true", "server_model": "ProLiant DL180 Gen10", "count": 3.0}
	})
	if want := "a:b,iscsi_boot:true,server_model:ProLiant DL180 Gen10,boot_mode:uefi"; err != nil || s.Node.Properties["capabilities"] != want {
		t.Errorf("capabilities that a driver has found: %v, %v; want %s", s.Node.Properties["capabilities"], err, want)
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

// What a machine that does not exist has says nothing of a real one: clients that set properties themselves find them as they were.
func TestFakeInspectionChangesNoProperty(t *testing.T) {
	for _, before := range []map[string]any{nil, {"cpu_arch": "aarch64", "capabilities": "boot_mode:bios"}} {
		s := newSubject(t)
		s.Source, s.Node.Properties = work.MadeUp, maps.Clone(before)
		rule := Rule{UUID: "r", Actions: []Action{{operation{Op: "set-attribute", Args: map[string]any{"path": "/properties/rack", "value": "r7"}}}}}
		if err := Default().Run(s, []Rule{rule}); err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(before)
		if want == nil {
			want = map[string]any{}
		}
		want["rack"] = "r7" // rules are the operator's
		if !maps.Equal(s.Node.Properties, want) {
			t.Errorf("properties %v, want %v", s.Node.Properties, want)
		}
	}
}
