package inventory

import (
	"maps"
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

// Only a machine whose controllers have all shown what they have needs no quiet time.
func TestComplete(t *testing.T) {
	const disk, ahci, nic = "sys/devices/pci0000:00/0000:00:04.0", "sys/devices/pci0000:00/0000:00:1f.2", "sys/devices/pci0000:00/0000:00:03.0"
	base := map[string]string{
		"sys/bus/pci/devices/0000:00:04.0": "->" + disk, disk + "/class": "0x010000",
		"sys/bus/pci/devices/0000:00:1f.2": "->" + ahci, ahci + "/class": "0x010601",
		"sys/bus/pci/devices/0000:00:03.0": "->" + nic, nic + "/class": "0x020000",
		"sys/block/vda": "->" + disk + "/virtio1/block/vda",
	}
	const more = "sys/devices/pci0000:00/0000:00:05.0"
	add := func(class string, files map[string]string) map[string]string {
		all := maps.Clone(base)
		all["sys/bus/pci/devices/0000:00:05.0"], all[more+"/class"] = "->"+more, class
		maps.Copy(all, files)
		return all
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"virtio disk and AHCI":    {base, true},
		"second disk":             {add("0x010000", map[string]string{"sys/block/vdb": "->" + more + "/virtio2/block/vdb"}), true},
		"second disk not shown":   {add("0x010000", nil), false},
		"virtio SCSI with a disk": {add("0x010000", map[string]string{"sys/block/sda": "->" + more + "/virtio2/host0/target0:0:0/0:0:0:0/block/sda"}), false},
		"NVMe":                    {add("0x010802", map[string]string{"sys/block/nvme0n1": "->" + more + "/nvme/nvme0/nvme0n1"}), false},
		"SAS":                     {add("0x010700", nil), false},
		"USB":                     {add("0x0c0330", nil), false},
		"Fibre Channel":           {add("0x0c0400", nil), false},
		"SD":                      {add("0x080501", nil), false},
		"eMMC without PCI":        {add("0x020000", map[string]string{"sys/class/mmc_host/mmc0/x": ""}), false},
		"no PCI":                  {map[string]string{"sys/block/vda": "->sys/devices/platform/virtio1/block/vda"}, false},
	} {
		m := tree(t, c.files)
		if m.Complete() {
			t.Errorf("%s: modules that others load may still come", name)
		}
		m.OwnModules = true
		if got := m.Complete(); got != c.want {
			t.Errorf("%s: complete is %t, want %t", name, got, c.want)
		}
	}
}
