package places

import (
	"net/url"
	"os"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
)

// named is a flow of nodes to which DHCP names something else than a script by HTTP.
func named(n ipxe.Named, f flow) flow {
	f.names = n
	return f
}

// of is a flow of nodes of another hardware type.
func of(hardware string, f flow) flow {
	f.hardware = hardware
	return f
}

// ofILO is driver_info of a node of redfish, as an iLO has it.
func ofILO(t *testing.T, info map[string]any) map[string]any {
	t.Helper()
	at, err := url.Parse(info["redfish_address"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"ilo_address": at.Hostname(), "client_port": at.Port(),
		"ilo_username": info["redfish_username"], "ilo_password": info["redfish_password"], "ilo_verify_ca": false}
}

// secured is an image of a disk whose instance runs with secure boot.
func secured(r *rig) map[string]any {
	return map[string]any{"image_source": r.image.URL, "image_checksum": r.image.SHA256, "image_disk_format": "raw",
		"capabilities": map[string]any{"secure_boot": "true"}}
}

// securedPartition is the image of a file system whose instance does.
func securedPartition(r *rig) map[string]any {
	info := partition(r)
	info["capabilities"] = map[string]any{"secure_boot": "true"}
	return info
}

// netbooted is the image of a file system whose kernel and ramdisk the network brings at each start.
func netbooted(r *rig) map[string]any {
	info := partition(r)
	info["kernel"], info["ramdisk"] = r.files+"/kernel", r.files+"/ramdisk"
	info["capabilities"] = map[string]any{"boot_option": "netboot"}
	return info
}

// netbootedDisk is an image of a disk to which the network sends the machine at each start.
func netbootedDisk(r *rig) map[string]any {
	info := secured(r)
	info["capabilities"] = map[string]any{"boot_option": "netboot"}
	return info
}

// exportedIQN is the target by which a machine's agent exports its disk to another machine.
const exportedIQN = "iqn.2026-11.org.example:lent"

// exportStep has it do so.
const exportStep = `{"interface":"deploy","step":"export_volume","args":{"initiator":"iqn.2026-11.org.example:other",` +
	`"auth_username":"other","auth_password":"0123456789ab","target_iqn":"` + exportedIQN + `"}}`

var (
	exportingClean = request{"/states/provision",
		`{"target":"clean","clean_steps":[` + exportStep + `,{"interface":"deploy","step":"hold"}]}`, "clean hold"}
	exportingService = request{"/states/provision",
		`{"target":"service","service_steps":[` + exportStep + `,{"interface":"deploy","step":"hold"}]}`, "service hold"}

	lending       = flow{name: "clean", way: []request{manage}, ask: exportingClean, end: "clean hold"}
	lendingNoMore = flow{name: "clean", way: []request{manage, exportingClean}, ask: provision("unhold", "manageable"), end: "manageable"}
	lendingServed = flow{name: "service", way: []request{manage, provide, deploy}, ask: exportingService, end: "service hold"}
	servedNoMore  = flow{name: "service", way: []request{manage, provide, deploy, exportingService},
		ask: provision("unhold", "active"), end: "active"}
)

// These are a verb by one way each.
func byProgram(f flow) flow { return named(ipxe.Program, by("by a program", f, "boot", "http")) }

func byPXE(f flow) flow { return named(ipxe.ScriptByTFTP, by("by pxe", f, "boot", "pxe")) }

func byIDRAC(f flow) flow {
	return of("idrac", by("by a medium of an iDRAC", f, "boot", "idrac-redfish-virtual-media"))
}

func byILOMedium(f flow) flow {
	return of("ilo5", by("by a medium of an iLO", f, "boot", "ilo-virtual-media"))
}

func byILOPXE(f flow) flow {
	return of("ilo5", named(ipxe.ScriptByTFTP, by("by PXE with an iLO", f, "boot", "ilo-pxe")))
}

func byILOHTTPS(f flow) flow {
	return of("ilo5", secure(by("by HTTPS with an iLO", f, "boot", "ilo-uefi-https")))
}

func byNetboot(f flow) flow { return with(netbooted, by("by netboot", f, "boot", "ipxe")) }

func withSecureBoot(f flow) flow { return with(secured, by("with secure boot", f, "boot", "ipxe")) }

// firmwareWays are flows in which the firmware, the BMC or the network takes another part.
var firmwareWays = []flow{
	killedAt(byProgram(deploying), "deploy.deploy"),
	byProgram(deleting),
	byProgram(inspecting),
	byProgram(cleaningOne),
	byProgram(rescuing),
	byProgram(unrescuing),
	byProgram(servicing),

	killedAt(byPXE(deploying), "deploy.deploy"),
	byPXE(deleting),
	byPXE(inspecting),
	byPXE(rescuing),
	byPXE(unrescuing),

	by("by http-ipxe", inspecting, "boot", "http-ipxe"),
	by("by http-ipxe", cleaningOne, "boot", "http-ipxe"),
	by("by http-ipxe", deleting, "boot", "http-ipxe"),
	by("by redfish-https", inspecting, "boot", "redfish-https"),
	by("by redfish-https", cleaningOne, "boot", "redfish-https"),
	by("by redfish-https", deleting, "boot", "redfish-https"),

	killedAt(byIDRAC(deploying), "deploy.tear_down_agent"),
	byIDRAC(deleting),
	byIDRAC(inspecting),
	byIDRAC(rescuing),
	killedAt(byILOMedium(deploying), "deploy.tear_down_agent"),
	byILOMedium(deleting),
	byILOMedium(inspecting),
	byILOMedium(rescuing),
	byILOPXE(deploying),
	byILOPXE(deleting),
	byILOPXE(rescuing),
	killedAt(byILOHTTPS(deploying), "deploy.deploy"),
	byILOHTTPS(deleting),
	byILOHTTPS(inspecting),
	byILOHTTPS(cleaningOne),
	byILOHTTPS(rescuing),
	byILOHTTPS(unrescuing),
	with(bare, of("ilo5", secure(by("of a ramdisk by HTTPS with an iLO", deploying, "deploy", "ramdisk", "boot", "ilo-uefi-https")))),

	killedAt(withSecureBoot(deploying), "deploy.prepare_instance_boot"),
	killedAt(withSecureBoot(deleting), "deploy.tear_down"),
	withSecureBoot(rebuilding),
	withSecureBoot(rescuing),
	withSecureBoot(unrescuing),
	killedAt(withSecureBoot(servicing), "deploy.tear_down_service"),
	with(securedPartition, by("of a partition image with secure boot", deploying, "deploy", "direct")),

	killedAt(byNetboot(deploying), "deploy.boot_instance"),
	byNetboot(restarting),
	byNetboot(deleting),
	byNetboot(rescuing),
	byNetboot(unrescuing),
	with(netbootedDisk, by("of a disk by netboot", deploying, "boot", "ipxe")),

	killedAt(by("by ansible", deploying, "deploy", "ansible"), "deploy.write_image"),

	killedAt(by("that lends its disk", lending, "deploy", "direct"), "deploy.export_volume"),
	by("that has lent its disk", lendingNoMore, "deploy", "direct"),
	by("that lends its disk", lendingServed, "deploy", "direct"),
	by("that has lent its disk", servedNoMore, "deploy", "direct"),
}

// TestEveryPlaceOfFirmwareWays does with these what TestEveryPlaceOfWays does with others.
func TestEveryPlaceOfFirmwareWays(t *testing.T) {
	if os.Getenv("IRONYARD_CHAOS") == "" {
		t.Skip("NOT RUN: kills some thirteen hundred rackds; make chaos does, and make test kills at the places that are these ways' own")
	}
	r := newRig(t)
	r.addMachines(t, 3000, true)
	r.start(t, spareName, spare, "")
	r.killEverywhere(t, r.undisturbed(t, firmwareWays))
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		t.Error(f)
	}
}
