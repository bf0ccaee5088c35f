// Package classic knows the drivers that Ironic had before its hardware types, by names such as pxe_ipmitool, and what each has
// become.
//
// It may import nothing of the project. Invariants:
//   - A name becomes a hardware type and those interfaces that the name itself says; all else is the hardware type's default.
//   - Drivers that wrote images over iSCSI, as all of Ironic's pxe_ and iscsi_ names did, still do. The agent_ names write them directly.
//   - Drivers for tests become fake-hardware, and reach no machine. What a name says of real power is for a rack that offers it.
//
// Source: the entry points ironic.drivers of Ironic's setup.cfg, from 2015 to 2018, and its guide for upgrades to hardware types.
package classic

// Became is what a driver has become.
type Became struct {
	Driver string
	// Interfaces by their kinds. A rack that does not offer one uses its default.
	Interfaces map[string]string
}

// direct makes a set of interfaces with which images are written directly: kinds and names in turn.
func direct(pairs ...string) map[string]string { return set(append(pairs, "deploy", "direct")) }

// iscsi makes one with which they are written over iSCSI, by PXE unless the set names another boot interface.
func iscsi(pairs ...string) map[string]string {
	return set(append([]string{"boot", "pxe", "deploy", "iscsi"}, pairs...))
}

func set(pairs []string) map[string]string {
	set := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return set
}

// drivers is the table. The short names in front were never Ironic's: its users say them.
var drivers = func() map[string]Became {
	list := map[string]Became{
		"ucs":  {"cisco-ucs-managed", direct("power", "ucsm", "management", "ucsm")},
		"cimc": {"cisco-ucs-standalone", direct("power", "cimc", "management", "cimc")},

		"agent_ipmitool": {"ipmi", direct()}, "agent_ipmitool_socat": {"ipmi", direct("console", "ipmitool-socat")}, "agent_pyghmi": {"ipmi", direct()},
		"pxe_ipmitool": {"ipmi", iscsi()}, "pxe_ipmitool_socat": {"ipmi", iscsi("console", "ipmitool-socat")}, "pxe_ipminative": {"ipmi", iscsi()},

		"agent_ilo": {"ilo", direct("boot", "ilo-virtual-media")}, "iscsi_ilo": {"ilo", iscsi("boot", "ilo-virtual-media")}, "pxe_ilo": {"ilo", iscsi("boot", "ilo-pxe")},
		"agent_irmc": {"irmc", direct("boot", "irmc-virtual-media")}, "iscsi_irmc": {"irmc", iscsi("boot", "irmc-virtual-media")}, "pxe_irmc": {"irmc", iscsi("boot", "irmc-pxe")},
		"pxe_drac": {"idrac", iscsi()}, "pxe_drac_inspector": {"idrac", iscsi("inspect", "agent")},

		"agent_ucs": {"cisco-ucs-managed", direct("power", "ucsm", "management", "ucsm")}, "pxe_ucs": {"cisco-ucs-managed", iscsi("power", "ucsm", "management", "ucsm")},
		"pxe_agent_cimc": {"cisco-ucs-standalone", direct("boot", "pxe", "power", "cimc", "management", "cimc")},
		"pxe_iscsi_cimc": {"cisco-ucs-standalone", iscsi("power", "cimc", "management", "cimc")},

		"pxe_snmp": {"snmp", iscsi()}, "pxe_seamicro": {"seamicro", iscsi()}, "pxe_msftocs": {"msftocs", iscsi()},

		"fake": {"fake-hardware", nil}, "fake_agent": {"fake-hardware", direct()}, "fake_pxe": {"fake-hardware", iscsi()},
		"fake_soft_power": {"fake-hardware", nil}, "fake_inspector": {"fake-hardware", set([]string{"power", "ipmitool", "inspect", "agent"})},
		"fake_ipmitool": fakeWith("ipmitool"), "fake_ipminative": fakeWith("ipmitool"), "fake_drac": fakeWith("idrac"), "fake_vbox": fakeWith("virtualbox"),
		"fake_ucs": fakeWith("ucsm"),
	}
	for _, name := range []string{"ssh", "seamicro", "iboot", "ilo", "snmp", "irmc", "amt", "msftocs", "cimc", "wol"} {
		list["fake_"+name] = fakeWith(name)
	}
	for _, name := range []string{"ssh", "vbox", "amt", "iboot", "wol"} {
		list["agent_"+name], list["pxe_"+name] = Became{name, direct()}, Became{name, iscsi()}
	}
	return list
}()

// fakeWith is a driver for tests which switched real machines by an interface of that name, and faked the rest.
func fakeWith(power string) Became {
	return Became{"fake-hardware", set([]string{"power", power, "management", power})}
}

// dropped are the hardware types that Ironic dropped and that are not here, and the drivers of before of the same machines, with what
// the machines are.
var dropped = map[string]string{
	"ibmc": "Huawei's iBMCs speak Redfish", "xclarity": "the BMCs (XCC, IMM2) of the machines that Lenovo's XClarity manages speak Redfish",
	"oneview": oneView, "agent_pxe_oneview": oneView, "iscsi_pxe_oneview": oneView, "fake_oneview": oneView,
}

const oneView = "the iLOs of the machines that HPE's OneView manages speak Redfish"

// Dropped says what machines of a hardware type speak that Ironic dropped and that is not here; empty for other names.
func Dropped(name string) string { return dropped[name] }

// Driver returns what a driver of that name has become; ok is false for other names. The caller does not change it.
func Driver(name string) (b Became, ok bool) {
	b, ok = drivers[name]
	return b, ok
}
