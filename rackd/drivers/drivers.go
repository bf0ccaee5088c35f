// Package drivers is the list of hardware types that this rackd knows: one line
// for each. The conductor gets the registry and sees the contract only.
//
// It may import rackd/driver, everything below it, rackd/outbound and protocol.
package drivers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/agentinspect"
	"github.com/ironyard/ironyard/rackd/driver/agentpower"
	"github.com/ironyard/ironyard/rackd/driver/agentrescue"
	"github.com/ironyard/ironyard/rackd/driver/amt"
	"github.com/ironyard/ironyard/rackd/driver/anaconda"
	"github.com/ironyard/ironyard/rackd/driver/ansible"
	"github.com/ironyard/ironyard/rackd/driver/asrockrack"
	"github.com/ironyard/ironyard/rackd/driver/autodetect"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/cimc"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/iboot"
	"github.com/ironyard/ironyard/rackd/driver/idrac"
	"github.com/ironyard/ironyard/rackd/driver/ilo"
	"github.com/ironyard/ironyard/rackd/driver/ilo/ribcl"
	"github.com/ironyard/ironyard/rackd/driver/ipmi"
	"github.com/ironyard/ironyard/rackd/driver/irmc"
	"github.com/ironyard/ironyard/rackd/driver/iscsideploy"
	"github.com/ironyard/ironyard/rackd/driver/libvirt"
	"github.com/ironyard/ironyard/rackd/driver/mediaboot"
	"github.com/ironyard/ironyard/rackd/driver/msftocs"
	"github.com/ironyard/ironyard/rackd/driver/namedfile"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
	"github.com/ironyard/ironyard/rackd/driver/none"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
	"github.com/ironyard/ironyard/rackd/driver/ramdisk"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
	"github.com/ironyard/ironyard/rackd/driver/rpc"
	"github.com/ironyard/ironyard/rackd/driver/seamicro"
	"github.com/ironyard/ironyard/rackd/driver/snmp"
	"github.com/ironyard/ironyard/rackd/driver/snmp/snmpclient"
	"github.com/ironyard/ironyard/rackd/driver/ssh"
	"github.com/ironyard/ironyard/rackd/driver/ucs"
	"github.com/ironyard/ironyard/rackd/driver/vbox"
	"github.com/ironyard/ironyard/rackd/driver/volume"
	"github.com/ironyard/ironyard/rackd/driver/wol"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Options of all hardware types; zero values mean the defaults.
type Options struct {
	// Enabled names the hardware types to offer; empty: all of real hardware.
	Enabled []string
	Fake    fake.Options
	// BMCTimeout bounds the connection to a BMC and, apart from it, the wait for
	// its answer; 0: 30 s and 60 s.
	BMCTimeout time.Duration
	// MaxBMCs bounds the BMCs with an open session.
	MaxBMCs int
	// BMCPace is how many operations a second one BMC gets; 0: bmc.DefaultPace.
	BMCPace int
	// Recovery is power sync's first pause after refused credentials; 0: 300 s.
	Recovery time.Duration
	// BMCs are the networks that BMCs are in.
	BMCs outbound.BMCs
	// Fetching says where configurations of machines may be kept.
	Fetching outbound.Fetching
	// CAFolder holds the authorities that driver_info may name.
	CAFolder namedfile.Folder
	// Calls counts calls to BMCs; nil: nothing does.
	Calls   bmc.Calls
	Bringup bringup.Settings
	// Interface is the network interface that reaches the rack's machines; empty: that of the default route.
	Interface string
	// Ramdisks says which ramdisks the rack has; nil: none, and nodes name theirs.
	Ramdisks ownramdisk.Rack
	// AgentPoll is how often a running command of an agent is asked for.
	AgentPoll time.Duration
	// ISCSIPort is that of agents' iSCSI targets; 0: 3260.
	ISCSIPort int
	// Media says why no bootable medium can be made here that starts on machines of a boot mode; nil: none can.
	Media func(mode string) error
	// HTTPS: this rackd has a certificate with which it serves firmware.
	HTTPS bool
	Log   *slog.Logger

	// AnsibleFolder holds the playbooks and keys of the deploy interface ansible; empty: there are none.
	AnsibleFolder string

	iscsi *iscsideploy.Writer // of all hardware types
	plays *ansible.Plays      // as well
}

// Set is the enabled hardware types and what they keep open.
type Set struct {
	*driver.Registry
	close []func(context.Context) error
}

// Close ends the sessions on BMCs, as far as ctx allows; no driver may be used
// afterwards.
func (s *Set) Close(ctx context.Context) (err error) {
	for _, c := range s.close {
		if e := c(ctx); e != nil {
			err = e
		}
	}
	return err
}

// Open returns the enabled hardware types. The caller closes the set.
func Open(o Options) (*Set, error) {
	o.iscsi = iscsideploy.NewWriter(iscsideploy.Settings{Port: o.ISCSIPort})
	o.plays = ansible.NewPlays(ansible.Settings{Folder: o.AnsibleFolder, Bringup: o.Bringup})
	if err := o.plays.Ready(); err != nil {
		return nil, fmt.Errorf("run playbooks of %s: %w", o.AnsibleFolder, err)
	}
	shared := bmc.Shared{Pins: bmc.NewPins(), Guesses: bmc.NewGuesses(), Calls: o.Calls}
	lan := ipmi.New(ipmi.Options{Timeout: ipmiTimeout(o.BMCTimeout), MaxBMCs: o.MaxBMCs, Recovery: o.Recovery, Pace: o.BMCPace, Networks: o.BMCs, Shared: shared, Log: o.Log})
	pdus := snmp.New(snmp.Options{MaxPDUs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, Shared: shared, Log: o.Log})
	hosts := libvirt.New(libvirt.Options{ConnectTimeout: o.BMCTimeout, CallTimeout: o.BMCTimeout, MaxHosts: o.MaxBMCs, Pace: o.BMCPace,
		Recovery: o.Recovery, Networks: o.BMCs, CAFolder: o.CAFolder, Shared: shared, Log: o.Log})
	relays := iboot.New(iboot.Options{MaxBMCs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, Shared: shared, Log: o.Log})
	byRedfish := func(d redfish.Dialect) *redfish.Driver {
		return redfish.New(redfish.Options{ConnectTimeout: o.BMCTimeout, ReadTimeout: o.BMCTimeout, MaxBMCs: o.MaxBMCs, Dialect: d,
			Recovery: o.Recovery, Pace: o.BMCPace, Networks: o.BMCs, CAFolder: o.CAFolder, Shared: shared, Log: o.Log})
	}
	redfishes, drac, ilos, irmcs := byRedfish(redfish.Dialect{}), byRedfish(idrac.Drac), byRedfish(ilo.Dialect), byRedfish(irmc.Dialect)
	oldILOs := ribcl.New(ribcl.Options{ConnectTimeout: o.BMCTimeout, MaxBMCs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, CAFolder: o.CAFolder, Dialect: ilo.Dialect, Shared: shared, Log: o.Log})
	scci := irmc.NewSCCI(irmc.SCCIOptions{ConnectTimeout: o.BMCTimeout, MaxBMCs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, CAFolder: o.CAFolder, Shared: shared, Log: o.Log})
	agents := snmpclient.NewReader(snmpclient.ReaderOptions{MaxBMCs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, Shared: shared, Log: o.Log})
	web := bmc.WebOptions{ConnectTimeout: o.BMCTimeout, AnswerTimeout: o.BMCTimeout, MaxBMCs: o.MaxBMCs, Pace: o.BMCPace, Recovery: o.Recovery, Networks: o.BMCs, CAFolder: o.CAFolder, Shared: shared, Log: o.Log}
	managers, imcs, seas, ocs, amts, shells, boxes, hooks := ucs.New(web), cimc.New(web), seamicro.New(web), msftocs.New(web), amt.New(web), ssh.New(web), vbox.New(web), rpc.New(web)
	racks := asrockrack.New(web)
	wake := wol.New(wol.Options{Interface: o.Interface, Networks: o.BMCs})
	ipmitool := driver.Named{Name: "ipmitool", Impl: lan}
	known := []driver.Type{
		redfishType(redfishes, lan, o),
		idracType(redfishes, drac, lan, o),
		iloType(ilos, oldILOs, lan, agents, o),
		ilo5Type(ilos, oldILOs, lan, agents, o),
		irmcType(irmcs, scci, lan, agents, o),
		ipmiType("ipmi", lan, o, driver.Named{Name: "ipmitool", Impl: lan}, driver.Named{Name: "noop", Impl: none.Management{}}),
		ipmiType("intel-ipmi", lan, o, driver.Named{Name: "intel-ipmitool", Impl: ipmi.Intel{Driver: lan}}),
		withConsole(withManagement(withoutBMC("libvirt", o, driver.Named{Name: "libvirt", Impl: hosts}), driver.Named{Name: "libvirt", Impl: hosts}), driver.Named{Name: "libvirt", Impl: libvirt.Console{Driver: hosts}}, driver.Named{Name: "libvirt-graphical", Impl: libvirt.Graphical{Driver: hosts}}),
		ciscoType("cisco-ucs-managed", lan, o, driver.Named{Name: "ucsm", Impl: managers}, driver.Named{Name: "cimc", Impl: imcs}, ipmitool),
		withRedfish(ciscoType("cisco-ucs-standalone", lan, o, driver.Named{Name: "cimc", Impl: imcs}, ipmitool), redfishes, lan, o),
		asrockrackType(racks, lan, o),
		withVendor(withManagement(withoutBMC("seamicro", o, driver.Named{Name: "seamicro", Impl: seas}), driver.Named{Name: "seamicro", Impl: seas}), driver.Named{Name: "seamicro", Impl: seamicro.Vendor{Driver: seas}}),
		withManagement(withoutBMC("msftocs", o, driver.Named{Name: "msftocs", Impl: ocs}), driver.Named{Name: "msftocs", Impl: ocs}),
		withManagement(withoutBMC("amt", o, driver.Named{Name: "amt", Impl: amts}), driver.Named{Name: "amt", Impl: amts}),
		withManagement(withoutBMC("vbox", o, driver.Named{Name: "virtualbox", Impl: boxes}), driver.Named{Name: "virtualbox", Impl: boxes}),
		withManagement(withoutBMC("rpc", o, driver.Named{Name: "rpc", Impl: hooks}), driver.Named{Name: "rpc", Impl: hooks}),
		withManagement(withoutBMC("ssh", o, driver.Named{Name: "ssh", Impl: shells}), driver.Named{Name: "ssh", Impl: shells}),
		withoutBMC("snmp", o, driver.Named{Name: "snmp", Impl: pdus}),
		withoutBMC("iboot", o, driver.Named{Name: "iboot", Impl: relays}),
		withoutBMC("wol", o, driver.Named{Name: "wol", Impl: wake}),
		withoutBMC("manual-management", o, driver.Named{Name: "agent", Impl: agentpower.Interface{}}),
		fakeType(o),
	}
	for i := range known {
		known[i].Keeper = shared.Pins
	}
	types, err := enabled(known, o.Enabled)
	if err != nil {
		return nil, err
	}
	r, err := driver.NewRegistry(types...)
	if err != nil {
		return nil, err
	}
	tell(o, types, needs(wake, o))
	return &Set{Registry: r, close: []func(context.Context) error{o.plays.Close, redfishes.Close, drac.Close, ilos.Close, irmcs.Close, oldILOs.Close, scci.Close, agents.Close, lan.Close, pdus.Close, hosts.Close, relays.Close, managers.Close, imcs.Close, racks.Close, seas.Close, ocs.Close, amts.Close, shells.Close, boxes.Close, hooks.Close}}, nil
}

// flat is the network interface of machines that stay in the network that they are
// cabled to. Which virtual interface is attached where is central's to keep; a rack has
// nothing to do for it.
var flat = driver.Named{Name: "flat", Impl: none.Noop{}}

// storages are the storage interfaces. noop is the default, as in Ironic.
var storages = []driver.Named{{Name: "noop", Impl: none.Noop{}}, {Name: "external", Impl: volume.External()}, {Name: "cinder", Impl: volume.Cinder()}}

// networkBoots are the boot interfaces of machines that boot over the network alone.
func networkBoots(o Options) []driver.Named {
	return []driver.Named{{Name: "ipxe", Impl: networkboot.IPXE().Of(o.Ramdisks)}, {Name: "pxe", Impl: networkboot.PXE().Of(o.Ramdisks)},
		{Name: "http", Impl: networkboot.HTTP(o.Ramdisks)}, {Name: "http-ipxe", Impl: networkboot.HTTPIPXE().Of(o.Ramdisks)}}
}

// rescues are the rescue interfaces of machines that boot a ramdisk. The first is the default, no-rescue, as in Ironic: a
// rescue gives its user a shell in the rack.
func rescues(o Options) []driver.Named {
	return []driver.Named{{Name: "no-rescue", Impl: none.Unsupported{Kind: "rescue"}},
		{Name: "agent", Impl: agentrescue.New(agentrescue.Settings{Bringup: o.Bringup})}}
}

// deploys are the deploy interfaces of all real hardware. The first is the default.
func deploys(o Options) []driver.Named {
	write := direct.New(direct.Settings{Bringup: o.Bringup, Poll: o.AgentPoll, Ramdisks: o.Ramdisks})
	live, container := ramdisk.New(write, o.Bringup), direct.Bootc{Interface: write}
	return []driver.Named{{Name: "direct", Impl: write}, {Name: "ramdisk", Impl: live}, {Name: "custom-agent", Impl: direct.Custom{Interface: write}},
		{Name: "anaconda", Impl: anaconda.New(write, o.Bringup)}, {Name: "ansible", Impl: ansible.New(write, o.plays)},
		{Name: "iscsi", Impl: iscsideploy.New(write, o.iscsi)}, {Name: "bootc", Impl: container}, {Name: "autodetect", Impl: autodetect.New(write, live, container)}, {Name: "noop", Impl: none.Deploy{Former: write}}}
}

// fakeType is the hardware type fake-hardware.
func fakeType(o Options) driver.Type {
	f := fake.New(o.Fake)
	t := f.Type()
	t.Interfaces["network"] = append([]driver.Named{flat}, t.Interfaces["network"]...)
	t.Interfaces["deploy"] = append(t.Interfaces["deploy"], driver.Named{Name: "direct", Impl: f.Playing(direct.New(direct.Settings{}))})
	return t
}

// redfishSerial is the serial console of machines whose BMC speaks Redfish.
func redfishSerial(rf *redfish.Driver) driver.Named {
	return driver.Named{Name: "redfish-serial", Impl: redfish.Console{Driver: rf}}
}

// solBeside is the serial console of machines whose BMC speaks Redfish, by Serial over LAN. As in Ironic it reads the ipmi_* fields: a BMC
// may have another account, and another address, for IPMI.
func solBeside(lan *ipmi.Driver) driver.Named {
	return driver.Named{Name: "ipmitool-socat", Impl: ipmi.Console{Driver: lan}}
}

// redfishType is the hardware type redfish.
func redfishType(rf *redfish.Driver, lan *ipmi.Driver, o Options) driver.Type {
	no := func(kind string) driver.Named {
		return driver.Named{Name: "no-" + kind, Impl: none.Unsupported{Kind: kind}}
	}
	return driver.Type{Name: "redfish", Interfaces: map[string][]driver.Named{
		"power":      {{Name: "redfish", Impl: rf}},
		"management": {{Name: "redfish", Impl: redfish.Management{Driver: rf, Bringup: o.Bringup, Images: true}}, {Name: "noop", Impl: none.Management{}}},
		"boot": {{Name: "ipxe", Impl: networkboot.IPXE().Of(o.Ramdisks)}, {Name: "pxe", Impl: networkboot.PXE().Of(o.Ramdisks)}, {Name: "redfish-virtual-media", Impl: mediaboot.VirtualMedia(o.Media).Of(o.Ramdisks)},
			{Name: "redfish-https", Impl: mediaboot.HTTPBoot(o.Media).Of(o.Ramdisks)}, {Name: "http", Impl: networkboot.HTTP(o.Ramdisks)}, {Name: "http-ipxe", Impl: networkboot.HTTPIPXE().Of(o.Ramdisks)}},
		"deploy":   deploys(o),
		"inspect":  {{Name: "redfish", Impl: redfish.Inspection{Driver: rf, Capabilities: redfish.Capabilities}}, {Name: "agent", Impl: agentinspect.New(o.Bringup)}, no("inspect")},
		"bios":     {{Name: "redfish", Impl: redfish.BIOS{Driver: rf, Bringup: o.Bringup}}, no("bios")},
		"console":  {no("console"), redfishSerial(rf), {Name: "redfish-graphical", Impl: redfish.Graphical{Driver: rf}}, solBeside(lan)},
		"firmware": {{Name: "redfish", Impl: redfish.Firmware{Driver: rf, Bringup: o.Bringup}}, no("firmware")},
		"raid":     {{Name: "redfish", Impl: redfish.RAID{Driver: rf, Bringup: o.Bringup}}, no("raid")},
		"rescue":   rescues(o),
		"vendor":   {{Name: "redfish", Impl: redfish.Vendor{Driver: rf}}, no("vendor")},
		"network":  {flat, {Name: "noop", Impl: none.Noop{}}},
		"storage":  storages,
	}}
}

// ipmiTimeout is how long a BMC of IPMI may take for one answer. They answer datagrams in a moment or not at all, so it is no more than
// the driver's default.
func ipmiTimeout(bmc time.Duration) time.Duration {
	if bmc <= 0 {
		return 0
	}
	return min(bmc, 10*time.Second)
}

// ipmiType is a hardware type of machines whose BMC speaks IPMI; its interfaces have the names that they have in Ironic.
func ipmiType(name string, lan *ipmi.Driver, o Options, management ...driver.Named) driver.Type {
	no := func(kind string) driver.Named {
		return driver.Named{Name: "no-" + kind, Impl: none.Unsupported{Kind: kind}}
	}
	return driver.Type{Name: name, Interfaces: map[string][]driver.Named{
		"power":      {{Name: "ipmitool", Impl: lan}},
		"management": management,
		"boot":       networkBoots(o),
		"deploy":     deploys(o),
		"inspect":    {{Name: "agent", Impl: agentinspect.New(o.Bringup)}, no("inspect")},
		"bios":       {no("bios")},
		"console":    {no("console"), {Name: "ipmitool-socat", Impl: ipmi.Console{Driver: lan}}, {Name: "ipmitool-shellinabox", Impl: ipmi.Console{Driver: lan}}},
		"firmware":   {no("firmware")},
		"raid":       {no("raid")},
		"rescue":     rescues(o),
		"vendor":     {{Name: "ipmitool", Impl: ipmi.Vendor{Driver: lan}}, no("vendor")},
		"network":    {flat, {Name: "noop", Impl: none.Noop{}}},
		"storage":    storages,
	}}
}

// withoutBMC is a hardware type of machines without a BMC, of which nothing but the power is reached from outside.
func withoutBMC(name string, o Options, power ...driver.Named) driver.Type {
	no := func(kind string) []driver.Named {
		return []driver.Named{{Name: "no-" + kind, Impl: none.Unsupported{Kind: kind}}}
	}
	return driver.Type{Name: name, Interfaces: map[string][]driver.Named{
		"power":      power,
		"management": {{Name: "noop", Impl: none.Management{}}},
		"boot":       networkBoots(o),
		"deploy":     deploys(o),
		"inspect":    append([]driver.Named{{Name: "agent", Impl: agentinspect.New(o.Bringup)}}, no("inspect")...),
		"bios":       no("bios"),
		"console":    no("console"),
		"firmware":   no("firmware"),
		"raid":       no("raid"),
		"rescue":     rescues(o),
		"vendor":     no("vendor"),
		"network":    {flat, {Name: "noop", Impl: none.Noop{}}},
		"storage":    storages,
	}}
}

// withManagement is a type without a BMC of which more than the power is reached: the boot device, too.
func withManagement(t driver.Type, management ...driver.Named) driver.Type {
	t.Interfaces["management"] = management
	return t
}

// withConsole is a type with console interfaces beside that of none, which stays the default.
func withConsole(t driver.Type, consoles ...driver.Named) driver.Type {
	t.Interfaces["console"] = append(t.Interfaces["console"], consoles...)
	return t
}

// withVendor is a type with a vendor interface before that of none.
func withVendor(t driver.Type, vendor driver.Named) driver.Type {
	t.Interfaces["vendor"] = append([]driver.Named{vendor}, t.Interfaces["vendor"]...)
	return t
}

// ciscoType is a hardware type of Cisco's servers. They speak IPMI, too; each of impls is a power and a management interface.
func ciscoType(name string, lan *ipmi.Driver, o Options, impls ...driver.Named) driver.Type {
	t := ipmiType(name, lan, o, impls...)
	t.Interfaces["power"] = impls
	return t
}

// withRedfish is a type of a vendor's with the interfaces of the type redfish behind its own. They read the redfish_* fields. A graphical
// console is OpenBMC's alone.
func withRedfish(t driver.Type, rf *redfish.Driver, lan *ipmi.Driver, o Options) driver.Type {
	for kind, list := range redfishType(rf, lan, o).Interfaces {
		own := slices.Clone(t.Interfaces[kind]) // storages are of all types
		for _, n := range list {
			has := slices.ContainsFunc(own, func(h driver.Named) bool { return h.Name == n.Name })
			if !has && n.Name != "redfish-graphical" {
				own = append(own, n)
			}
		}
		t.Interfaces[kind] = own
	}
	return t
}

func enabled(known []driver.Type, want []string) (types []driver.Type, err error) {
	if len(want) == 0 {
		// Fake hardware is for those that ask for it: a node that has it by mistake would become active, and
		// nothing would have happened.
		return slices.DeleteFunc(known, func(t driver.Type) bool { return t.Name == fake.TypeName }), nil
	}
	for _, name := range want {
		i := slices.IndexFunc(known, func(t driver.Type) bool { return t.Name == name })
		if i < 0 {
			var names []string
			for _, t := range known {
				names = append(names, t.Name)
			}
			return nil, fmt.Errorf("enable hardware type %q: there is none of that name; there are %v", name, names)
		}
		types = append(types, known[i])
	}
	return types, nil
}
