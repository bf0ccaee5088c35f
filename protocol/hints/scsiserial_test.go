package hints

import (
	"errors"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// What ironic-python-agent calls the serial number of a SCSI disk is udev's ID_SERIAL_SHORT: its name by page 0x83, without "0x". A SAS
// disk and a RAID controller's volume have another number in page 0x80, which Ironyard's agent shows. Nodes come from Ironic with hints
// by the first, as its inventories have it. (Values: udev's of an LSI MegaRAID volume, ID_SERIAL_SHORT and ID_SCSI_SERIAL.)
func TestASerialNumberAsIronicsAgentShowsIt(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 4 << 40, Vendor: "LSI", Model: "MRROMB", Tran: "sas", Serial: "00fb0eb2c76f22b41d001a0dc064ea00",
			WWN: "0x6000ea64c00d1a00", WWNVendorExtension: "0x1db4226fc7b20efb", WWNWithExtension: "0x6000ea64c00d1a001db4226fc7b20efb"},
		{Name: "/dev/sdb", Size: 1 << 40, Vendor: "LSI", Model: "MRROMB", Tran: "sas", Serial: "00aa0eb2c76f22b41d001a0dc064ea00",
			WWN: "0x6000ea64c00d1a00", WWNVendorExtension: "0x1db4226fc7b20aaa", WWNWithExtension: "0x6000ea64c00d1a001db4226fc7b20aaa"},
	}
	const serial = "6000ea64c00d1a001db4226fc7b20efb"
	keep, err := ParseKept([]any{map[string]any{"serial": serial}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Rules{Kept: keep}.Decide(disks, nil)
	var unknown *UnknownError
	if !errors.As(err, &unknown) { // a refusal harms no disk
		for _, e := range d.Erased {
			if e.Name == "/dev/sda" {
				t.Errorf("skip_block_devices by the serial number that Ironic's inventory has: the disk is erased (%v)", err)
			}
		}
	}
	root, err := Parse(map[string]any{"serial": serial})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := root.Choose(disks, 0); err != nil || got.Name != "/dev/sda" {
		t.Errorf("the root device by that serial number: %q, %v", got.Name, err)
	}
}
