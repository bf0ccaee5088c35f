package drivers

import (
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/agentinspect"
	"github.com/ironyard/ironyard/rackd/driver/asrockrack"
	"github.com/ironyard/ironyard/rackd/driver/idrac"
	"github.com/ironyard/ironyard/rackd/driver/ilo"
	"github.com/ironyard/ironyard/rackd/driver/ilo/ribcl"
	"github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/irmc"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
)

// vendor is a hardware type with interfaces of its own; what else a type has is the same in all.
func vendor(name string, o Options, own map[string][]driver.Named) driver.Type {
	no := func(kind string) driver.Named {
		return driver.Named{Name: "no-" + kind, Impl: none.Unsupported{Kind: kind}}
	}
	t := driver.Type{Name: name, Interfaces: map[string][]driver.Named{
		"deploy":  deploys(o),
		"rescue":  rescues(o),
		"network": {flat, {Name: "noop", Impl: none.Noop{}}},
		"storage": storages,
	}}
	for kind, list := range own {
		t.Interfaces[kind] = list
	}
	t.Interfaces["inspect"] = append(t.Interfaces["inspect"], driver.Named{Name: "agent", Impl: agentinspect.New(o.Bringup)})
	for _, kind := range []string{"inspect", "bios", "console", "firmware", "raid", "vendor"} {
		list := t.Interfaces[kind]
		if len(list) == 0 || list[0].Name != "no-"+kind {
			t.Interfaces[kind] = append(list, no(kind))
		}
	}
	return t
}

// idracType is the hardware type idrac. Its interfaces of WS-Man's names read the drac_* fields, and speak Redfish too.
func idracType(bmc, drac *redfish.Driver, lan *ipmi.Driver, o Options) driver.Type {
	store := idrac.NewWeb(o.Fetching)
	management := func(d *redfish.Driver) idrac.Management {
		return idrac.Management{Management: redfish.Management{Driver: d, Bringup: o.Bringup, Images: true}, Store: store}
	}
	bios := func(d *redfish.Driver) idrac.BIOS {
		return idrac.BIOS{BIOS: redfish.BIOS{Driver: d, Bringup: o.Bringup}}
	}
	raid := func(d *redfish.Driver) idrac.RAID {
		return idrac.RAID{RAID: redfish.RAID{Driver: d, Bringup: o.Bringup}}
	}
	t := vendor("idrac", o, map[string][]driver.Named{
		"power":      {{Name: "idrac-redfish", Impl: bmc}, {Name: "redfish", Impl: bmc}, {Name: "idrac-wsman", Impl: drac}, {Name: "idrac", Impl: drac}},
		"management": {{Name: "idrac-redfish", Impl: management(bmc)}, {Name: "idrac-wsman", Impl: management(drac)}, {Name: "idrac", Impl: management(drac)}},
		"boot": {{Name: "ipxe", Impl: networkboot.IPXE().Of(o.Ramdisks)}, {Name: "pxe", Impl: networkboot.PXE().Of(o.Ramdisks)}, {Name: "idrac-redfish-virtual-media", Impl: mediaboot.VirtualMedia(o.Media).Of(o.Ramdisks)},
			{Name: "redfish-https", Impl: mediaboot.HTTPBoot(o.Media).Of(o.Ramdisks)}, {Name: "http", Impl: networkboot.HTTP(o.Ramdisks)}, {Name: "http-ipxe", Impl: networkboot.HTTPIPXE().Of(o.Ramdisks)}},
		"bios":     {{Name: "idrac-redfish", Impl: bios(bmc)}, {Name: "redfish", Impl: bios(bmc)}, {Name: "idrac-wsman", Impl: bios(drac)}},
		"raid":     {{Name: "idrac-redfish", Impl: raid(bmc)}, {Name: "idrac-wsman", Impl: raid(drac)}, {Name: "idrac", Impl: raid(drac)}},
		"console":  {{Name: "no-console", Impl: none.Unsupported{Kind: "console"}}, redfishSerial(bmc), {Name: "redfish-graphical", Impl: redfish.Graphical{Driver: bmc}}, solBeside(lan)},
		"firmware": {{Name: "redfish", Impl: redfish.Firmware{Driver: bmc, Bringup: o.Bringup}}},
		"inspect":  {{Name: "idrac-redfish", Impl: redfish.Inspection{Driver: bmc, Capabilities: redfish.Capabilities}}, {Name: "idrac-wsman", Impl: redfish.Inspection{Driver: drac, Capabilities: redfish.Capabilities}}, {Name: "idrac", Impl: redfish.Inspection{Driver: drac, Capabilities: redfish.Capabilities}}},
		"vendor":   {{Name: "idrac-redfish", Impl: redfish.Vendor{Driver: bmc}}, {Name: "redfish", Impl: redfish.Vendor{Driver: bmc}}, {Name: "idrac-wsman", Impl: idrac.Vendor{Vendor: redfish.Vendor{Driver: drac}}}, {Name: "idrac", Impl: idrac.Vendor{Vendor: redfish.Vendor{Driver: drac}}}},
	})
	t.Periodic = []driver.Periodic{idrac.Jobs()}
	return t
}

// iloManagement is the management interface of iLOs that speak Redfish.
func iloManagement(d *redfish.Driver, o Options) ilo.Management {
	return ilo.Management{Management: redfish.Management{Driver: d, Bringup: o.Bringup}, BIOS: redfish.BIOS{Driver: d, Bringup: o.Bringup}, Firmware: redfish.Firmware{Driver: d, Bringup: o.Bringup}}
}

// iloInterfaces are those that both of HPE's hardware types have.
func iloInterfaces(d *redfish.Driver, old *ribcl.Driver, lan *ipmi.Driver, agents *snmpclient.Reader,
	o Options) (ilo.Auto, map[string][]driver.Named) {
	auto := ilo.NewAuto(iloManagement(d, o), old)
	drives := ilo.Drives{Agents: agents}
	modern := redfish.Inspection{Driver: d, Capabilities: ilo.Capabilities, SizeOf: drives.Size}
	inspection := ilo.AutoInspection{Auto: auto, Modern: ilo.Inspection{Inspection: modern}, Drives: drives}
	return auto, map[string][]driver.Named{
		"power":   {{Name: "ilo", Impl: auto}},
		"boot":    {{Name: "ilo-virtual-media", Impl: mediaboot.VirtualMedia(o.Media).Of(o.Ramdisks)}, {Name: "ilo-ipxe", Impl: networkboot.IPXE().Of(o.Ramdisks).ByFirmware()}, {Name: "ilo-pxe", Impl: networkboot.PXE().Of(o.Ramdisks).ByFirmware()}},
		"bios":    {{Name: "ilo", Impl: redfish.BIOS{Driver: d, Bringup: o.Bringup}}},
		"inspect": {{Name: "ilo", Impl: inspection}},
		"vendor":  {{Name: "ilo", Impl: ilo.AutoVendor{Vendor: redfish.Vendor{Driver: d}, Auto: auto, ISO: ilo.ISO{Machine: auto, Reach: o.Fetching.CheckURL}}}},
		"console": {{Name: "no-console", Impl: none.Unsupported{Kind: "console"}}, redfishSerial(d), overLAN("ilo", lan, d, ilo.OverLAN())},
	}
}

// overLAN is a console by Serial over LAN of a machine that another driver reaches, whose fields name the BMC.
func overLAN(name string, lan *ipmi.Driver, other driver.Interface, names ipmi.Names) driver.Named {
	return driver.Named{Name: name, Impl: ipmi.Under{SOL: ipmi.Console{Driver: lan}, Other: other, Names: names}}
}

// iloType is the hardware type ilo: machines of Gen8 and Gen9, by Redfish or RIBCL.
func iloType(d *redfish.Driver, old *ribcl.Driver, lan *ipmi.Driver, agents *snmpclient.Reader, o Options) driver.Type {
	auto, own := iloInterfaces(d, old, lan, agents, o)
	own["management"] = []driver.Named{{Name: "ilo", Impl: auto}}
	return vendor("ilo", o, own)
}

// ilo5Type is the hardware type ilo5: machines of Gen10 and later, by Redfish.
func ilo5Type(d *redfish.Driver, old *ribcl.Driver, lan *ipmi.Driver, agents *snmpclient.Reader, o Options) driver.Type {
	_, own := iloInterfaces(d, old, lan, agents, o)
	own["management"] = []driver.Named{{Name: "ilo5", Impl: iloManagement(d, o)}}
	own["boot"] = append(own["boot"], driver.Named{Name: "ilo-uefi-https", Impl: mediaboot.HTTPSBoot(o.Media, o.HTTPS).Of(o.Ramdisks)})
	own["vendor"] = []driver.Named{{Name: "ilo", Impl: ilo.Vendor{Vendor: redfish.Vendor{Driver: d}, ISO: ilo.ISO{Machine: d, Reach: o.Fetching.CheckURL}}}}
	own["raid"] = []driver.Named{{Name: "ilo5", Impl: redfish.RAID{Driver: d, Bringup: o.Bringup}}}
	return vendor("ilo5", o, own)
}

// irmcType is the hardware type irmc.
func irmcType(d *redfish.Driver, scci *irmc.SCCI, lan *ipmi.Driver, agents *snmpclient.Reader, o Options) driver.Type {
	own := irmc.New(redfish.Management{Driver: d, Bringup: o.Bringup}, scci, lan)
	bios := irmc.BIOS{BIOS: redfish.BIOS{Driver: d, Bringup: o.Bringup}, SCCI: scci}
	raid := irmc.RAID{RAID: redfish.RAID{Driver: d, Bringup: o.Bringup}, SCCI: scci}
	return vendor("irmc", o, map[string][]driver.Named{
		"power":      {{Name: "irmc", Impl: own}, {Name: "ipmitool", Impl: lan}},
		"management": {{Name: "irmc", Impl: own}},
		"boot":       {{Name: "irmc-virtual-media", Impl: mediaboot.VirtualMedia(o.Media).Of(o.Ramdisks)}, {Name: "ipxe", Impl: networkboot.IPXE().Of(o.Ramdisks)}, {Name: "irmc-pxe", Impl: networkboot.PXE().Of(o.Ramdisks)}, {Name: "pxe", Impl: networkboot.PXE().Of(o.Ramdisks)}},
		"bios":       {{Name: "irmc", Impl: bios}},
		"inspect":    {{Name: "irmc", Impl: irmc.NewInspection(redfish.Inspection{Driver: d}, own, agents)}},
		"raid":       {{Name: "no-raid", Impl: none.Unsupported{Kind: "raid"}}, {Name: "irmc", Impl: raid}},
		"vendor":     {{Name: "no-vendor", Impl: none.Unsupported{Kind: "vendor"}}, {Name: "irmc", Impl: irmc.Vendor{Vendor: redfish.Vendor{Driver: d}, Own: own}}},
		"console": {{Name: "no-console", Impl: none.Unsupported{Kind: "console"}}, overLAN("ipmitool-socat", lan, d, irmc.OverLAN()),
			overLAN("ipmitool-shellinabox", lan, d, irmc.OverLAN())},
	})
}

// asrockrackType is the hardware type asrockrack. The BMC of its boards speaks IPMI, too: the interfaces of that read the ipmi_* fields.
func asrockrackType(d *asrockrack.Driver, lan *ipmi.Driver, o Options) driver.Type {
	t := ipmiType("asrockrack", lan, o, driver.Named{Name: "asrockrack", Impl: asrockrack.Management{Driver: d}}, driver.Named{Name: "ipmitool", Impl: lan})
	t.Interfaces["power"] = []driver.Named{{Name: "asrockrack", Impl: d}, {Name: "ipmitool", Impl: lan}}
	t.Interfaces["inspect"] = append(t.Interfaces["inspect"], driver.Named{Name: "asrockrack", Impl: asrockrack.Inspection{Driver: d}})
	t.Interfaces["firmware"] = append([]driver.Named{{Name: "asrockrack", Impl: asrockrack.Firmware{Driver: d, Bringup: o.Bringup}}}, t.Interfaces["firmware"]...)
	return withVendor(t, driver.Named{Name: "asrockrack", Impl: asrockrack.Vendor{Driver: d}})
}
