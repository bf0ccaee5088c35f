package hints

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A hint that excludes one disk, or a range of names, names no stick: docs/disks.md has a removable disk used only where a hint names it.
func TestAHintThatExcludesADiskNamesNoStick(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 100 << 30, Serial: "DATA", WWN: "0x5000000000000001", WWNWithExtension: "0x5000000000000001"},
		{Name: "/dev/sdb", Size: 200 << 30, Serial: "SYSTEM", WWN: "0x5000000000000002", WWNWithExtension: "0x5000000000000002"},
		{Name: "/dev/sdc", Size: 8 << 30, Serial: "STICK", Removable: true},
	}
	for _, hint := range []map[string]any{
		{"serial": "s!= DATA"},
		{"name": "s!= /dev/sda"},
		{"wwn": "s!= 0x5000000000000001"},
	} {
		h, err := Parse(hint)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Rules{Root: h}.Decide(disks, nil)
		if err != nil || d.Image.Name != "/dev/sdb" {
			t.Errorf("%v: the image goes to %s (%v), want /dev/sdb", hint, d.Image.Name, err)
		}
		for _, e := range d.Erased {
			if e.Removable {
				t.Errorf("%v: a cleaning erases the stick %s", hint, e.Name)
			}
		}
	}
}
