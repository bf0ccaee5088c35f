package hints

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// A hint that excludes a disk by one of its names excludes it, also where the disk has a second name that differs. Such is the older
// form of by_path, or the WWN with its vendor's extension. In Ironic each property is one text, and "s!=" is its opposite.
func TestAnExcludedDiskIsNotChosenByItsSecondName(t *testing.T) {
	sata := []agentapi.Disk{
		{Name: "/dev/sda", Size: 8 << 30, Serial: "A", Tran: "sata", ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-1.0"},
		{Name: "/dev/sdb", Size: 16 << 30, Serial: "B", Tran: "sata", ByPath: "/dev/disk/by-path/pci-0000:00:17.0-ata-2.0"},
	}
	virtio := []agentapi.Disk{
		{Name: "/dev/vda", Size: 8 << 30, Tran: "virtio", ByPath: "/dev/disk/by-path/pci-0000:00:04.0"},
		{Name: "/dev/vdb", Size: 16 << 30, Tran: "virtio", ByPath: "/dev/disk/by-path/pci-0000:00:05.0"},
	}
	raid := []agentapi.Disk{
		{Name: "/dev/sda", Size: 8 << 30, WWN: "0x600508b1001c1111", WWNWithExtension: "0x600508b1001c1111aaaaaaaaaaaaaaaa"},
		{Name: "/dev/sdb", Size: 16 << 30, WWN: "0x600508b1001c2222", WWNWithExtension: "0x600508b1001c2222bbbbbbbbbbbbbbbb"},
	}
	for _, c := range []struct {
		disks []agentapi.Disk
		hint  map[string]any
	}{
		{sata, map[string]any{"by_path": "s!= /dev/disk/by-path/pci-0000:00:17.0-ata-1.0"}},
		{sata, map[string]any{"by_path": "s!= /dev/disk/by-path/pci-0000:00:17.0-ata-1"}},
		{virtio, map[string]any{"by_path": "s!= /dev/disk/by-path/pci-0000:00:04.0"}},
		{virtio, map[string]any{"by_path": "s!= /dev/disk/by-path/virtio-pci-0000:00:04.0"}},
		{raid, map[string]any{"wwn": "s!= 0x600508b1001c1111"}},
		{raid, map[string]any{"wwn": "s!= 0x600508b1001c1111aaaaaaaaaaaaaaaa"}},
	} {
		h, err := Parse(c.hint)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := h.Choose(c.disks, 0); err != nil || d.Name != c.disks[1].Name {
			t.Errorf("%v: the image goes to %s (%v), which the hint excludes; want %s", c.hint, d.Name, err, c.disks[1].Name)
		}
	}
}
