package scenario

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/machine"
	"github.com/ironyard/ironyard/ops/virtual/partitionimage"
	"github.com/ironyard/ironyard/protocol/provision"
)

// pair is a boot and a deploy interface on a machine of the rack, and why it is refused; empty: it deploys. The loader is that of rackds
// which give machines of the interface pxe another one than iPXE; empty: iPXE, or what the boot interface has in its place.
type pair struct{ machine, boot, deploy, refused, loader string }

// byGRUB is the loader of rackds that give UEFI machines shim and GRUB. The cards of the BIOS machines are iPXE themselves, so that none
// of them is given pxelinux.
const byGRUB = "GRUB"

// way is the boot interface for people, with the loader where there is one.
func (p pair) way() string {
	if p.loader == "" {
		return p.boot
	}
	return p.boot + " by " + p.loader
}

// What an instance is that is no image of a whole disk. Each begins with the name of a deploy interface.
const (
	byFiles = "ramdisk" // a kernel and a ramdisk
	byImage = "ramdisk of an image"
	// autoFiles is a kernel and a ramdisk that autodetect finds to be such.
	autoFiles  = "autodetect of a ramdisk"
	byParts    = "direct of a partition image"
	partsByOne = "iscsi of a partition image"
	byVolume   = "direct of a volume" // of a foreign iSCSI target
	// byRescue is a line of the table: what direct has deployed is rescued by the same boot interface.
	byRescue = "rescue, and back"
)

// pairs are those that firmware here can show. Firmware of http-0 alone is told URLs by its BMC: that of uefi-0 loads the same program by
// PXE.
func pairs() (list []pair) {
	boots := []pair{
		{machine: "bios-0", boot: "ipxe"}, {machine: "bios-0", boot: "pxe"}, {machine: "bios-0", boot: "redfish-virtual-media"},
		{machine: "bios-0", boot: "http"}, {machine: "bios-0", boot: "http-ipxe"}, {machine: "bios-0", boot: "redfish-https"},
		{machine: "uefi-0", boot: "ipxe"}, {machine: "uefi-0", boot: "pxe"}, {machine: "uefi-0", boot: "pxe", loader: byGRUB},
		{machine: "uefi-0", boot: "redfish-virtual-media"}, {machine: "uefi-0", boot: "http"},
		{machine: "http-0", boot: "http"}, {machine: "http-0", boot: "http-ipxe"}, {machine: "http-0", boot: "redfish-https"},
	}
	list = each(boots, "direct", "iscsi", byParts, partsByOne, byVolume, byFiles, byImage)
	// An installer, a playbook and a container deploy in ways of their own. What the others deploy by follows from the instance, or is the
	// request's or another program's. With http a node may not even have the fields that name another ramdisk.
	boots = []pair{
		{machine: "bios-0", boot: "ipxe"}, {machine: "bios-0", boot: "pxe"}, {machine: "bios-0", boot: "redfish-virtual-media"},
		{machine: "uefi-0", boot: "ipxe"}, {machine: "uefi-0", boot: "pxe"}, {machine: "uefi-0", boot: "redfish-virtual-media"},
		{machine: "http-0", boot: "http"}, {machine: "http-0", boot: "http-ipxe"}, {machine: "http-0", boot: "redfish-https"},
	}
	list = append(list, each(boots, byInstaller, byPlaybook, byContainer, "autodetect", autoFiles, "custom-agent", "noop")...)
	list = slices.DeleteFunc(list, func(p pair) bool { return p.boot == "http" && (p.deploy == byPlaybook || p.deploy == byContainer) })
	return append(list, vendorPairs()...)
}

// each are the boots with each of the deploy interfaces, on machines that can show them.
func each(boots []pair, deploys ...string) (list []pair) {
	for _, p := range boots {
		for _, p.deploy = range deploys {
			p.refused = refusal(p.machine, p.boot, p.deploy)
			list = append(list, onMachine(p))
		}
	}
	return list
}

// onMachine is the pair on a machine that can show it: the BMC of uefi-0 gives its firmware no targets.
func onMachine(p pair) pair {
	if p.byFirmware() && p.machine == "uefi-0" {
		p.machine = "bare-0"
	}
	return p
}

// refusal is a part of the reason why a pair is refused.
func refusal(machine, boot, deploy string) string {
	switch byHTTP := boot == "http" || boot == "http-ipxe" || boot == "redfish-https" || boot == iloHTTPS; {
	case machine == "bios-0" && byHTTP:
		return "UEFI"
	case machine == "bios-0" && strings.HasSuffix(boot, "virtual-media") && deploy == byVolume:
		return "virtual media can not boot volume in bios mode."
	case boot == "http" && deploy == byVolume:
		return "must be one that boots volumes, such as ``ipxe``"
	case boot == "http" && (deploy == byImage || deploy == byFiles || deploy == autoFiles):
		return "ramdisk_boot"
	case boot == iloHTTPS && deploy == byImage: // which the rack serves by http
		return "is not an https URL, and its firmware loads by https alone"
	case deploy == byInstaller && (boot == "http" || boot == "redfish-https" || boot == "redfish-virtual-media"):
		return "loads no installer: use ipxe, pxe or http-ipxe"
	}
	return ""
}

// byFirmware reports whether the machine's firmware attaches the volume that it boots, and not iPXE.
func (p pair) byFirmware() bool {
	return p.deploy == byVolume && p.refused == "" &&
		(strings.HasSuffix(p.boot, "virtual-media") || strings.HasSuffix(p.boot, "-https") || p.boot == "ilo-pxe" && p.machine != "bios-0")
}

// Each pair of boot and deploy interface brings a machine to what its instance runs, or is refused before the machine is touched. So does
// a rescue by each boot interface. The test prints how long each takes. What is on none of the machine's disks boots once more, after a
// power cycle. make boot runs it.
func TestEveryPairBoots(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes more than an hour: make boot runs it")
	}
	const line = "%-8s %-22s %-46s %s"
	table := []string{fmt.Sprintf(line, "machine", "boot", "deploy", "from the request to the instance's words, or until people are let in")}
	for _, p := range pairs() {
		shown := func(deploy, result string) {
			table = append(table, fmt.Sprintf(line, p.machine, p.way(), deploy, result))
			t.Log(table[len(table)-1])
		}
		t.Run(p.machine+"/"+p.way()+"/"+p.deploy, func(t *testing.T) {
			result := "failed"
			defer func() { shown(p.deploy, result) }()
			result = p.run(limit(t, 10*time.Minute), t, shown)
		})
	}
	fmt.Println(strings.Join(table, "\n"))
}

// loaded looks that shim and GRUB have loaded what they can: the ramdisk, and the kernel of an instance that is on no disk. Volumes, and
// images of CDs, are iPXE's nevertheless.
func (p pair) loaded(ctx context.Context, t *testing.T, id string, console *machine.SerialLog) {
	t.Helper()
	switch p.deploy {
	case byVolume, byImage:
	case byFiles:
		if _, err := console.Wait(ctx, regexp.MustCompile(`Kernel command line: BOOT_IMAGE=/boot/own/\S+/kernel `)); err != nil {
			t.Errorf("the kernel does not say that GRUB has loaded it: %v", err)
		}
	default:
		saysOf(t, historyOf(ctx, t, id), map[string]bool{"tftp: shimx64.efi": true, "script: ramdisk, state wait call-back, by TFTP": true, "iPXE": false})
	}
}

// instance gives the node what its instance is, and returns what that says on the console.
func (p pair) instance(ctx context.Context, t *testing.T, id string) (words *regexp.Regexp) {
	t.Helper()
	o, fields := theRack.Operator, map[string]any{}
	own := func(files map[string]string) {
		for field, value := range files {
			fields[field] = value
		}
		words = ownCommandLine
	}
	words = marker
	switch p.deploy {
	case byFiles:
		own(ownFiles())
	case byImage:
		own(ownCD(t))
	case autoFiles:
		own(ownFiles())
		fields["ironic_ramdisk_deploy"] = "true"
	case byParts, partsByOne:
		image, err := partitionimage.BuildSmall(ctx, partitionCache, kernelCache)
		if err != nil {
			t.Fatal(err)
		}
		served(t, image)
		fields = partitionFields(image)
		fields["root_gb"] = 1
		words = regexp.MustCompile(partitionimage.Up)
	case byVolume:
		p.volume(ctx, t, id)
	case byInstaller:
		installed(ctx, t, id)
	case byPlaybook:
		forPlaybooks(ctx, t, id)
	case byContainer:
		contained(ctx, t, id, tagPlain, containerAccount)
		words = regexp.MustCompile(partitionimage.Mark + "keys " + containerKey)
	default:
		if err := o.SetImage(ctx, id, qcow2()); err != nil {
			t.Fatal(err)
		}
	}
	for field, value := range fields {
		if err := o.Set(ctx, id, "/instance_info/"+field, value); err != nil {
			t.Fatal(err)
		}
	}
	return words
}

// volume gives the node a volume. iPXE shows a secret. tgtd and this firmware have no way of CHAP in common.
func (p pair) volume(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	switch {
	case p.refused != "": // there is no target either
		attached(ctx, t, id, nil)
	case p.byFirmware():
		san(t, "")
		attached(ctx, t, id, nil)
		startedOnce(ctx, t, id, p.machine)
	default:
		san(t, volumeUser)
		attached(ctx, t, id, map[string]any{"auth_method": "CHAP", "auth_username": volumeUser, "auth_password": volumeSecret})
	}
}

// run returns how long the pair took, or why it was refused. shown takes further lines of the table.
func (p pair) run(ctx context.Context, t *testing.T, shown func(deploy, result string)) string {
	t.Helper()
	o := theRack.Operator
	p.readied(ctx, t)
	id := enrolled(ctx, t, p.machine, func(m *operator.Machine) {
		p.hardware(t, m)
		deploy, _, _ := strings.Cut(p.deploy, " ")
		deploy = strings.TrimSuffix(deploy, ",")
		m.Interfaces = map[string]string{"boot": p.boot, "deploy": deploy, "rescue": "agent"}
	})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	words := p.instance(ctx, t, id)
	reason, err := o.Unfit(ctx, id)
	switch {
	case err != nil:
		t.Fatal(err)
	case p.refused != "" && !strings.Contains(reason, p.refused), p.refused == "" && reason != "":
		t.Fatalf("validate says %q, want %q", reason, p.refused)
	}
	firmware := consoleFromNow(t, p.machine)
	console, began := consoleFromNow(t, p.machine), time.Now()
	err = o.Ask(ctx, id, "active", nil)
	if p.refused != "" {
		if err == nil {
			t.Fatal("the deploy was accepted")
		}
		if theRack.Serving.Machines[p.machine].On() {
			t.Error("the machine was switched on")
		}
		return "refused: " + reason
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	switch said := historyOf(ctx, t, id); p.deploy {
	case "custom-agent": // the request names no step that writes a disk
		if !strings.Contains(said, "into the instance, boot mode") || !strings.Contains(said, "agent: the ramdisk's agent has called") || strings.Contains(said, "write:") {
			t.Errorf("the agent was not brought up and taken down, or has written:\n%s", said)
		}
	case "noop":
		if theRack.Serving.Machines[p.machine].On() {
			t.Error("the machine was switched on")
		}
	default:
		if _, err := console.Wait(ctx, words); err != nil {
			t.Fatalf("no instance on the console: %v", err)
		}
	}
	took := time.Since(began)
	switch {
	case p.byFirmware():
		attachedBy(ctx, t, console)
	case p.boot == iloHTTPS:
		loadedByTLS(ctx, t, firmware)
	}
	if p.loader != "" {
		p.loaded(ctx, t, id, firmware)
	}
	switch p.deploy {
	case byInstaller:
		saysInstalled(ctx, t, id)
	case byPlaybook:
		saysPlayed(ctx, t, id)
	}
	switch p.deploy {
	case byFiles, byVolume: // which no disk of the machine's keeps
		again := consoleFromNow(t, p.machine)
		if err := o.Power(ctx, id, "rebooting"); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Wait(ctx, words); err != nil {
			t.Fatalf("no instance on the console after a power cycle: %v", err)
		}
	case "direct":
		result := "failed"
		defer func() { shown(byRescue, result) }()
		result = fmt.Sprintf("%.0f s", rescuedAndBack(ctx, t, id, p.machine).Seconds())
	}
	undeployed(ctx, t, id)
	if p.byFirmware() {
		detached(t, p.machine)
	}
	return fmt.Sprintf("%.0f s", took.Seconds())
}
