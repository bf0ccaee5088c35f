// Package classic knows the drivers that Ironic had before its hardware types, by names such as pxe_ipmitool, and what each has
// become.
//
// It may import nothing of the project. Invariants:
//   - A name becomes a hardware type and those interfaces that the name itself says; all else is the hardware type's default.
//   - Drivers that wrote images over iSCSI write them directly: Ironic dropped that deploy interface.
//   - Of the drivers for tests, those become fake-hardware that reached no hardware. The others are not known: a test that
//     switched real machines is none that fake hardware repeats.
//
// Source: the entry points ironic.drivers of Ironic's setup.cfg, from 2015 to 2018, and its guide for upgrades to hardware types.
package classic

// Became is what a driver has become.
type Became struct {
	Driver string
	// Interfaces by their kinds. A rack that does not offer one uses its default.
	Interfaces map[string]string
}

// interfaces makes a set: kinds and names in turn. Images are written directly in all.
func interfaces(pairs ...string) map[string]string {
	set := map[string]string{"deploy": "direct"}
	for i := 0; i+1 < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return set
}

// drivers is the table. The short names in front were never Ironic's: its users say them.
var drivers = func() map[string]Became {
	list := map[string]Became{
		"ucs":  {"cisco-ucs-managed", interfaces("power", "ucsm", "management", "ucsm")},
		"cimc": {"cisco-ucs-standalone", interfaces("power", "cimc", "management", "cimc")},

		"agent_ipmitool": {"ipmi", interfaces()}, "agent_ipmitool_socat": {"ipmi", interfaces("console", "ipmitool-socat")}, "agent_pyghmi": {"ipmi", interfaces()},
		"pxe_ipmitool": {"ipmi", interfaces("boot", "pxe")}, "pxe_ipmitool_socat": {"ipmi", interfaces("boot", "pxe", "console", "ipmitool-socat")}, "pxe_ipminative": {"ipmi", interfaces("boot", "pxe")},

		"agent_ilo": {"ilo", interfaces("boot", "ilo-virtual-media")}, "iscsi_ilo": {"ilo", interfaces("boot", "ilo-virtual-media")}, "pxe_ilo": {"ilo", interfaces("boot", "ilo-pxe")},
		"agent_irmc": {"irmc", interfaces("boot", "irmc-virtual-media")}, "iscsi_irmc": {"irmc", interfaces("boot", "irmc-virtual-media")}, "pxe_irmc": {"irmc", interfaces("boot", "irmc-pxe")},
		"pxe_drac": {"idrac", interfaces("boot", "pxe")}, "pxe_drac_inspector": {"idrac", interfaces("boot", "pxe", "inspect", "agent")},

		"agent_ucs": {"cisco-ucs-managed", interfaces("power", "ucsm", "management", "ucsm")}, "pxe_ucs": {"cisco-ucs-managed", interfaces("boot", "pxe", "power", "ucsm", "management", "ucsm")},
		"pxe_agent_cimc": {"cisco-ucs-standalone", interfaces("boot", "pxe", "power", "cimc", "management", "cimc")},
		"pxe_iscsi_cimc": {"cisco-ucs-standalone", interfaces("boot", "pxe", "power", "cimc", "management", "cimc")},

		"pxe_snmp": {"snmp", interfaces("boot", "pxe")}, "pxe_seamicro": {"seamicro", interfaces("boot", "pxe")}, "pxe_msftocs": {"msftocs", interfaces("boot", "pxe")},

		"fake": {"fake-hardware", map[string]string{}}, "fake_agent": {"fake-hardware", map[string]string{"deploy": "direct"}}, "fake_pxe": {"fake-hardware", map[string]string{"boot": "pxe"}},
		"fake_soft_power": {"fake-hardware", map[string]string{}},
	}
	for _, name := range []string{"ssh", "vbox", "amt", "iboot", "wol"} {
		list["agent_"+name], list["pxe_"+name] = Became{name, interfaces()}, Became{name, interfaces("boot", "pxe")}
	}
	return list
}()

// Driver returns what a driver of that name has become; ok is false for other names. The caller does not change it.
func Driver(name string) (b Became, ok bool) {
	b, ok = drivers[name]
	return b, ok
}
