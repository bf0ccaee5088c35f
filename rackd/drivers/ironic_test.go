package drivers

import (
	"maps"
	"slices"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

// of is lists by kind, with others behind.
func of(base map[string][]string, more map[string][]string) map[string][]string {
	all := maps.Clone(base)
	maps.Copy(all, more)
	return all
}

// generic is what each type of Ironic's has, unless it has its own list.
var generic = map[string][]string{
	"boot":     {"ipxe", "pxe", "http-ipxe", "http"},
	"deploy":   {"autodetect", "direct", "ansible", "ramdisk", "anaconda", "bootc", "custom-agent"},
	"inspect":  {"agent", "no-inspect"},
	"network":  {"flat", "neutron", "ironic-networking", "noop"},
	"raid":     {"no-raid", "agent"},
	"rescue":   {"no-rescue", "agent"},
	"storage":  {"noop", "cinder", "external"},
	"firmware": {"no-firmware"},
	"console":  {"no-console", "fake-graphical"},
	"bios":     {"no-bios"},
	"vendor":   {"no-vendor"},
}

var ofRedfish = of(generic, map[string][]string{
	"power": {"redfish"}, "management": {"redfish", "noop"}, "bios": {"redfish", "no-bios"}, "inspect": {"redfish", "agent", "no-inspect"},
	"boot":   {"ipxe", "pxe", "http-ipxe", "http", "redfish-virtual-media", "redfish-https"},
	"vendor": {"redfish", "no-vendor"}, "raid": {"redfish", "no-raid", "agent"}, "firmware": {"redfish", "no-firmware"},
	"console": {"redfish-graphical", "ipmitool-socat", "no-console"},
})

var ofILO = of(generic, map[string][]string{
	"power": {"ilo"}, "management": {"ilo"}, "bios": {"ilo", "no-bios"}, "inspect": {"ilo", "agent", "no-inspect"}, "boot": {"ilo-virtual-media", "ilo-pxe", "ilo-ipxe"},
	"vendor": {"ilo", "no-vendor"}, "console": {"ilo", "no-console"},
})

var ofIPMI = of(generic, map[string][]string{
	"power": {"ipmitool"}, "management": {"ipmitool", "noop"}, "vendor": {"ipmitool", "no-vendor"}, "console": {"ipmitool-socat", "ipmitool-shellinabox", "no-console"},
})

// ofIronic is the interfaces of Ironic's hardware types: of those that it has dropped, as they were in their last release.
var ofIronic = map[string]map[string][]string{
	"redfish": ofRedfish,
	"idrac": of(ofRedfish, map[string][]string{
		"power": {"idrac-redfish", "redfish"}, "management": {"idrac-redfish"}, "bios": {"idrac-redfish", "redfish", "no-bios"}, "inspect": {"idrac-redfish", "agent", "no-inspect"},
		"boot":   {"ipxe", "pxe", "http-ipxe", "http", "idrac-redfish-virtual-media"}, // and redfish-https, in a change of its own
		"raid":   {"idrac-redfish", "no-raid", "agent"},
		"vendor": {"idrac-redfish", "redfish", "no-vendor"},
	}),
	"ilo": ofILO,
	"ilo5": of(ofILO, map[string][]string{
		"management": {"ilo5"}, "raid": {"ilo5", "no-raid"}, "boot": {"ilo-virtual-media", "ilo-pxe", "ilo-ipxe", "ilo-uefi-https"},
	}),
	"irmc": of(generic, map[string][]string{
		"power": {"irmc", "ipmitool"}, "management": {"irmc"}, "bios": {"irmc", "no-bios"}, "inspect": {"irmc", "agent", "no-inspect"},
		"boot": {"irmc-virtual-media", "irmc-pxe", "ipxe", "pxe"}, "raid": {"no-raid", "irmc", "agent"}, "vendor": {"no-vendor", "irmc"},
		"console": {"ipmitool-socat", "ipmitool-shellinabox", "no-console"},
	}),
	"ipmi":              ofIPMI,
	"intel-ipmi":        of(ofIPMI, map[string][]string{"management": {"intel-ipmitool"}}),
	"snmp":              of(generic, map[string][]string{"power": {"snmp"}, "management": {"noop"}}),
	"manual-management": of(generic, map[string][]string{"power": {"agent", "fake"}, "management": {"noop", "fake"}, "deploy": append([]string{"noop"}, generic["deploy"]...)}),
	"cisco-ucs-managed": of(generic, map[string][]string{"power": {"ucsm", "cimc"}, "management": {"ucsm", "cimc"}}),
	"cisco-ucs-standalone": of(ofRedfish, map[string][]string{"power": {"cimc", "redfish"}, "management": {"cimc", "redfish"},
		"console": {"no-console"}}),
}

// leftOut are interfaces of Ironic's that no hardware type here has, or not that one, with the reason. docs/differences.md says the same.
var leftOut = map[string]string{
	"network neutron":                   "there is no Neutron here",
	"network ironic-networking":         "no switch is configured",
	"raid agent":                        "the agent makes no software RAID",
	"console fake-graphical":            "what is made up is of fake-hardware alone",
	"manual-management power fake":      "what is made up is of fake-hardware alone",
	"manual-management management fake": "what is made up is of fake-hardware alone",
}

// A node of Ironic's finds its interfaces here, by their names.
func TestTypesHaveIronicsInterfaces(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	have, used := s.Describe(), map[string]bool{}
	for name, kinds := range ofIronic {
		for kind, interfaces := range kinds {
			for _, impl := range interfaces {
				missing := !slices.Contains(have[name][kind], impl)
				out := ""
				for _, key := range []string{kind + " " + impl, name + " " + kind + " " + impl} {
					if leftOut[key] != "" {
						out = key
					}
				}
				used[out] = used[out] || missing
				if missing && out == "" {
					t.Errorf("hardware type %s has no %s interface %s, which Ironic's has: it has %v", name, kind, impl, have[name][kind])
				}
				if !missing && out != "" {
					t.Errorf("hardware type %s has the %s interface %s, and the list says: %s", name, kind, impl, leftOut[out])
				}
			}
		}
	}
	for out := range leftOut {
		if !used[out] {
			t.Errorf("%q is not left out of any type", out)
		}
	}
}

// A type that boots a ramdisk can boot it for a rescue.
func TestAllThatBootARamdiskRescue(t *testing.T) {
	s, err := Open(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for name, kinds := range s.Describe() {
		if list := kinds["rescue"]; !slices.Contains(list, "agent") || name != "fake-hardware" && list[0] != "no-rescue" {
			t.Errorf("%s has the rescue interfaces %v", name, list)
		}
		hw, err := s.Resolve(&node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{"rescue": "agent"}})
		if err != nil || hw.Rescue() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
