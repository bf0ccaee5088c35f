package hints

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Ironic passes over a disk that does not show the property of a hint, whatever the operator:
// no serial number is not another serial number.
func TestADiskThatHidesAPropertyFitsNoHint(t *testing.T) {
	hides := agentapi.Disk{Name: "/dev/sda", Size: 100 << 30}
	shows := agentapi.Disk{Name: "/dev/sdb", Size: 200 << 30, Serial: "B", Model: "B", Vendor: "B", HCTL: "0:0:1:0", Tran: "sas",
		WWN: "0x5000c500000000bb", WWNWithExtension: "0x5000c500000000bb", WWNVendorExtension: "0xbb", ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-2"}
	for _, key := range []string{"serial", "model", "vendor", "wwn", "wwn_with_extension", "wwn_vendor_extension", "by_path", "hctl", "tran"} {
		for _, hint := range []string{"s!= x", "s<= zz", "s< zz"} {
			h, err := Parse(map[string]any{key: hint})
			if err != nil {
				t.Fatal(err)
			}
			if d, err := h.Choose([]agentapi.Disk{hides, shows}, 0); err != nil || d.Name != shows.Name {
				t.Errorf("%s %s: the image goes to %q (%v), want %s", key, hint, d.Name, err, shows.Name)
			}
		}
	}
}

// A hint that keeps all disks but one cannot tell whether a disk which hides the property is that one. It must not be erased for that.
func TestAKeptDiskThatHidesAProperty(t *testing.T) {
	shows := agentapi.Disk{Name: "/dev/sda", Size: 100 << 30, Serial: "A", Model: "A", Vendor: "A", HCTL: "0:0:0:0", Tran: "sas",
		WWN: "0x5000c500000000aa", WWNWithExtension: "0x5000c500000000aa", WWNVendorExtension: "0xaa", ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-1"}
	hides := agentapi.Disk{Name: "/dev/sdb", Size: 200 << 30}
	spare := agentapi.Disk{Name: "/dev/sdc", Size: 300 << 30, Serial: "x", Model: "x", Vendor: "x", HCTL: "x", Tran: "x", WWN: "x", WWNWithExtension: "x", WWNVendorExtension: "x", ByPath: "x"}
	for _, key := range []string{"serial", "model", "vendor", "wwn", "wwn_with_extension", "wwn_vendor_extension", "by_path", "hctl", "tran"} {
		for _, op := range []string{"s!= x", "s< x", "s<= w"} {
			keep, err := ParseKept([]any{map[string]any{key: op}})
			if err != nil {
				t.Fatal(err)
			}
			d, err := Rules{Kept: keep}.Decide([]agentapi.Disk{shows, spare}, nil)
			if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != spare.Name {
				t.Errorf("%s %s: erased %+v (%v), want %s", key, op, d.Erased, err, spare.Name)
			}
			// The other that the hint keeps may be one that nothing can be written to.
			for what, decide := range map[string]func() (Decision, error){
				"all can be written to": func() (Decision, error) { return Rules{Kept: keep}.Decide([]agentapi.Disk{shows, hides, spare}, nil) },
				"one is read-only": func() (Decision, error) {
					return Rules{Kept: keep}.Decide([]agentapi.Disk{hides, spare}, []agentapi.UnfitDisk{{Disk: shows, Why: "read-only"}})
				},
			} {
				d, err := decide()
				if unknown, is := errors.AsType[*UnknownError](err); !is || unknown.Disk != hides.Name || unknown.Key != key {
					t.Errorf("%s %s, %s: error %v, erased %s", key, op, what, err, fmt.Sprint(d.Erased))
				}
			}
		}
	}
}

// A pattern keeps a disk that is read-only. That one does not vouch for another which hides its name.
func TestAReadOnlyDiskOfAPatternVouchesForNoOther(t *testing.T) {
	keep, err := ParseKept([]any{map[string]any{"serial": "<in> ceph-"}})
	if err != nil {
		t.Fatal(err)
	}
	disks := []agentapi.Disk{{Name: "/dev/sdb", Size: 4 << 40}, {Name: "/dev/sdc", Size: 8 << 30, Removable: true}}
	d, err := Rules{Kept: keep}.Decide(disks, []agentapi.UnfitDisk{{Disk: agentapi.Disk{Name: "/dev/sda", Size: 4 << 40, Serial: "CEPH-0001"}, Why: "read-only"}})
	if unknown, is := errors.AsType[*UnknownError](err); !is || unknown.Disk != "/dev/sdb" {
		t.Errorf("error %v, erased %+v", err, d.Erased)
	}
}
