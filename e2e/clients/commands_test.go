package clients

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryCommand runs every command that Debian's baremetal has, and fails when one
// was left out.
func TestEveryCommand(t *testing.T) {
	s := newSession(t, fleet(t))
	for _, part := range []struct {
		name string
		run  func(*session)
	}{
		{"drivers", driversAndConductors}, {"chassis", chassis}, {"enrolled", enrolled}, {"hardware", hardware}, {"ports", portCommands},
		{"port groups", portGroups}, {"volumes", volumes}, {"instance", instance}, {"rescue", rescue}, {"allocations", allocate},
		{"deploy templates", deployTemplates}, {"adopted", adopted}, {"newer", newerCommands}, {"file", file},
	} {
		t.Run(part.name, func(t *testing.T) {
			whole := s.t
			s.t = t
			defer func() { s.t = whole }()
			part.run(s)
		})
	}
	for _, c := range s.commands {
		if !s.ran[c] {
			t.Errorf("no test runs: baremetal %s", c)
		}
	}
}

func driversAndConductors(s *session) {
	s.want([]string{"hostname=rackd-dev", "alive=true"}, "conductor", "show", "rackd-dev")
	if l := s.list("conductor", "list"); len(l) != 1 || l[0]["hostname"] != "rackd-dev" {
		s.t.Errorf("conductors: %v", l)
	}
	names := func(rows []map[string]any, column string) (out []string) {
		for _, r := range rows {
			out = append(out, brief(r[column]))
		}
		return out
	}
	if l := names(s.list("driver", "list"), "name"); !slices.Contains(l, "fake-hardware") {
		s.t.Errorf("drivers: %v", l)
	}
	s.want([]string{"name=fake-hardware", "type=dynamic", "default_power_interface=fake"}, "driver", "show", "fake-hardware")
	s.list("driver", "property", "list", "fake-hardware")
	if l := names(s.list("driver", "raid", "property", "list", "fake-hardware"), "property"); !slices.Contains(l, "raid_level") {
		s.t.Errorf("properties of logical disks: %v", l)
	}
	if l := s.list("driver", "passthru", "list", "fake-hardware"); len(l) == 0 {
		s.t.Error("fake-hardware has no methods")
	}
	s.refused("", "driver", "passthru", "call", "fake-hardware", "no_such_method")
	s.refused("none-such", "driver", "show", "none-such")
}

func chassis(s *session) {
	id := s.object("chassis", "create", "--description", "row 7", "--extra", "a=1")["uuid"].(string)
	s.run("chassis", "set", id, "--description", "row 8", "--extra", "b=2")
	s.want([]string{"description=row 8", `extra={"a":1,"b":2}`}, "chassis", "show", id)
	s.run("chassis", "unset", id, "--description", "--extra", "a")
	s.want([]string{"description=null", `extra={"b":2}`}, "chassis", "show", id)
	s.run("node", "create", "--driver", "fake-hardware", "--name", "in-chassis", "--chassis-uuid", id)
	if l := s.list("node", "list", "--chassis", id); len(l) != 1 {
		s.t.Errorf("nodes of the chassis: %v", l)
	}
	s.refused("", "chassis", "delete", id)
	s.run("node", "unset", "in-chassis", "--chassis-uuid")
	s.run("chassis", "delete", id)
	s.run("node", "delete", "in-chassis")
	if l := s.list("chassis", "list"); len(l) != 0 {
		s.t.Errorf("chassis are left: %v", l)
	}
}

func enrolled(s *session) {
	s.want([]string{"provision_state=enroll", "driver=fake-hardware"}, "node", "create", "--driver", "fake-hardware", "--name", "one",
		"--driver-info", "fake_password=hunter2", "--property", "cpus=4", "--extra", "a=1", "--resource-class", "gold")
	if info := brief(s.object("node", "show", "one")["driver_info"]); strings.Contains(info, "hunter2") {
		s.t.Errorf("driver_info shows a password: %s", info)
	}
	s.run("node", "set", "one", "--description", "the first", "--owner", "me", "--lessee", "you", "--property", "local_gb=10", "--boot-interface", "fake",
		"--network-data", `{"links":[],"networks":[],"services":[]}`, "--automated-clean")
	s.want([]string{"description=the first", "lessee=you", "owner=me", "automated_clean=true"}, "node", "show", "one")
	s.run("node", "unset", "one", "--description", "--lessee", "--property", "local_gb", "--automated-clean", "--owner", "--network-data", "--boot-interface")
	s.want([]string{"description=null", "lessee=null", "owner=null", "automated_clean=null"}, "node", "show", "one")
	s.refused("already exists", "node", "create", "--driver", "fake-hardware", "--name", "one")
	s.run("node", "maintenance", "set", "one", "--reason", "a look inside")
	s.want([]string{"maintenance=true", "maintenance_reason=a look inside"}, "node", "show", "one")
	s.run("node", "maintenance", "unset", "one")
	s.run("node", "add", "trait", "one", "CUSTOM_GOLD", "HW_CPU_X86_VMX")
	if l := s.list("node", "trait", "list", "one"); len(l) != 2 {
		s.t.Errorf("traits: %v", l)
	}
	s.run("node", "remove", "trait", "one", "HW_CPU_X86_VMX")
	s.refused("", "node", "remove", "trait", "one", "HW_CPU_X86_VMX")
	s.run("node", "manage", "one", "--wait", "60")
	s.run("node", "inspect", "one", "--wait", "60")
	s.run("node", "clean", "one", "--wait", "60", "--clean-steps", `[{"interface":"deploy","step":"erase_devices"}]`)
	s.want([]string{"provision_state=manageable", "last_error=null"}, "node", "show", "one")
	if l := s.list("node", "list", "--provision-state", "manageable", "--long"); len(l) != 1 {
		s.t.Errorf("manageable nodes: %v", l)
	}
	events := s.list("node", "history", "list", "one")
	if len(events) == 0 {
		s.t.Fatal("the node has no history")
	}
	s.want([]string{"uuid=" + brief(events[0]["uuid"])}, "node", "history", "get", "one", brief(events[0]["uuid"]))
	if v := s.list("node", "validate", "one"); len(v) < 10 {
		s.t.Errorf("validation: %v", v)
	}
}

func hardware(s *session) {
	s.run("node", "power", "on", "one", "--power-timeout", "60")
	s.waitFor("power_state=power on", "node", "show", "one")
	s.run("node", "reboot", "one")
	s.waitFor("target_power_state=null", "node", "show", "one")
	s.run("node", "reboot", "one", "--soft", "--power-timeout", "30")
	s.waitFor("target_power_state=null", "node", "show", "one")
	s.run("node", "power", "off", "one", "--soft", "--power-timeout", "30")
	s.waitFor("power_state=power off", "node", "show", "one")
	s.run("node", "boot", "device", "set", "one", "disk", "--persistent")
	s.want([]string{"boot_device=disk", "persistent=true"}, "node", "boot", "device", "show", "one")
	if out := s.run("node", "boot", "device", "show", "one", "--supported", "-f", "value"); !strings.Contains(out, "pxe") {
		s.t.Errorf("supported boot devices: %s", out)
	}
	s.run("node", "boot", "mode", "set", "one", "bios")
	s.waitFor("boot_mode=bios", "node", "show", "one")
	s.run("node", "boot", "mode", "set", "one", "uefi")
	s.waitFor("boot_mode=uefi", "node", "show", "one")
	s.run("node", "secure", "boot", "on", "one")
	s.waitFor("secure_boot=true", "node", "show", "one")
	s.run("node", "secure", "boot", "off", "one")
	s.waitFor("secure_boot=false", "node", "show", "one")
	s.run("node", "inject", "nmi", "one")
	s.run("node", "set", "one", "--console-interface", "fake")
	s.run("node", "console", "enable", "one")
	s.waitFor("console_enabled=true", "node", "console", "show", "one")
	s.run("node", "console", "disable", "one")
	s.waitFor("console_enabled=false", "node", "console", "show", "one")
	if l := s.list("node", "passthru", "list", "one"); len(l) == 0 {
		s.t.Error("the node has no methods")
	}
	s.run("node", "passthru", "call", "one", "second_method", "--http-method", "POST", "--arg", "bar=meow")
	s.refused("", "node", "passthru", "call", "one", "no_such_method")
	s.run("node", "set", "one", "--target-raid-config", `{"logical_disks":[{"size_gb":100,"raid_level":"1"}]}`)
	if c := s.object("node", "show", "one")["target_raid_config"]; !strings.Contains(brief(c), "raid_level") {
		s.t.Errorf("target_raid_config: %v", c)
	}
	s.run("node", "unset", "one", "--target-raid-config")
	settings := s.list("node", "bios", "setting", "list", "one")
	if len(settings) == 0 {
		s.t.Fatal("the node has no BIOS settings")
	}
	name := brief(settings[0]["name"])
	s.want([]string{"name=" + name}, "node", "bios", "setting", "show", "one", name)
}

const portMAC = "52:54:00:00:00:01"

func portCommands(s *session) {
	node := brief(s.object("node", "show", "one")["uuid"])
	id := brief(s.object("port", "create", portMAC, "--node", node, "--physical-network", "net1", "--extra", "a=1")["uuid"])
	s.refused("already exists", "port", "create", portMAC, "--node", node)
	s.run("port", "set", id, "--pxe-disabled", "--local-link-connection", "switch_id=0a:1b:2c:3d:4e:5f", "--local-link-connection", "port_id=e1", "--extra", "b=2")
	s.want([]string{"pxe_enabled=false", `extra={"a":1,"b":2}`, "physical_network=net1"}, "port", "show", id)
	s.run("port", "unset", id, "--extra", "a", "--physical-network")
	s.run("port", "set", id, "--pxe-enabled")
	s.want([]string{"physical_network=null", "address=" + portMAC}, "port", "show", "--address", portMAC)
	if l := s.list("port", "list", "--node", "one", "--long"); len(l) != 1 {
		s.t.Errorf("ports: %v", l)
	}
	const vif = "9f2b1f5c-7c4e-4f0e-9a0d-3c1d4b5e6f70"
	s.run("node", "vif", "attach", "one", vif)
	if l := s.list("node", "vif", "list", "one"); len(l) != 1 || l[0]["id"] != vif {
		s.t.Errorf("VIFs: %v", l)
	}
	s.refused("", "node", "vif", "attach", "one", vif)
	s.run("node", "vif", "detach", "one", vif)
	s.run("port", "delete", id)
	s.refused("could not be found", "port", "show", id)
}

func portGroups(s *session) {
	node := brief(s.object("node", "show", "one")["uuid"])
	id := brief(s.object("port", "group", "create", "--node", node, "--name", "bond0", "--address", "52:54:00:00:00:10", "--mode", "802.3ad", "--property", "miimon=100")["uuid"])
	s.run("port", "group", "set", "bond0", "--unsupport-standalone-ports", "--extra", "a=1", "--mode", "active-backup")
	s.want([]string{"mode=active-backup", "standalone_ports_supported=false", "name=bond0"}, "port", "group", "show", id)
	s.refused("standalone", "port", "create", portMAC, "--node", node, "--pxe-enabled", "true", "--port-group", id)
	s.run("port", "group", "set", "bond0", "--support-standalone-ports")
	port := brief(s.object("port", "create", portMAC, "--node", node, "--port-group", id)["uuid"])
	if l := s.list("port", "list", "--port-group", id); len(l) != 1 {
		s.t.Errorf("ports of the group: %v", l)
	}
	s.refused("", "port", "group", "delete", id)
	s.run("port", "unset", port, "--port-group")
	s.run("port", "delete", port)
	s.run("port", "group", "unset", "bond0", "--address", "--extra", "a", "--property", "miimon")
	s.run("port", "group", "unset", "bond0", "--name")
	s.want([]string{"address=null", "name=null"}, "port", "group", "show", id)
	if l := s.list("port", "group", "list", "--node", "one"); len(l) != 1 {
		s.t.Errorf("port groups: %v", l)
	}
	s.run("port", "group", "delete", id)
}

func volumes(s *session) {
	node := brief(s.object("node", "show", "one")["uuid"])
	const iqn = "iqn.2026-11.org.example:one"
	connector := brief(s.object("volume", "connector", "create", "--node", node, "--type", "iqn", "--connector-id", iqn)["uuid"])
	s.run("volume", "connector", "set", connector, "--extra", "a=1", "--connector-id", iqn+"x")
	s.want([]string{"connector_id=" + iqn + "x", `extra={"a":1}`}, "volume", "connector", "show", connector)
	s.run("volume", "connector", "unset", connector, "--extra", "a")
	if l := s.list("volume", "connector", "list", "--node", "one"); len(l) != 1 {
		s.t.Errorf("connectors: %v", l)
	}
	target := brief(s.object("volume", "target", "create", "--node", node, "--type", "iscsi", "--boot-index", "0", "--volume-id", "v1", "--property", "target_lun=1")["uuid"])
	s.run("volume", "target", "set", target, "--volume-id", "v2", "--extra", "a=1")
	s.want([]string{"volume_id=v2", "boot_index=0"}, "volume", "target", "show", target)
	s.run("volume", "target", "unset", target, "--extra", "a", "--property", "target_lun")
	if l := s.list("volume", "target", "list", "--node", "one"); len(l) != 1 {
		s.t.Errorf("targets: %v", l)
	}
	s.run("volume", "target", "delete", target)
	s.run("volume", "connector", "delete", connector)
}

func instance(s *session) {
	s.run("node", "provide", "one", "--wait", "60")
	s.run("node", "set", "one", "--instance-info", "image_source=http://example.org/i.raw")
	s.run("node", "deploy", "one", "--wait", "60", "--config-drive", `{"meta_data":{"hostname":"one"}}`)
	s.want([]string{"provision_state=active", "last_error=null"}, "node", "show", "one")
	s.run("node", "set", "one", "--protected", "--protected-reason", "precious")
	s.refused("protected", "node", "undeploy", "one")
	s.run("node", "unset", "one", "--protected")
	s.run("node", "rebuild", "one", "--wait", "60")
	s.want([]string{"provision_state=active"}, "node", "show", "one")
}

func rescue(s *session) {
	s.run("node", "rescue", "one", "--wait", "60", "--rescue-password", "let me in")
	s.want([]string{"provision_state=rescue"}, "node", "show", "one")
	s.run("node", "unrescue", "one", "--wait", "60")
	s.run("node", "undeploy", "one", "--wait", "60")
	s.want([]string{"provision_state=available", "instance_info={}", "instance_uuid=null"}, "node", "show", "one")
	s.refused("", "node", "abort", "one")
}

func allocate(s *session) {
	s.waitFor("power_state=power off", "node", "show", "one")
	s.want([]string{"state=active", "name=a1"}, "allocation", "create", "--resource-class", "gold", "--trait", "CUSTOM_GOLD", "--name", "a1", "--wait", "60")
	a := s.object("allocation", "show", "a1")
	s.want([]string{"instance_uuid=" + brief(a["uuid"]), "allocation_uuid=" + brief(a["uuid"])}, "node", "show", "one")
	s.run("allocation", "set", "a1", "--extra", "a=1")
	s.want([]string{`extra={"a":1}`}, "allocation", "show", "a1")
	s.run("allocation", "unset", "a1", "--extra", "a")
	s.refused("", "allocation", "create", "--resource-class", "gold", "--name", "a2", "--wait", "60")
	s.want([]string{"state=error"}, "allocation", "show", "a2")
	if l := s.list("allocation", "list", "--state", "active"); len(l) != 1 {
		s.t.Errorf("active allocations: %v", l)
	}
	s.run("allocation", "delete", "a1", "a2")
	s.want([]string{"instance_uuid=null", "allocation_uuid=null"}, "node", "show", "one")
}

func deployTemplates(s *session) {
	const steps = `[{"interface":"bios","step":"apply_configuration","args":{"settings":[{"name":"a","value":"b"}]},"priority":150}]`
	id := brief(s.object("deploy", "template", "create", "CUSTOM_HYPERTHREAD", "--steps", steps)["uuid"])
	s.refused("already exists", "deploy", "template", "create", "CUSTOM_HYPERTHREAD", "--steps", steps)
	s.run("deploy", "template", "set", id, "--extra", "a=1", "--name", "CUSTOM_HT")
	s.want([]string{"name=CUSTOM_HT", `extra={"a":1}`}, "deploy", "template", "show", "CUSTOM_HT")
	s.run("deploy", "template", "unset", id, "--extra", "a")
	if l := s.list("deploy", "template", "list"); len(l) != 1 {
		s.t.Errorf("templates: %v", l)
	}
	s.run("deploy", "template", "delete", id)
}

func adopted(s *session) {
	s.run("node", "create", "--driver", "fake-hardware", "--name", "two")
	s.run("node", "set", "two", "--instance-info", "image_source=http://example.org/i.raw")
	s.run("node", "manage", "two", "--wait", "60")
	s.run("node", "adopt", "two", "--wait", "60")
	s.want([]string{"provision_state=active"}, "node", "show", "two")
	s.refused("", "node", "delete", "two2")
	s.run("node", "undeploy", "two", "--wait", "60")
	s.run("node", "delete", "two")
	s.run("node", "delete", "one")
}

// file creates nodes, chassis and ports from a file.
func file(s *session) {
	const rack = `{"chassis":[{"description":"row 9","nodes":[{"name":"three","driver":"fake-hardware","ports":[{"address":"52:54:00:00:00:31"}],
		"portgroups":[{"name":"bond3","ports":[{"address":"52:54:00:00:00:32"}]}]}]}]}`
	s.run("create", s.system.Put(s.t, "rack.json", []byte(rack)))
	if l := s.list("port", "list", "--node", "three"); len(l) != 2 {
		s.t.Errorf("ports of the file's node: %v", l)
	}
	if l := s.list("node", "list"); len(l) != 1 {
		s.t.Errorf("nodes: %v", l)
	}
}

// waitFor looks until what args show has field=value. Each look takes tens of milliseconds itself.
func (s *session) waitFor(value string, args ...string) {
	s.t.Helper()
	field, want, _ := strings.Cut(value, "=")
	var last string
	for range 200 {
		if last = brief(s.object(args...)[field]); last == want {
			return
		}
	}
	s.t.Fatalf("baremetal %s: %s stays %s, want %s", strings.Join(args, " "), field, last, want)
}
