package drivers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
	"github.com/ironyard/ironyard/rackd/rackramdisk"
)

// instances are what instance_info may bring, by what it is.
var instances = map[string]map[string]any{
	"nothing":                        {},
	"an image":                       {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32)},
	"a CD":                           {"boot_iso": "http://192.0.2.1/i.iso"},
	"a kernel":                       {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r"},
	"a container":                    {"image_source": "oci://192.0.2.1/i", "image_disk_format": "bootc"},
	"an image by netboot":            {"image_source": "http://192.0.2.1/i", "image_checksum": strings.Repeat("ab", 32), "capabilities": "boot_option:netboot"},
	"a CD, said to be a ramdisk":     {"boot_iso": "http://192.0.2.1/i.iso", "ironic_ramdisk_deploy": true},
	"a kernel, said to be a ramdisk": {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "ironic_ramdisk_deploy": "true"},
	"an installer":                   {"image_source": "http://192.0.2.1/i.tgz", "image_checksum": strings.Repeat("ab", 32), "kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "stage2": "http://192.0.2.1/s"},
	"a kernel, as netboot":           {"kernel": "http://192.0.2.1/k", "ramdisk": "http://192.0.2.1/r", "capabilities": "boot_option:netboot"},
}

// goes reports whether an instance can be deployed by a pair of interfaces.
func goes(boot, deploy, instance string) bool {
	network := strings.HasSuffix(boot, "pxe")
	chosen, said := strings.CutSuffix(instance, ", said to be a ramdisk")
	if deploy == "autodetect" {
		if deploy = map[bool]string{true: "ramdisk", false: "direct"}[said]; instance == "a container" {
			deploy = "bootc"
		}
	}
	switch instance = chosen; deploy {
	case "noop":
		return true
	case "bootc":
		return instance == "a container"
	case "ansible": // these rackds have no playbooks
		return false
	case "anaconda":
		return instance == "an installer" && network
	case "direct", "iscsi":
		return instance == "an image" || instance == "an image by netboot" && network
	case "ramdisk": // what firmware loads is no instance, but for an image, which rackd makes of a kernel
		if boot == "ilo-uefi-https" || boot == "http" {
			return false
		}
		return instance == "a CD" || instance == "a kernel" || instance == "an installer" || instance == "a kernel, as netboot" && network
	}
	return network || !strings.HasSuffix(instance, "netboot")
}

// Each boot interface goes with each deploy interface of its hardware type, or validate says why not. A new interface
// is asked here what becomes of its pairs.
func TestEveryPairOfBootAndDeploy(t *testing.T) {
	o := all
	racks, err := rackramdisk.New(bootfiles.Paths{Kernel: "k", Ramdisk: "r", RescueRamdisk: "rr", UKI: "u", RescueUKI: "ru"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Media, o.Ramdisks = func(string) error { return nil }, racks
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	pairs := 0
	for name, kinds := range s.Describe() {
		if name == "fake-hardware" {
			continue // it boots nothing
		}
		for _, boot := range kinds["boot"] {
			for _, deploy := range kinds["deploy"] {
				pairs++
				for instance, info := range instances {
					n := &node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{"boot": boot, "deploy": deploy},
						Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}, InstanceInfo: info}
					if boot == "ilo-uefi-https" {
						n.DriverInfo = map[string]any{"deploy_iso": "https://192.0.2.1/r.iso"}
					}
					if strings.HasPrefix(boot, "redfish-") && slices.Contains(kinds["management"], "redfish") {
						n.Interfaces["management"] = "redfish" // the management of the same way
					}
					hw, err := s.Resolve(n)
					if err != nil {
						t.Fatal(err)
					}
					err = errors.Join(hw.Validate("boot", n), hw.Validate("deploy", n))
					if fits := goes(boot, deploy, instance); (err == nil) != fits || err != nil && !errors.Is(err, driver.ErrInvalid) {
						t.Errorf("%s: boot %s and deploy %s with %s: %v, to be taken: %t", name, boot, deploy, instance, err, fits)
					}
				}
			}
		}
	}
	if pairs < 12 {
		t.Errorf("%d pairs", pairs)
	}
}
