package drivers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// all is the options that enable each hardware type.
var all = Options{Enabled: []string{"redfish", "idrac", "ilo", "ilo5", "irmc", "ipmi", "intel-ipmi", "libvirt", "cisco-ucs-managed", "cisco-ucs-standalone", "asrockrack", "seamicro", "msftocs", "amt", "ssh", "vbox", "rpc",
	"snmp", "iboot", "wol", "manual-management", "fake-hardware"}}

func TestEveryTypeServesEveryKind(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	have := s.Describe()
	for name, first := range map[string]map[string]string{
		"redfish":              {"power": "redfish", "boot": "ipxe", "deploy": "direct", "inspect": "redfish", "network": "flat", "rescue": "no-rescue"},
		"idrac":                {"power": "idrac-redfish", "management": "idrac-redfish", "boot": "ipxe", "bios": "idrac-redfish", "raid": "idrac-redfish", "inspect": "idrac-redfish", "firmware": "redfish", "vendor": "idrac-redfish"},
		"ilo":                  {"power": "ilo", "management": "ilo", "boot": "ilo-virtual-media", "bios": "ilo", "inspect": "ilo", "vendor": "ilo", "raid": "no-raid", "console": "no-console"},
		"ilo5":                 {"power": "ilo", "management": "ilo5", "boot": "ilo-virtual-media", "bios": "ilo", "inspect": "ilo", "vendor": "ilo", "raid": "ilo5"},
		"irmc":                 {"power": "irmc", "management": "irmc", "boot": "irmc-virtual-media", "bios": "irmc", "inspect": "irmc", "vendor": "no-vendor", "raid": "no-raid"},
		"ipmi":                 {"power": "ipmitool", "management": "ipmitool", "boot": "ipxe", "inspect": "agent", "vendor": "ipmitool", "console": "no-console"},
		"intel-ipmi":           {"power": "ipmitool", "management": "intel-ipmitool", "vendor": "ipmitool"},
		"fake-hardware":        {"power": "fake", "vendor": "fake", "network": "flat", "storage": "noop"},
		"snmp":                 {"power": "snmp", "management": "noop", "boot": "ipxe", "deploy": "direct", "inspect": "agent", "network": "flat", "storage": "noop"},
		"libvirt":              {"power": "libvirt", "management": "libvirt", "boot": "ipxe", "deploy": "direct", "inspect": "agent"},
		"iboot":                {"power": "iboot", "management": "noop", "boot": "ipxe", "deploy": "direct", "inspect": "agent"},
		"wol":                  {"power": "wol", "management": "noop", "boot": "ipxe", "deploy": "direct", "inspect": "agent"},
		"manual-management":    {"power": "agent", "management": "noop", "boot": "ipxe", "deploy": "direct", "inspect": "agent"},
		"cisco-ucs-managed":    {"power": "ucsm", "management": "ucsm", "boot": "ipxe", "deploy": "direct", "vendor": "ipmitool"},
		"cisco-ucs-standalone": {"power": "cimc", "management": "cimc", "boot": "ipxe", "deploy": "direct"},
		"asrockrack":           {"power": "asrockrack", "management": "asrockrack", "boot": "ipxe", "deploy": "direct", "inspect": "agent", "firmware": "asrockrack", "vendor": "asrockrack"},
		"seamicro":             {"power": "seamicro", "management": "seamicro", "vendor": "seamicro"},
		"msftocs":              {"power": "msftocs", "management": "msftocs"},
		"amt":                  {"power": "amt", "management": "amt", "boot": "ipxe", "deploy": "direct"},
		"ssh":                  {"power": "ssh", "management": "ssh"},
		"rpc":                  {"power": "rpc", "management": "rpc"},
		"vbox":                 {"power": "virtualbox", "management": "virtualbox"},
	} {
		for _, kind := range node.InterfaceKinds {
			if len(have[name][kind]) == 0 {
				t.Errorf("%s has no %s interface", name, kind)
			} else if want := first[kind]; want != "" && have[name][kind][0] != want {
				t.Errorf("%s: the first %s interface is %s, want %s", name, kind, have[name][kind][0], want)
			}
		}
		if _, err := s.Resolve(&node.Document{UUID: "u", Driver: name}); err != nil {
			t.Error(err)
		}
	}
	if inspect := have["redfish"]["inspect"]; !slices.Contains(inspect, "agent") {
		t.Errorf("redfish has the inspect interfaces %v, and not the agent's", inspect)
	}
	if p, err := s.Properties("redfish"); err != nil || p["redfish_address"] == "" {
		t.Errorf("properties of redfish: %v, %v", p, err)
	}
}

func TestEnabled(t *testing.T) {
	s, err := Open(Options{Enabled: []string{"fake-hardware"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	if d := s.Describe(); len(d) != 1 || d["fake-hardware"] == nil {
		t.Errorf("enabled: %v", d)
	}
	byDefault, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = byDefault.Close(t.Context()) }()
	if d := byDefault.Describe(); d["redfish"] == nil || d["ipmi"] == nil || d["snmp"] == nil || d["iboot"] == nil || d["libvirt"] == nil || d["wol"] == nil || d["manual-management"] == nil || d["fake-hardware"] != nil {
		t.Errorf("enabled by default: %v", d)
	}
	if _, err := Open(Options{Enabled: []string{"abacus"}}); err == nil || !slices.ContainsFunc([]string{"redfish"}, func(n string) bool { return strings.Contains(err.Error(), n) }) {
		t.Errorf("%v, want an error that lists the types there are", err)
	}
}

// Central knows no driver by its name: each implementation says what central has to know of it.
func TestWhatCentralKnowsOfADriver(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	with := func(hardwareType string, interfaces map[string]string) *driver.Hardware {
		hw, err := s.Resolve(&node.Document{UUID: "u", Driver: hardwareType, Interfaces: interfaces})
		if err != nil {
			t.Fatal(err)
		}
		return hw
	}
	for _, c := range []struct {
		driver, inspect string
		want            work.Source
	}{
		{"redfish", "redfish", work.FromBMC}, {"ilo", "ilo", work.FromBMC}, {"idrac", "idrac-redfish", work.FromBMC}, {"irmc", "irmc", work.FromBMC}, {"redfish", "agent", work.FromRamdisk}, {"ipmi", "agent", work.FromRamdisk},
		{"fake-hardware", "fake", work.MadeUp}, {"fake-hardware", "agent", work.FromRamdisk},
	} {
		if got := with(c.driver, map[string]string{"inspect": c.inspect}).Source(); got != c.want {
			t.Errorf("%s, inspect interface %s: what is found is told by %q, want %q", c.driver, c.inspect, got, c.want)
		}
	}
	for name, kinds := range s.Describe() {
		for _, impl := range kinds["power"] {
			power := with(name, map[string]string{"power": impl}).Power()
			if _, logsIn := power.(driver.Accounted); !logsIn || hosts[impl] {
				continue
			}
			found := 0
			for field := range power.Properties() {
				if word, rest, _ := strings.Cut(field, "_"); word != "" && rest == "address" {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s, power interface %s: %d fields say where the BMC is, want one that is called as redfish_address is: central looks for it", name, impl, found)
			}
		}
	}
	for _, name := range []string{"redfish", "idrac", "ilo", "ilo5", "irmc"} {
		if _, located := with(name, nil).Management().(driver.Located); !located {
			t.Errorf("agents of %s machines look for the BMC's address, which the node has", name)
		}
	}
	for _, name := range []string{"redfish", "idrac", "ilo", "ilo5", "irmc"} {
		if _, can := with(name, nil).Management().(driver.ISCSIBooter); !can {
			t.Errorf("%s machines are given no iSCSI target", name)
		}
	}
}

// Clients that are tried with fake hardware find the interfaces that Ironic's has by name.
func TestFakeHardwareHasTheGenericInterfaces(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for kind, names := range map[string][]string{"boot": {"fake", "pxe", "ipxe", "http", "http-ipxe"}, "rescue": {"fake", "agent", "no-rescue"}, "raid": {"fake", "agent", "no-raid"},
		"deploy": {"fake", "direct", "ramdisk", "anaconda", "custom-agent"}, "inspect": {"fake", "agent", "no-inspect"}, "network": {"noop", "flat"}, "storage": {"noop", "fake"}} {
		for _, name := range names {
			if _, err := s.Resolve(&node.Document{UUID: "u", Driver: "fake-hardware", Interfaces: map[string]string{kind: name}}); err != nil {
				t.Errorf("%s interface %s: %v", kind, name, err)
			}
		}
	}
}

// hosts are power interfaces that log in to a host, a chassis or a service of many machines. No ramdisk finds its address, by which central
// would know the machine.
var hosts = map[string]bool{"libvirt": true, "virtualbox": true, "seamicro": true, "msftocs": true, "rpc": true}

// Nodes that share a host, a chassis or a manager are asked one after the other, and its silence counts for all of them: else
// one that is dead would hold all that read power.
func TestSharedBMCsAreAccounted(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for name, c := range map[string]struct {
		impl string
		info map[string]any
	}{
		"libvirt":           {"libvirt", map[string]any{"libvirt_uri": "qemu+ssh://host.example/system", "libvirt_domain": "a", "libvirt_username": "u", "libvirt_password": "p", "libvirt_host_key": "false"}},
		"vbox":              {"virtualbox", map[string]any{"virtualbox_host": "host.example", "virtualbox_vmname": "a"}},
		"seamicro":          {"seamicro", map[string]any{"seamicro_api_endpoint": "http://chassis.example/v2.0", "seamicro_username": "u", "seamicro_password": "p", "seamicro_server_id": "1/0"}},
		"msftocs":           {"msftocs", map[string]any{"msftocs_base_url": "http://chassis.example", "msftocs_blade_id": 1.0, "msftocs_username": "u", "msftocs_password": "p"}},
		"cisco-ucs-managed": {"ucsm", map[string]any{"ucs_address": "ucs.example", "ucs_username": "u", "ucs_password": "p", "ucs_service_profile": "org-root/ls-a"}},
	} {
		hw, err := s.Resolve(&node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{"power": c.impl}})
		if err != nil {
			t.Fatal(err)
		}
		shared, is := hw.Power().(driver.Accounted)
		if !is {
			t.Errorf("%s names no account", name)
			continue
		}
		account := func(more map[string]any) string {
			info := maps.Clone(c.info)
			maps.Copy(info, more)
			return shared.Account(&node.Document{UUID: "u", Driver: name, DriverInfo: info})
		}
		one := account(nil)
		other := account(map[string]any{"libvirt_domain": "b", "virtualbox_vmname": "b", "seamicro_server_id": "2/0", "msftocs_blade_id": 2.0, "ucs_service_profile": "org-root/ls-b"})
		if one == "" || one != other || strings.Contains(one, "example") {
			t.Errorf("%s: the accounts of two machines of one host are %q and %q", name, one, other)
		}
		for field := range c.info {
			if strings.HasSuffix(field, "_password") && account(map[string]any{field: "another"}) == one {
				t.Errorf("%s: the account stays with another password", name)
			}
		}
	}
}

// placeless are fields of another driver's name that say nothing of where a secret goes, each with its reason.
var placeless = map[string]bool{
	"ironyard_media_https":    true, // how the BMC loads images from rackd itself, whose addresses no field says
	"ironyard_min_disk_bytes": true, // which disk of the machine an image goes to, of the deploy interfaces that have secrets of image servers
	// They say which playbook runs, and as which user. Playbooks are told no secret of image servers.
	"ansible_username": true, "ansible_key_file": true, "ansible_playbooks_path": true, "ansible_deploy_playbook": true, "ansible_python_interpreter": true,
	"ansible_shutdown_playbook": true, "ansible_clean_playbook": true, "ansible_clean_steps_config": true,
	"vbox_use_headless": true, // how VirtualBox starts a machine; Ironic's driver ssh has it by this name
}

// Central holds a secret back by the names of fields (seal.DecidesPlace): so an implementation that sends
// one reads no field with the name of another driver's, which could say where to.
func TestSecretsGoWhereFieldsOfTheirDriverSay(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	secrets := 0
	for name, kinds := range s.Describe() {
		for kind, impls := range kinds {
			for _, impl := range impls {
				hw, err := s.Resolve(&node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{kind: impl}})
				if err != nil {
					t.Fatal(err)
				}
				properties := hw.Kinds()[kind].Impl.Properties()
				for secret := range properties {
					if !seal.IsSecret(secret) {
						continue
					}
					secrets++
					for field := range properties {
						if !seal.DecidesPlace(field, secret) && !placeless[field] {
							t.Errorf("%s, %s interface %s: %s is not of the driver of the secret %s", name, kind, impl, field, secret)
						}
					}
				}
			}
		}
	}
	if secrets == 0 {
		t.Error("no driver declares a secret")
	}
}

// What Ironic has by a name, and what the machine's BMC speaks besides, can be chosen; the defaults stay.
func TestInterfacesBesideTheDefaults(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	have := s.Describe()
	for name, kinds := range map[string]map[string]string{
		"ilo":   {"console": "no-console redfish-serial ilo"},
		"ilo5":  {"console": "no-console redfish-serial ilo"},
		"idrac": {"boot": "ipxe pxe idrac-redfish-virtual-media redfish-https http http-ipxe"},
		"irmc":  {"console": "no-console ipmitool-socat ipmitool-shellinabox"},
		"cisco-ucs-standalone": {"power": "cimc ipmitool redfish", "management": "cimc ipmitool redfish noop", "bios": "no-bios redfish", "raid": "no-raid redfish",
			"firmware": "no-firmware redfish", "vendor": "ipmitool no-vendor redfish", "inspect": "agent no-inspect redfish",
			"boot":    "ipxe pxe http http-ipxe redfish-virtual-media redfish-https",
			"console": "no-console ipmitool-socat ipmitool-shellinabox redfish-serial"},
		"asrockrack": {"power": "asrockrack ipmitool", "management": "asrockrack ipmitool", "inspect": "agent no-inspect asrockrack", "firmware": "asrockrack no-firmware", "vendor": "asrockrack ipmitool no-vendor",
			"console": "no-console ipmitool-socat ipmitool-shellinabox"},
	} {
		for kind, want := range kinds {
			if is := strings.Join(have[name][kind], " "); is != want {
				t.Errorf("%s: the %s interfaces are %s, want %s", name, kind, is, want)
			}
		}
	}
	// Serial consoles are carried by rackd, and are of the machine's own fields.
	for name, fields := range map[string][]string{"ilo redfish-serial": {"ilo_address", "ilo_ssh_host_key", "ilo_ssh_shared_cli"}, "ilo ilo": {"ilo_address", "ilo_ipmi_port", "console_port"},
		"irmc ipmitool-socat": {"irmc_address", "irmc_ipmi_port"}, "cisco-ucs-standalone redfish-serial": {"redfish_address", "redfish_ssh_host_key"}} {
		hardwareType, console, _ := strings.Cut(name, " ")
		hw, err := s.Resolve(&node.Document{UUID: "u", Driver: hardwareType, Interfaces: map[string]string{"console": console}})
		if err != nil {
			t.Fatal(err)
		}
		if _, serial := hw.Console().(driver.Serial); !serial {
			t.Errorf("%s is no serial console", name)
		}
		properties := hw.Console().Properties()
		for _, field := range fields {
			if properties[field] == "" {
				t.Errorf("%s does not read %s", name, field)
			}
		}
	}
}

// The tasks that hardware types declare for their idle nodes are those of the documentation (docs/monitoring.md).
func TestPeriodicTasksOfTypes(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var tasks []string
	s.Periodics(func(hardware string, p driver.Periodic) { tasks = append(tasks, hardware+"."+p.Name) })
	if !slices.Equal(tasks, []string{"idrac.jobs"}) {
		t.Errorf("tasks %q", tasks)
	}
}
