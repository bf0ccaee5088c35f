package inspection

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// decode reads JSON as ingest does.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v T
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

const found = `{"cpu":{"count":8,"architecture":"x86_64","flags":["vmx","aes"]},"memory":{"physical_mb":16384},
	"bmc_address":"192.0.2.7","password":"hush","system_vendor":{"product_name":"PowerEdge R640"},"hostname":"",
	"disks":[{"name":"/dev/sda","size":107374182400,"model":"A"},{"name":"/dev/sdb","size":53687091200,"model":"B"}],
	"interfaces":[{"name":"eth0","mac_address":"52:54:00:AA:BB:01","ipv4_address":"192.0.2.9","lldp":[[1,"04885a92ec5459"],[2,"0545746865726e6574312f3138"],[5,"737731"]]},
		{"name":"eth1","mac_address":"52:54:00:AA:BB:02","ipv6_address":"fe80::1%eth1"},{"name":"lo","mac_address":"00:00:00:00:00:00","ipv4_address":"127.0.0.1"}],
	"boot":{"current_boot_mode":"uefi","pxe_interface":"52:54:00:aa:bb:01"}}`

const portID = "aaaaaaaa-2222-4333-8444-555555555555"

// newSubject is a node with one port in which found was found.
func newSubject(t testing.TB) *Subject {
	return &Subject{Node: &store.Node{UUID: "n", Name: "node-1", Driver: "redfish", Interfaces: map[string]string{"management": "redfish", "power": "ipmitool"}, Traits: []string{"CUSTOM_OLD"},
		Properties: map[string]any{"capabilities": "a:b,boot_mode:bios"}, DriverInfo: map[string]any{"redfish_address": "https://bmc", "redfish_password": "sealed", "image_http_proxy": "http://u:pass@p"}},
		Ports:     []*store.Port{{UUID: portID, Node: "n", Address: "52:54:00:aa:bb:02", PXEEnabled: true}},
		Inventory: decode[map[string]any](t, found), Plugin: map[string]any{}, Log: slog.New(slog.DiscardHandler),
		Seal: func(_ seal.Kind, m map[string]any) map[string]any {
			m, _ = clone(m).(map[string]any)
			if p, ok := m["redfish_password"].(string); ok && p != "sealed" {
				m["redfish_password"] = "sealed " + p
			}
			return m
		}}
}

// TestErrorsListWhatThereIs holds that the words which errors list are those of the tables.
func TestErrorsListWhatThereIs(t *testing.T) {
	if len(operatorNames) != 2*len(operatorTable) || len(actionNames) != len(actionTable) {
		t.Errorf("%d operators and %d actions are listed, there are %d (and their negations) and %d", len(operatorNames), len(actionNames), len(operatorTable), len(actionTable))
	}
	for _, name := range operatorNames {
		name, _ = cutNot(name)
		if _, known := operatorTable[name]; !known {
			t.Errorf("there is no operator %s", name)
		}
	}
	for _, name := range actionNames {
		if _, known := actionTable[name]; !known {
			t.Errorf("there is no action %s", name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const ok = `[{"op":"fail","args":["no"]}]`
	for _, c := range []struct{ conditions, actions, text string }{
		{`[]`, `[]`, "too short"},
		{`[5]`, ok, "condition 1: 5 is not of type 'object'"},
		{`[{"args":[]}]`, ok, "'op' is a required property"},
		{`[{"op":"eq"}]`, ok, "'args' is a required property"},
		{`[{"op":"ne","args":{"values":[]}}]`, ok, "condition 1: 'ne' is not one of ['eq', 'lt', "},
		{`[{"op":"!!eq","args":{"values":[]}}]`, ok, "'!!eq' is not one of"},
		{`[{"op":"eq","args":{}}]`, ok, "missing required argument(s): values"},
		{`[{"op":"eq","args":[]}]`, ok, "missing required argument(s): values"},
		{`[{"op":"eq","args":"x"}]`, ok, "either a list or an object"},
		{`[{"op":"eq","args":{"values":[],"b":1,"a":1}}]`, ok, "unexpected argument(s): a, b"},
		{`[{"op":"eq","args":[[]],"loop":5}]`, ok, "condition 1: 5 is not of type 'array', 'object'"},
		{`[{"op":"eq","args":[[]],"multiple":"some"}]`, ok, "'some' is not one of ['any', 'all', 'first', 'last']"},
		{`[]`, `[{"op":"explode","args":{}}]`, "action 1: 'explode' is not one of ['fail', 'log', "},
		{`[{"op":5,"args":{}}]`, ok, "condition 1: 5 is not one of ['eq', "},
		{`[{"op":"eq","args":[[]],"loop":null}]`, ok, "condition 1: None is not of type 'array', 'object'"},
		{`[]`, `[{"op":"set-attribute","args":{"path":"x"}}]`, "missing required argument(s): value"},
	} {
		_, err := Parse(decode[[]any](t, c.conditions), decode[[]any](t, c.actions))
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s, %s: %v, want %q", c.conditions, c.actions, err, c.text)
		}
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		`{"op":"eq","args":[["{inventory[cpu][architecture]}","x86_64"]]}`:                   true,
		`{"op":"!eq","args":[["{inventory[cpu][architecture]}","x86_64"]]}`:                  false,
		`{"op":"!eq","args":{"values":["a","b"]}}`:                                           true,
		`{"op":"eq","args":{"values":["{inventory[cpu][count]}",8]}}`:                        false,
		`{"op":"eq","args":{"values":["{inventory[cpu][count]}",8],"force_strings":true}}`:   true,
		`{"op":"eq","args":[[1,1.0,true]]}`:                                                  true,
		`{"op":"eq","args":[["one"]]}`:                                                       true,
		`{"op":"lt","args":[[1,2,3]]}`:                                                       true,
		`{"op":"lt","args":[[1,3,2]]}`:                                                       false,
		`{"op":"gt","args":[["b","a"]]}`:                                                     true,
		`{"op":"is-empty","args":["{inventory[hostname]}"]}`:                                 true,
		`{"op":"is-empty","args":[[]]}`:                                                      true,
		`{"op":"is-empty","args":[null]}`:                                                    true,
		`{"op":"is-empty","args":[0]}`:                                                       false,
		`{"op":"is-none","args":["{node.instance_uuid}"]}`:                                   true,
		`{"op":"is-none","args":["x"]}`:                                                      false,
		`{"op":"is-true","args":["Yes"]}`:                                                    true,
		`{"op":"is-true","args":[2]}`:                                                        true,
		`{"op":"is-true","args":[null]}`:                                                     false,
		`{"op":"is-false","args":["no"]}`:                                                    true,
		`{"op":"is-false","args":[null]}`:                                                    true,
		`{"op":"is-false","args":["maybe"]}`:                                                 false,
		`{"op":"in-net","args":["{inventory[bmc_address]}","192.0.2.0/24"]}`:                 true,
		`{"op":"in-net","args":{"address":"2001:db8::1","subnet":"192.0.2.0/24"}}`:           false,
		`{"op":"matches","args":["{inventory[system_vendor][product_name]}","PowerEdge.*"]}`: true,
		`{"op":"matches","args":["{inventory[system_vendor][product_name]}","Edge"]}`:        false,
		`{"op":"contains","args":["{inventory[system_vendor][product_name]}","Edge"]}`:       true,
		`{"op":"one-of","args":["{node.driver}",["ipmi","redfish"]]}`:                        true,
		`{"op":"one-of","args":["x"]}`:                                                       false,
		`{"op":"eq","args":[["{item}","b"]],"loop":["a","b"]}`:                               true,
		`{"op":"eq","args":[["{item}","b"]],"loop":["a","b"],"multiple":"all"}`:              false,
		`{"op":"eq","args":[["{item}","b"]],"loop":["a","b"],"multiple":"last"}`:             true,
		`{"op":"eq","args":[["{item}","a"]],"loop":["a","b"],"multiple":"last"}`:             false,
		`{"op":"eq","args":[["{item}","c"]],"loop":["a","b"],"multiple":"first"}`:            false,
		`{"op":"eq","args":[["{item[x]}",8]],"loop":{"x":"{inventory[cpu][count]}"}}`:        true,
		`{"op":"eq","args":[["{inventory[password]}","***"]]}`:                               true,
		`{"op":"eq","args":[["{node.driver_info[redfish_password]}","***"]]}`:                true,
		`{"op":"eq","args":[["{node.driver_info[image_http_proxy]}","http://u:***@p"]]}`:     true,
		`{"op":"eq","args":[["{node.driver_info[redfish_address]}","https://bmc"]]}`:         true,
		`{"op":"eq","args":[["{{x}} {inventory[disks][1][name]}","{x} /dev/sdb"]]}`:          true,
		`{"op":"eq","args":[["{inventory[nothing]}","{inventory[nothing]}"]]}`:               true,
		`{"op":"eq","args":[["{inventory[cpu][flags]}","['vmx', 'aes']"]]}`:                  true,
		`{"op":"contains","args":["{inventory}","'password': '\\*\\*\\*'"]}`:                 true,
		`{"op":"eq","args":[["{node.driver.x} {0} {a b","{node.driver.x} {0} {a b"]]}`:       true,
	} {
		c, err := parseCondition(decode[any](t, text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, err := c.holds(newSubject(t)); err != nil || got != want {
			t.Errorf("%s: %t, error %v, want %t", text, got, err, want)
		}
	}
}

func TestConditionsThatCannotBeAnswered(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"eq","args":["x"]}`:                    "must be a list",
		`{"op":"lt","args":[[1,"a"]]}`:                "cannot be compared",
		`{"op":"in-net","args":["x","192.0.2.0/24"]}`: "invalid value",
		`{"op":"in-net","args":["192.0.2.1","net"]}`:  "invalid value",
		`{"op":"matches","args":["x","("]}`:           "invalid regular expression",
		`{"op":"one-of","args":["x","xyz"]}`:          "must be a list",
	} {
		rule, err := Parse([]any{decode[any](t, text)}, decode[[]any](t, `[{"op":"add-trait","args":["CUSTOM_NEW"]}]`))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		rule.UUID = "r1"
		err = (&Processor{}).Run(newSubject(t), []Rule{rule})
		if _, ok := err.(*Failure); !ok || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rule r1") {
			t.Errorf("%s: %v, want a failure that names the rule and %q", text, err, want)
		}
	}
}

// run applies actions to a subject.
func run(t testing.TB, actions string) (*Subject, error) {
	t.Helper()
	rule, err := Parse(nil, decode[[]any](t, actions))
	if err != nil {
		t.Fatalf("%s: %v", actions, err)
	}
	s := newSubject(t)
	return s, (&Processor{}).Run(s, []Rule{rule})
}

func TestActions(t *testing.T) {
	for actions, check := range map[string]func(*Subject) bool{
		`[{"op":"set-attribute","args":["/properties/cpus","{inventory[cpu][count]}"]}]`:                func(s *Subject) bool { return s.Node.Properties["cpus"] == "8" && s.NodeChanged },
		`[{"op":"set-attribute","args":{"path":"extra.a.b","value":[1]}}]`:                              func(s *Subject) bool { return len(s.Node.Extra["a"].(map[string]any)["b"].([]any)) == 1 },
		`[{"op":"set-attribute","args":["resource_class","{inventory[system_vendor][product_name]}"]}]`: func(s *Subject) bool { return s.Node.ResourceClass == "PowerEdge R640" },
		`[{"op":"set-attribute","args":["driver_info/redfish_password","new"]}]`:                        func(s *Subject) bool { return s.Node.DriverInfo["redfish_password"] == "sealed new" },
		`[{"op":"set-attribute","args":["driver_info/snmp_port","abc"]}]`:                               func(s *Subject) bool { return s.Node.DriverInfo["snmp_port"] == "abc" }, // no interface reads it
		`[{"op":"set-attribute","args":["driver_info/ipmi_address","{inventory[bmc_address]}"]},{"op":"set-attribute","args":["driver_info/ipmi_port",6230]}]`: func(s *Subject) bool {
			return s.Node.DriverInfo["ipmi_address"] == "192.0.2.7"
		},
		`[{"op":"set-attribute","args":["disable_power_off",true]}]`: func(s *Subject) bool { return s.Node.DisablePowerOff },
		`[{"op":"extend-attribute","args":["extra/l","a"]},{"op":"extend-attribute","args":["extra/l","a",true]},{"op":"extend-attribute","args":["extra/l","a"]}]`: func(s *Subject) bool {
			return len(s.Node.Extra["l"].([]any)) == 2
		},
		`[{"op":"del-attribute","args":["properties/capabilities"]}]`:                           func(s *Subject) bool { return len(s.Node.Properties) == 0 },
		`[{"op":"set-capability","args":["boot_mode","{inventory[boot][current_boot_mode]}"]}]`: func(s *Subject) bool { return s.Node.Properties["capabilities"] == "a:b,boot_mode:uefi" },
		`[{"op":"unset-capability","args":["a"]}]`:                                              func(s *Subject) bool { return s.Node.Properties["capabilities"] == "boot_mode:bios" },
		`[{"op":"add-trait","args":["CUSTOM_NEW"]},{"op":"remove-trait","args":["CUSTOM_OLD"]},{"op":"remove-trait","args":["CUSTOM_NONE"]}]`: func(s *Subject) bool {
			return s.TraitsChanged && slices.Equal(s.Node.Traits, []string{"CUSTOM_NEW"})
		},
		`[{"op":"set-plugin-data","args":["a.b","{inventory[cpu][count]}"]},{"op":"extend-plugin-data","args":["a.l",1]}]`: func(s *Subject) bool {
			a := s.Plugin["a"].(map[string]any)
			return a["b"] == "8" && len(a["l"].([]any)) == 1
		},
		`[{"op":"set-plugin-data","args":{"path":"a","value":"x","plugin_data":{}}},{"op":"unset-plugin-data","args":{"path":"a","plugin_data":"{plugin_data}"}}]`: func(s *Subject) bool { return len(s.Plugin) == 0 },
		`[{"op":"set-plugin-data","args":["a","x"]},{"op":"unset-plugin-data","args":["a"]}]`:                                                                      func(s *Subject) bool { return len(s.Plugin) == 0 },
		`[{"op":"set-port-attribute","args":["` + portID + `","physical_network","{node.name}"]}]`:                                                                 func(s *Subject) bool { return s.Ports[0].PhysicalNetwork == "node-1" && s.Changed[portID] != nil },
		`[{"op":"extend-port-attribute","args":["` + portID + `","extra/l",1]},{"op":"del-port-attribute","args":["` + portID + `","extra/l"]}]`: func(s *Subject) bool {
			return len(s.Ports[0].Extra) == 0
		},
		`[{"op":"set-attribute","args":{"path":"{item[path]}","value":"{item[value]}"},"loop":[{"path":"extra/a","value":"{inventory[cpu][count]}"},{"path":"extra/b","value":"x"}]}]`: func(s *Subject) bool {
			return s.Node.Extra["a"] == "8" && s.Node.Extra["b"] == "x"
		},
		`[{"op":"add-trait","args":["CUSTOM_{item}"],"loop":["A","B"]}]`: func(s *Subject) bool { return len(s.Node.Traits) == 3 },
		`[{"op":"log","args":["hello {node.name}","warning"]}]`:          func(s *Subject) bool { return !s.NodeChanged },
		`[{"op":"api-call","args":{"url":"http://hook.example/{node.uuid}","timeout":900,"retries":99,"headers":{"X":"y"}}}]`: func(s *Subject) bool {
			c := s.Calls[0]
			return c.URL == "http://hook.example/n" && c.Timeout == maxCallTimeout && c.Retries == maxCallRetries && c.Headers["X"] == "y"
		},
	} {
		if s, err := run(t, actions); err != nil || !check(s) {
			t.Errorf("%s: error %v, node %+v, plugin %v, port %+v", actions, err, s.Node, s.Plugin, s.Ports[0])
		}
	}
}

func TestActionsThatFail(t *testing.T) {
	for actions, want := range map[string]string{
		`[{"op":"fail","args":["no {node.name}"]}]`:                                            "Failed to inspect hardware. Reason: no node-1",
		`[{"op":"log","args":["x","loud"]}]`:                                                   "log level",
		`[{"op":"set-attribute","args":["provision_state","active"]}]`:                         "not for rules to change",
		`[{"op":"set-attribute","args":["colour","red"]}]`:                                     "no attribute",
		`[{"op":"set-attribute","args":["resource_class",5]}]`:                                 "is no text",
		`[{"op":"set-attribute","args":["driver_info/ipmi_port","{node.name}"]}]`:              `attribute driver_info/ipmi_port: ipmi_port "node-1" is not a valid integer`,
		`[{"op":"set-attribute","args":["driver_info",{"redfish_address":"ftp://bmc"}]}]`:      `attribute driver_info: redfish_address has the scheme "ftp": give https`,
		`[{"op":"set-attribute","args":["properties","x"]}]`:                                   "is no object",
		`[{"op":"set-attribute","args":["resource_class","` + strings.Repeat("x", 81) + `"]}]`: "more than 80 characters",
		`[{"op":"set-attribute","args":["description","a\u0000"]}]`:                            "NUL",
		`[{"op":"set-attribute","args":["properties/capabilities/x","x"]}]`:                    "is no object",
		`[{"op":"extend-attribute","args":["properties/capabilities","x"]}]`:                   "is no list",
		`[{"op":"del-attribute","args":["extra/none"]}]`:                                       "nothing to remove",
		`[{"op":"add-trait","args":["bad trait"]}]`:                                            "no name of a trait",
		`[{"op":"set-port-attribute","args":["none","extra/a",1]}]`:                            "port none could not be found",
		`[{"op":"set-port-attribute","args":["` + portID + `","address","x"]}]`:                "not for rules to change",
		`[{"op":"api-call","args":["file:///etc/passwd"]}]`:                                    "no http or https URL",
		`[{"op":"set-capability","args":["a,b","c"]}]`:                                         "capability",
	} {
		if _, err := run(t, actions); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", actions, err, want)
		}
	}
}

// FuzzRule holds that whatever parses can be applied without a panic.
func FuzzRule(f *testing.F) {
	f.Add(`[{"op":"eq","args":[["{item[a]}","b"]],"loop":[{"a":1}],"multiple":"all"}]`, `[{"op":"set-attribute","args":["extra/a",{"{node.name}":[1]}]}]`)
	f.Add(`[{"op":"!in-net","args":{"address":"{inventory[bmc_address]}","subnet":"::/0"}}]`, `[{"op":"extend-plugin-data","args":["a.b.c",null,1]}]`)
	f.Add(`[{"op":"matches","args":["x","(a|b)*$"]}]`, `[{"op":"unset-capability","args":["{{}}"]},{"op":"api-call","args":["http://x","y"]}]`)
	f.Fuzz(func(t *testing.T, conditions, actions string) {
		var c, a []any
		if json.Unmarshal([]byte(conditions), &c) != nil || json.Unmarshal([]byte(actions), &a) != nil {
			return
		}
		rule, err := Parse(c, a)
		if err != nil {
			return
		}
		s := newSubject(t)
		err = Default().Run(s, []Rule{rule})
		if _, ok := err.(*Failure); !ok && err != nil {
			t.Errorf("%T is no failure: %v", err, err)
		}
		if _, err := json.Marshal(s.Node.Extra); err != nil {
			t.Errorf("what the rule made cannot be written: %v", err)
		}
	})
}
