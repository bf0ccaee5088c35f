package inventory

import (
	"slices"
	"testing"
)

// A controller that shows no disk yet may need long; one of a kind that is quick is not waited for.
func TestPendingControllers(t *testing.T) {
	const hba, raid, ahci, vblk = "sys/devices/pci0000:00/0000:02:00.0", "sys/devices/pci0000:00/0000:03:00.0", "sys/devices/pci0000:00/0000:00:1f.2", "sys/devices/pci0000:00/0000:00:04.0"
	m := tree(t, map[string]string{
		"sys/bus/pci/devices/0000:02:00.0": "->" + hba, hba + "/class": "0x010700",
		"sys/bus/pci/devices/0000:03:00.0": "->" + raid, raid + "/class": "0x010400",
		"sys/bus/pci/devices/0000:00:1f.2": "->" + ahci, ahci + "/class": "0x010601",
		"sys/bus/pci/devices/0000:00:04.0": "->" + vblk, vblk + "/class": "0x010000",
		"sys/block/sda": "->" + raid + "/host0/target0:0:0/0:0:0:0/block/sda",
		"sys/block/vda": "->" + vblk + "/virtio1/block/vda",
	})
	if got := m.Pending(); !slices.Equal(got, []string{"0000:02:00.0"}) {
		t.Errorf("pending %v, want the SAS controller", got)
	}
}
