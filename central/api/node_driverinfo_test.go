package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
)

var ipmiDriver, snmpDriver = map[string][]string{"boot": {"ipxe"}, "console": {"no-console"}, "deploy": {"direct"}, "management": {"ipmitool", "noop"}, "power": {"ipmitool"}},
	map[string][]string{"boot": {"ipxe"}, "console": {"no-console"}, "deploy": {"direct"}, "management": {"noop"}, "power": {"snmp"}}

var libvirtDriver = map[string][]string{"boot": {"ipxe"}, "console": {"no-console"}, "deploy": {"direct"}, "management": {"libvirt"}, "power": {"libvirt"}}

// TestDriverInfoIsJudgedWhenSet holds that what is wrong by itself is refused at once, in the words of validate, and that clients
// otherwise set fields in any order: no field has to be there, and other drivers' are kept.
func TestDriverInfoIsJudgedWhenSet(t *testing.T) {
	const notNumber = `ipmi_port "abc" is not a valid integer`
	type step struct{ body, refused string }
	patched := func(ops ...string) string { return "[" + strings.Join(ops, ",") + "]" }
	set := func(path, value string) string {
		return fmt.Sprintf(`{"op":"add","path":"/%s","value":%s}`, path, value)
	}
	for name, c := range map[string]struct {
		driver, info, refused string
		patches               []step
	}{
		"nothing is needed":       {"ipmi", `{}`, "", nil},
		"part is enough":          {"ipmi", `{"ipmi_username":"u"}`, "", nil},
		"wrong when enrolled":     {"ipmi", `{"ipmi_port":"abc"}`, notNumber, nil},
		"each that is wrong":      {"ipmi", `{"ipmi_port":0,"ipmi_priv_level":"root"}`, `ipmi_port "0" is out of range. Valid port numbers must be between 1 and 65535; Invalid privilege level value: "root"`, nil},
		"another driver's field":  {"snmp", `{"ipmi_port":"abc"}`, "", nil},
		"nothing is no value":     {"ipmi", `{"ipmi_port":"","ipmi_priv_level":null}`, "", nil},
		"a number or a text":      {"ipmi", `{"ipmi_port":6230,"ipmi_cipher_suite":"17","ipmi_force_boot_device":true}`, "", nil},
		"unread without bridging": {"ipmi", `{"ipmi_target_channel":"99"}`, "", []step{{patched(set("driver_info/ipmi_bridging", `"single"`)), ""}, {patched(set("driver_info/ipmi_target_channel", `"98"`)), "ipmi_target_channel is"}}},
		"wrong when changed":      {"ipmi", `{"ipmi_port":623}`, "", []step{{patched(set("driver_info/ipmi_port", `"abc"`)), notNumber}, {patched(set("driver_info/ipmi_port", `"6230"`)), ""}}},
		"a new driver counts": {"snmp", `{}`, "", []step{{patched(set("driver", `"ipmi"`), set("management_interface", `"ipmitool"`), set("power_interface", `"ipmitool"`), set("driver_info/ipmi_port", `"abc"`)), notNumber},
			{patched(set("driver", `"ipmi"`), set("management_interface", `"ipmitool"`), set("power_interface", `"ipmitool"`), set("driver_info/snmp_port", `"abc"`)), ""}}},
		"what was there stays": {"snmp", `{"ipmi_port":"abc"}`, "", []step{
			{patched(set("driver", `"ipmi"`), set("management_interface", `"ipmitool"`), set("power_interface", `"ipmitool"`)), ""}, {patched(set("driver_info/ipmi_address", `"192.0.2.1"`)), ""}}},
		"a number that was there stays, in a document that is sent whole": {"snmp", `{"ipmi_port":70000,"ipmi_username":"u"}`, "", []step{
			{patched(set("driver", `"ipmi"`), set("management_interface", `"ipmitool"`), set("power_interface", `"ipmitool"`)), ""},
			{patched(set("driver_info", `{"ipmi_port":70000,"ipmi_address":"192.0.2.1"}`)), ""}, {patched(set("driver_info", `{"ipmi_port":70001}`)), `ipmi_port "70001" is out of range`}}},
		"a mask stands for what is there": {"ipmi", `{"ipmi_hex_kg_key":"00ff"}`, "", []step{{patched(set("driver_info/ipmi_hex_kg_key", `"******"`)), ""}, {patched(set("driver_info/ipmi_hex_kg_key", `"zz"`)), "ipmi_hex_kg_key is not hexadecimal"}}},
		"a host by its URI": {"libvirt", `{"libvirt_uri":"qemu+ssh://host.example/system"}`, "", []step{{patched(set("driver_info/libvirt_uri", `"qemu+tcp://host.example/system"`)), `libvirt_uri is "qemu+tcp://host.example/system": give`},
			{patched(set("driver_info/libvirt_host_key", `"AAAA"`)), "libvirt_host_key is no public key"}, {patched(set("driver_info/libvirt_private_key", `"hush"`)), "libvirt_private_key is no private key in PEM without a passphrase"},
			{patched(set("driver_info/libvirt_uri", `"qemu:///system"`), set("driver_info/libvirt_host_key", `"AAAA"`)), ""}}},
		"another interface reads it": {"ipmi", `{}`, "", []step{{patched(set("driver_info/snmp_port", `"abc"`)), ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.server.Roster = fakeRoster{bus.Member{Name: "rack-1", Drivers: map[string]map[string][]string{"ipmi": ipmiDriver, "snmp": snmpDriver, "libvirt": libvirtDriver}}}
			b.server.dispatch.Roster = b.server.Roster
			check := func(a answer, refused string, done int) {
				t.Helper()
				if refused == "" && a.StatusCode != done || refused != "" && (a.StatusCode != 400 || !strings.HasPrefix(a.fault(t), refused)) {
					t.Errorf("status %d: %s\nwant %d or a refusal with %q", a.StatusCode, a.body, done, refused)
				}
			}
			check(b.do("POST", "/v1/nodes", "1.115", fmt.Sprintf(`{"uuid":%q,"driver":%q,"driver_info":%s}`, nodeID, c.driver, c.info)), c.refused, 201)
			for _, s := range c.patches {
				check(b.do("PATCH", "/v1/nodes/"+nodeID, "1.115", s.body), s.refused, 200)
			}
		})
	}
}
