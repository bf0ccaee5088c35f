package hints

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A kept disk is read-only or in use by one of its paths, and another path to it shows no WWN. That path may be the kept disk as well as if
// the first could be written to: nothing may be erased.
func TestAPathToAKeptDiskThatIsReadOnly(t *testing.T) {
	kept := agentapi.Disk{Name: "/dev/sda", Size: 100 << 30, Vendor: "ACME", Model: "LUN", Serial: "S", WWN: "0x5000000000000001", WWNWithExtension: "0x5000000000000001"}
	blind := kept
	blind.Name, blind.WWN, blind.WWNWithExtension = "/dev/sdb", "", ""
	other := agentapi.Disk{Name: "/dev/sdc", Size: 50 << 30, Serial: "T", WWN: "0x5000000000000002", WWNWithExtension: "0x5000000000000002"}
	keep, err := ParseKept([]any{map[string]any{"wwn": kept.WWN}})
	if err != nil {
		t.Fatal(err)
	}
	r := Rules{Kept: keep}
	var unknown *UnknownError
	if _, err := r.Decide([]agentapi.Disk{kept, blind, other}, nil); !errors.As(err, &unknown) {
		t.Fatalf("both paths can be written to: %v", err) // as docs/disks.md has it
	}
	for _, why := range []string{"read-only", "in use"} {
		d, err := r.Decide([]agentapi.Disk{blind, other}, []agentapi.UnfitDisk{{Disk: kept, Why: why}})
		if !errors.As(err, &unknown) {
			t.Errorf("the kept disk is %s: error %v; erased: %+v", why, err, d.Erased)
		}
		if left, _, err := keep.Leave([]agentapi.Disk{blind, other}, []agentapi.UnfitDisk{{Disk: kept, Why: why}}); !errors.As(err, &unknown) {
			t.Errorf("the kept disk is %s: a boot loader may go to %+v (%v)", why, left, err)
		}
	}
}
