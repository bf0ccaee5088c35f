package drivers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// instances are what instance_info may bring, by what it is.
var instances = map[string]map[string]any{
	"nothing":                        {},
	"an image":                       {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)},
	"a CD":                           {"boot_iso": "https://192.0.2.1/i.iso"},
	"a kernel":                       {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r"},
	"a container":                    {"image_source": "oci://192.0.2.1/i", "image_disk_format": "bootc"},
	"an image by netboot":            {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "capabilities": "boot_option:netboot"},
	"a CD, said to be a ramdisk":     {"boot_iso": "https://192.0.2.1/i.iso", "ironic_ramdisk_deploy": true},
	"a kernel, said to be a ramdisk": {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ironic_ramdisk_deploy": "true"},
	"an installer":                   {"image_source": "http://192.0.2.1/i.tgz", "image_checksum": strings.Repeat("ab", 32), "kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "stage2": "http://192.0.2.1/s"},
	"a kernel, as netboot":           {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "capabilities": "boot_option:netboot"},
	"a partition image":              {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_type": "partition", "root_gb": 8},
	"a partition image by netboot": {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_type": "partition", "root_gb": 8,
		"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "capabilities": "boot_option:netboot"},
	"a volume": {}, // which is a target of the node's
	// The image of a CD beside what is to be deployed, as an instance before may have left it.
	"an image and a CD":                       beside(map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)}),
	"an image and a CD, said to be a ramdisk": beside(map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "ironic_ramdisk_deploy": true}),
	"a partition image and a CD":              beside(map[string]any{"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "image_type": "partition", "root_gb": 8}),
	"a container and a CD":                    beside(map[string]any{"image_source": "oci://192.0.2.1/i", "image_disk_format": "bootc"}),
	"a volume and a CD":                       beside(map[string]any{}),
}

// beside is what instance_info brings, with the image of a CD.
func beside(info map[string]any) map[string]any {
	info["boot_iso"] = "https://192.0.2.1/i.iso"
	return info
}

// attach gives a node a volume that it boots.
func attach(n *node.Document) {
	n.Interfaces["storage"] = "external"
	n.Connectors = []node.Connector{{Type: "iqn", ID: "iqn.2026-11.org.example:machine"}}
	n.Targets = []node.Target{{UUID: "t", Type: "iscsi", Properties: map[string]any{"target_iqn": "iqn.2026-11.org.example:volume", "target_portal": "192.0.2.9:3260", "target_lun": 1}}}
}

// needsUEFI is what boot interfaces say that boot no machine in BIOS mode.
var needsUEFI = map[string]string{
	"http": "only UEFI firmware boots by HTTP", "http-ipxe": "only UEFI firmware boots by HTTP",
	"redfish-https": "only UEFI firmware loads an image by HTTP", "ilo-uefi-https": "only UEFI firmware loads an image by HTTP",
}

// trouble is what is said of an instance that a pair of interfaces cannot deploy in a boot mode; empty: they can.
func trouble(boot, deploy, mode, instance string) string {
	network, inBIOS := strings.HasSuffix(boot, "pxe"), mode == "bios"
	chosen, said := strings.CutSuffix(instance, ", said to be a ramdisk")
	if inBIOS && needsUEFI[boot] != "" {
		return needsUEFI[boot]
	}
	if deploy == "autodetect" {
		if deploy = map[bool]string{true: "ramdisk", false: "direct"}[said]; strings.HasPrefix(instance, "a container") {
			deploy = "bootc"
		}
		if instance == "a CD" || strings.HasPrefix(instance, "a kernel") && !said {
			return "autodetect boots files alone where ironic_ramdisk_deploy is true"
		}
	}
	if what, beside := strings.CutSuffix(chosen, " and a CD"); beside {
		return troubleBeside(boot, deploy, mode, what)
	}
	netboot := ""
	if instance = chosen; strings.HasSuffix(instance, "netboot") && !network {
		netboot = "the capability boot_option is netboot, but the boot interface " + boot
	}
	if instance == "a volume" && deploy != "ramdisk" {
		switch {
		case boot == "http":
			return fmt.Sprintf("must be one that boots volumes, such as ``ipxe``: %q does not", boot)
		case inBIOS && strings.HasSuffix(boot, "virtual-media"):
			return "virtual media can not boot volume in bios mode."
		case deploy == "direct" || deploy == "iscsi":
			return ""
		}
	}
	switch deploy {
	case "noop":
		return ""
	case "custom-agent":
		if instance == "a CD" {
			return forRamdisk
		}
	case "bootc":
		if instance != "a container" {
			return "The deploy interface bootc installs a container"
		}
		return ""
	case "anaconda":
		return map[string]string{"an image": "missing the following properties: kernel, ramdisk", "an image by netboot": "missing the following properties: kernel, ramdisk",
			"a partition image": "missing the following properties: kernel, ramdisk", "a container": "missing the following properties: kernel, ramdisk",
			"a partition image by netboot": "instance_info['stage2']", "an installer": map[bool]string{false: "the boot interface " + boot + " loads no installer"}[network],
			"nothing": "Missing are: ['image_source']", "a CD": "Missing are: ['image_source']", "a volume": "Missing are: ['image_source']",
			"a kernel": "Missing are: ['image_source']", "a kernel, as netboot": "Missing are: ['image_source']"}[instance]
	case "direct", "iscsi", "ansible":
		lacks := "instance_info has no image_source"
		if deploy == "ansible" {
			lacks = "Missing are: ['instance_info.image_source']"
			if strings.HasPrefix(instance, "a partition") {
				return "this deploy interface writes whole disks only"
			}
		}
		return map[string]string{"an image": "", "an image by netboot": netboot, "a partition image": "", "a partition image by netboot": netboot,
			"a container": `image_disk_format is "bootc"`, "an installer": "Missing are: ['instance_info.root_gb']", // a kernel says that it is a partition image
			"nothing": lacks, "a CD": lacks, "a volume": lacks, "a kernel": lacks, "a kernel, as netboot": lacks}[instance]
	case "ramdisk":
		if boot == "http" { // what firmware loads is no instance, but for an image, which rackd makes of a kernel
			return fmt.Sprintf("The boot interface must have the `ramdisk_boot` capability. You are using an incompatible boot interface. Node u has %q", boot)
		}
		lacks := "Missing are: ['kernel', 'ramdisk'], or 'boot_iso'"
		return map[string]string{"a CD": "", "a kernel": "", "an installer": "", "a kernel, as netboot": netboot, "a partition image by netboot": netboot,
			"nothing": lacks, "an image": lacks, "an image by netboot": lacks, "a container": lacks, "a partition image": lacks, "a volume": lacks}[instance]
	}
	return netboot
}

// forRamdisk is what deploy interfaces say of the image of a CD that they do not boot.
const forRamdisk = "instance_info has boot_iso: it is for the deploy interface ramdisk, which writes no disk"

// troubleBeside is trouble of an instance that brings the image of a CD, too. Nothing but ramdisk boots one, and none beside an image.
func troubleBeside(boot, deploy, mode, instance string) string {
	const both = "An 'image_source' and 'boot_iso' parameter may not be specified at the same time."
	alone := trouble(boot, deploy, mode, instance)
	switch {
	case deploy == "ramdisk" && instance == "a volume": // it boots the CD, as volumes do not count
		return trouble(boot, deploy, mode, "a CD")
	case deploy == "ramdisk" && boot != "http":
		return both
	case deploy == "anaconda" && instance != "a volume":
		return both
	case alone == "" && deploy != "noop":
		return forRamdisk
	}
	return alone // that is said first
}

// rescueTrouble is what is said of a rescue, or of an inspection by the agent, that a boot interface cannot boot in a boot mode; empty:
// it can.
func rescueTrouble(boot, mode string) string {
	if mode == "bios" {
		return needsUEFI[boot]
	}
	return ""
}

// agrees checks what is said of a pair.
func agrees(t *testing.T, what string, err error, trouble string) {
	t.Helper()
	switch {
	case trouble == "" && err != nil:
		t.Errorf("%s is refused: %v", what, err)
	case trouble != "" && (err == nil || !strings.Contains(err.Error(), trouble)):
		t.Errorf("%s is to be refused with %q: %v", what, trouble, err)
	case err != nil && !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrUnsupported):
		t.Errorf("%s is refused with another error than of the node's fields: %v", what, err)
	}
}

// playbooks is a folder of playbooks, on a host with Ansible. Validate runs neither.
func playbooks(t *testing.T) string {
	t.Helper()
	dir, programs := t.TempDir(), t.TempDir()
	for name, mode := range map[string]os.FileMode{filepath.Join(dir, "deploy.yaml"): 0o600, filepath.Join(programs, "ansible-playbook"): 0o700} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs)
	t.Setenv("TMPDIR", t.TempDir()) // what other rackds have left there is theirs
	return dir
}

// Each boot interface goes with each deploy interface of its hardware type, or validate says why not, in both boot modes. So do storage
// and rescue beside them. A new interface is asked here what becomes of its pairs.
func TestEveryPairOfBootAndDeploy(t *testing.T) {
	o := all
	racks, err := rackramdisk.New(bootfiles.Paths{Kernel: "k", Ramdisk: "r", RescueRamdisk: "rr", UKI: "u", RescueUKI: "ru"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.AnsibleFolder = playbooks(t)
	o.Media, o.HTTPS, o.Ramdisks = func(string) error { return nil }, true, racks
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	pairs := 0
	for name, kinds := range s.Describe() {
		if name == fake.TypeName {
			allAlike(t, s, kinds["boot"])
			continue
		}
		for _, boot := range kinds["boot"] {
			for _, deploy := range kinds["deploy"] {
				pairs++
				for instance := range instances {
					for _, mode := range []string{"uefi", "bios"} {
						n := pairOf(name, boot, deploy, mode, instance, kinds)
						hw, err := s.Resolve(n)
						if err != nil {
							t.Fatal(err)
						}
						what := fmt.Sprintf("%s: %s by boot %s and deploy %s in boot mode %s", name, instance, boot, deploy, mode)
						agrees(t, what, errors.Join(hw.Validate("boot", n), hw.Validate("deploy", n), hw.Validate("storage", n)), trouble(boot, deploy, mode, instance))
						agrees(t, what+", its rescue", hw.Validate("rescue", n), rescueTrouble(boot, mode))
						if slices.Contains(kinds["inspect"], "agent") {
							n.Interfaces["inspect"] = "agent"
							hw, err := s.Resolve(n)
							if err != nil {
								t.Fatal(err)
							}
							agrees(t, what+", its inspection", hw.Validate("inspect", n), rescueTrouble(boot, mode))
						}
					}
				}
			}
		}
	}
	if pairs < 600 {
		t.Errorf("%d pairs", pairs)
	}
}

// allAlike checks that the boot interfaces of fake hardware are one and the same, whatever they are called. So it has no pairs to judge.
func allAlike(t *testing.T, s *Set, names []string) {
	t.Helper()
	boots := map[driver.Boot][]string{}
	for _, name := range names {
		hw, err := s.Resolve(&node.Document{UUID: "u", Driver: fake.TypeName, Interfaces: map[string]string{"boot": name}})
		if err != nil {
			t.Fatal(err)
		}
		boots[hw.Boot()] = append(boots[hw.Boot()], name)
	}
	if len(boots) != 1 {
		t.Errorf("the boot interfaces of fake hardware differ, so their pairs are to be judged: %v", boots)
	}
}

// pairOf is a node of that pair, whose password for rescues is there.
func pairOf(hardware, boot, deploy, mode, instance string, kinds map[string][]string) *node.Document {
	n := &node.Document{UUID: "u", Driver: hardware, Interfaces: map[string]string{"boot": boot, "deploy": deploy, "rescue": "agent"},
		Properties: map[string]any{"capabilities": "boot_mode:" + mode},
		Ports:      []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}, InstanceInfo: maps.Clone(instances[instance])}
	n.InstanceInfo["rescue_password"] = "open sesame"
	if strings.HasPrefix(instance, "a volume") {
		attach(n)
	}
	if strings.HasPrefix(boot, "redfish-") && slices.Contains(kinds["management"], "redfish") {
		n.Interfaces["management"] = "redfish" // the management of the same way
	}
	return n
}
