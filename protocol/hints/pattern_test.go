package hints

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A pattern keeps several disks. One that shows its name does not vouch for another that hides it: the kernel tells serial number and WWN
// late, and some controllers tell none (decision 128).
func TestAPatternKeepsDisksThatHideTheirNames(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 4 << 40, Serial: "CEPH-0001", Model: "VAULT", WWN: "0x5000c50000000001", WWNWithExtension: "0x5000c50000000001"},
		{Name: "/dev/sdb", Size: 4 << 40, Model: "VAULT"}, // CEPH-0002
		{Name: "/dev/sdc", Size: 500 << 30, Serial: "SYSTEM", Model: "SSD", WWN: "0x5000c50000000003", WWNWithExtension: "0x5000c50000000003"},
	}
	for _, hint := range []map[string]any{
		{"serial": "<in> ceph-"},
		{"serial": "<all-in> ceph 00"},
		{"wwn": "<in> 0x5000c50000000001", "model": "VAULT"},
	} {
		keep, err := ParseKept([]any{hint})
		if err != nil {
			t.Fatal(err)
		}
		var unknown *UnknownError
		d, err := Rules{Kept: keep}.Decide(disks, nil)
		if !errors.As(err, &unknown) {
			t.Errorf("kept by %v: error %v; /dev/sdb, which may be one of them, is erased: %v", hint, err, len(d.Erased) == 2)
		}
	}
	list := []any{map[string]any{"serial": []any{"CEPH-0001", "CEPH-0002"}}} // as a list of names does today
	keep, err := ParseKept(list)
	if err != nil {
		t.Fatal(err)
	}
	var unknown *UnknownError
	if _, err := (Rules{Kept: keep}).Decide(disks, nil); !errors.As(err, &unknown) {
		t.Fatalf("kept by a list: %v", err)
	}
}
