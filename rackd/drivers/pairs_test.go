package drivers

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// Each boot interface goes with each deploy interface of its hardware type, or validate says why not. A new interface
// is asked here what becomes of its pairs.
func TestEveryPairOfBootAndDeploy(t *testing.T) {
	o := all
	o.Media, o.Programs = func(string) error { return nil }, networkboot.Programs{Ramdisk: true, Rescue: true}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	// By the network, and by what an iLO's firmware loads, no image of an instance boots.
	network := func(boot string) bool {
		return strings.HasSuffix(boot, "pxe") || boot == "http" || boot == "ilo-uefi-https"
	}
	pairs := 0
	for name, kinds := range s.Describe() {
		if name == "fake-hardware" {
			continue // it boots nothing
		}
		for _, boot := range kinds["boot"] {
			for _, deploy := range kinds["deploy"] {
				pairs++
				n := &node.Document{UUID: "u", Driver: name, Interfaces: map[string]string{"boot": boot, "deploy": deploy},
					Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}, InstanceInfo: map[string]any{}}
				switch deploy {
				case "direct", "iscsi":
					n.InstanceInfo["image_source"], n.InstanceInfo["image_checksum"] = "http://192.0.2.1/i", strings.Repeat("ab", 32)
				case "ramdisk":
					n.InstanceInfo["boot_iso"] = "http://192.0.2.1/i.iso"
				}
				if boot == "ilo-uefi-https" {
					n.DriverInfo = map[string]any{"deploy_iso": "https://192.0.2.1/r.iso"}
				}
				hw, err := s.Resolve(n)
				if err != nil {
					t.Fatal(err)
				}
				err = errors.Join(hw.Validate("boot", n), hw.Validate("deploy", n))
				if refused := deploy == "ramdisk" && network(boot); (err != nil) != refused || err != nil && !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s: boot %s and deploy %s: %v, to be refused: %t", name, boot, deploy, err, refused)
				}
			}
		}
	}
	if pairs < 12 {
		t.Errorf("%d pairs", pairs)
	}
}
