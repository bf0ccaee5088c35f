package inventory

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree builds a small machine out of files; a value that starts with "->" is a link.
func tree(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "->"); link {
			err = os.MkdirAll(filepath.Join(root, target), 0o755)
			if err == nil {
				err = os.Symlink(filepath.Join(root, target), path)
			}
		} else {
			err = os.WriteFile(path, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Machine{Root: root}
}

const (
	ata  = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"
	vnet = "sys/devices/pci0000:00/0000:00:03.0/virtio0"
)

func TestDisks(t *testing.T) {
	m := tree(t, map[string]string{
		"sys/block/sda": "->" + ata, ata + "/size": "20971520", ata + "/queue/rotational": "1", ata + "/queue/logical_block_size": "512",
		ata + "/device/model": "ACME 100", ata + "/device/vendor": "ATA", ata + "/device/vpd_pg80": "\x00\x80\x00\x04S-77",
		ata + "/device/wwid": "naa.600508b1001c0123456789abcdef0123", "sys/class/ata_port/ata1/port_no": "1",
		"sys/block/vda/size": "2048", "sys/block/vda/serial": "V1", "sys/block/vda/ro": "0",
		"sys/block/vdb/size": "2048", "sys/block/vdb/ro": "1",
		"sys/block/vdc/size": "2048", "sys/block/vdc/vdc1/size": "1024",
		"sys/block/sr0/size": "2048", "sys/block/loop0/size": "2048", "sys/block/sdb/size": "0", "sys/block/sdc/size": "0", "sys/block/sdc/removable": "1", "sys/block/zram0/size": "8",
		"proc/self/mounts": "proc /proc proc rw 0 0\n/dev/vdc1 /mnt ext4 rw 0 0",
	})
	got := m.Disks()
	if len(got) != 2 || got[0].Name != "/dev/sda" || got[1].Name != "/dev/vda" {
		t.Fatalf("disks %+v", got)
	}
	want := []string{`/dev/sdb (0 bytes, serial ""), which is of size 0`, `/dev/vdb (1048576 bytes, serial ""), which is read-only`, `/dev/vdc (1048576 bytes, serial ""), which is in use`}
	var unfit []string
	_, others := m.Look()
	for _, u := range others {
		unfit = append(unfit, u.String())
	}
	if !slices.Equal(unfit, want) {
		t.Errorf("unfit %q, want %q", unfit, want)
	}
	a := got[0]
	if a.Size != 10<<30 || !a.Rotational || a.HCTL != "0:0:0:0" || a.Tran != "sata" || a.ByPath != "/dev/disk/by-path/pci-0000:00:1f.2-ata-1.0" || a.Serial != "S-77" ||
		a.WWN != "0x600508b1001c0123" || a.WWNVendorExtension != "0x456789abcdef0123" || a.WWNWithExtension != "0x600508b1001c0123456789abcdef0123" {
		t.Errorf("sda %+v", a)
	}
	if got[1].Serial != "V1" {
		t.Errorf("vda %+v", got[1])
	}
}

// A drive with several paths shows a hidden device for each beside itself, and a card's boot areas
// are devices too: neither is a disk that an image may go to.
func TestPathsAndAreasOfDisksAreNoDisks(t *testing.T) {
	m := tree(t, map[string]string{
		"sys/block/nvme0c0n1/size": "2048", "sys/block/nvme0c0n1/hidden": "1",
		"sys/block/nvme0n1/size": "2048", "sys/block/nvme0n1/hidden": "0",
		"sys/block/mmcblk0/size": "2048", "sys/block/mmcblk0boot0/size": "2048", "sys/block/mmcblk0boot1/size": "2048", "sys/block/mmcblk0rpmb/size": "2048",
		"sys/block/sda/size": "2048", "sys/block/sda/removable": "1",
	})
	var names []string
	for _, d := range m.Disks() {
		names = append(names, d.Name)
		if d.Removable != (d.Name == "/dev/sda") {
			t.Errorf("%s: removable is %v", d.Name, d.Removable)
		}
	}
	if got := strings.Join(names, " "); got != "/dev/mmcblk0 /dev/nvme0n1 /dev/sda" {
		t.Errorf("disks %s", got)
	}
}

// A serial number ends where its page says, and the page's header is no part of it: of a number of
// 32 bytes the header's last byte is a space, of one of 65 an "A".
func TestSerialOfAPage(t *testing.T) {
	long := strings.Repeat("S", 65)
	for page, want := range map[string]string{
		"\x00\x80\x00\x04S-77":            "S-77",
		"\x00\x80\x00\x20" + long[:32]:    long[:32],
		"\x00\x80\x00A" + long + "beyond": long,
		"\x00\x80\x00\x08  S-78  ":        "S-78",
		"\x00\x80\x00\x40cut":             "cut",
		"\x00\x83\x00\x04S-77":            "",
		"\x00\x80":                        "",
		"\x00\x80\x00\x00":                "",
	} {
		m := tree(t, map[string]string{"sys/block/sda/size": "2048", "sys/block/sda/device/vpd_pg80": page})
		if got := m.Disks()[0].Serial; got != want {
			t.Errorf("page %q: serial %q, want %q", page, got, want)
		}
	}
}

// The names are those that systemd's udev gives such devices.
func TestByPath(t *testing.T) {
	const pci = "sys/devices/pci0000:00/0000:00:1f.2"
	const hba = "sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0"
	for _, c := range []struct {
		name, place string
		files       map[string]string
		want        string
	}{
		{"sda", pci + "/ata3/host2/target2:0:0/2:0:0:0/block/sda", map[string]string{"sys/class/ata_port/ata3/port_no": "2"}, "pci-0000:00:1f.2-ata-2.0"},
		{"sdb", pci + "/ata3/host2/target2:2:0/2:2:0:0/block/sdb", map[string]string{"sys/class/ata_port/ata3/port_no": "2"}, "pci-0000:00:1f.2-ata-2.2.0"},
		{"sda", pci + "/ata3/host2/target2:0:0/2:0:0:0/block/sda", nil, ""},
		{"nvme0n1", hba + "/nvme/nvme0/nvme0n1", map[string]string{hba + "/nvme/nvme0/nvme0n1/nsid": "1"}, "pci-0000:02:00.0-nvme-1"},
		{"nvme0n1", "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1", nil, ""},
		{"vda", "sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda", nil, "pci-0000:00:04.0"},
		{"vda", "sys/devices/platform/4010000000.pcie/pci0000:00/0000:00:04.0/virtio1/block/vda", nil, "platform-4010000000.pcie-pci-0000:00:04.0"},
		{"sdc", hba + "/host7/target7:2:1/7:2:1:0/block/sdc", map[string]string{hba + "/host6/x": ""}, "pci-0000:02:00.0-scsi-1:2:1:0"},
		{"sdd", "sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host9/target9:0:0/9:0:0:1/block/sdd", nil, "pci-0000:00:14.0-usb-0:1.4:1.0-scsi-0:0:0:1"},
		{"sde", hba + "/host0/port-0:1/end_device-0:1/target0:0:1/0:0:1:0/block/sde",
			map[string]string{"sys/class/sas_port/port-0:1/num_phys": "1", "sys/class/sas_device/end_device-0:1/phy_identifier": "5"}, "pci-0000:02:00.0-sas-phy5-lun-0"},
		{"sde", hba + "/host0/port-0:0/expander-0:0/port-0:0:4/end_device-0:0:4/target0:0:4/0:0:4:0/block/sde",
			map[string]string{"sys/class/sas_port/port-0:0:4/num_phys": "1", "sys/class/sas_device/end_device-0:0:4/phy_identifier": "4",
				"sys/class/sas_device/expander-0:0/sas_address": "0x500304801f715f3f"}, "pci-0000:02:00.0-sas-exp0x500304801f715f3f-phy4-lun-0"},
		{"sdf", hba + "/host0/port-0:2/end_device-0:2/target0:0:2/0:0:2:300/block/sdf",
			map[string]string{"sys/class/sas_port/port-0:2/num_phys": "4", "sys/class/sas_device/end_device-0:2/sas_address": "0x5000c500a1b2c3d5"},
			"pci-0000:02:00.0-sas-0x5000c500a1b2c3d5-lun-0x012c000000000000"},
		{"sdg", hba + "/host0/rport-0:0-1/target0:0:3/0:0:3:7/block/sdg",
			map[string]string{"sys/class/fc_transport/target0:0:3/port_name": "0x500a09808dd3e9f1"}, "pci-0000:02:00.0-fc-0x500a09808dd3e9f1-lun-7"},
		{"sdh", "sys/devices/platform/host11/session1/target11:0:0/11:0:0:1/block/sdh", nil, ""},
	} {
		files := map[string]string{"sys/block/" + c.name: "->" + c.place, c.place + "/size": "2048"}
		for path, text := range c.files {
			files[path] = text
		}
		want := c.want
		if want != "" {
			want = "/dev/disk/by-path/" + want
		}
		if got := tree(t, files).byPath(c.name); got != want {
			t.Errorf("%s at %s: %q, want %q", c.name, c.place, got, want)
		}
	}
}

func TestRest(t *testing.T) {
	m := tree(t, map[string]string{
		"sys/class/net/eth0/address": "aa:bb:cc:00:11:22", "sys/class/net/eth0/type": "1", "sys/class/net/eth0/carrier": "1",
		"sys/class/net/eth0/speed": "-1", "sys/class/net/eth0/device": "->" + vnet,
		"sys/class/net/lo/address": "00:00:00:00:00:00", "sys/class/net/lo/type": "772",
		"sys/class/dmi/id/sys_vendor": "QEMU", "sys/class/dmi/id/product_name": "Q35", "sys/class/dmi/id/bios_version": "1.16",
		"sys/firmware/efi/x": "",
		"proc/cpuinfo":       "processor\t: 0\nmodel name\t: Fast CPU\nphysical id\t: 0\ncpu MHz\t\t: 2400.1\nflags\t\t: fpu sse\nprocessor\t: 1\nphysical id\t: 1",
		"proc/meminfo":       "MemTotal:        1024000 kB\nMemAvailable:     512000 kB",
	})
	inv := m.Read()
	if len(inv.Interfaces) != 1 || inv.Interfaces[0].MACAddress != "aa:bb:cc:00:11:22" || inv.Interfaces[0].PCIAddress != "0000:00:03.0" || !inv.Interfaces[0].HasCarrier || inv.Interfaces[0].SpeedMbps != 0 {
		t.Errorf("interfaces %+v", inv.Interfaces)
	}
	if c := inv.CPU; c.Count != 2 || c.SocketCount != 2 || c.ModelName != "Fast CPU" || c.Frequency != "2400.1" || len(c.Flags) != 2 {
		t.Errorf("cpu %+v", c)
	}
	if inv.Memory.Total != 1024000<<10 || inv.Memory.PhysicalMB != 1000 || m.FreeMemory() != 512000<<10 {
		t.Errorf("memory %+v", inv.Memory)
	}
	if inv.Boot.CurrentBootMode != "uefi" || inv.SystemVendor.Manufacturer != "QEMU" || inv.SystemVendor.Firmware.Version != "1.16" {
		t.Errorf("boot %+v, system %+v", inv.Boot, inv.SystemVendor)
	}
}

// A card in a bond shows the bond's MAC address, and the inventory its own. Bonds and VLANs are no cards.
func TestCardsOfABond(t *testing.T) {
	m := tree(t, map[string]string{
		"sys/class/net/eth0/address": "aa:bb:cc:00:11:22", "sys/class/net/eth0/type": "1", "sys/class/net/eth0/device": "->" + vnet,
		"sys/class/net/eth0/bonding_slave/perm_hwaddr": "aa:bb:cc:00:11:21", "sys/class/net/eth0/upper_bond0": "->sys/class/net/bond0",
		"sys/class/net/bond0/address": "aa:bb:cc:00:11:22", "sys/class/net/bond0/type": "1", "sys/class/net/bond0/upper_bond0.7": "->sys/class/net/bond0.7",
		"sys/class/net/bond0.7/address": "aa:bb:cc:00:11:22", "sys/class/net/bond0.7/type": "1", "sys/class/net/bond0.7/lower_bond0": "->sys/class/net/bond0",
	})
	if list := m.NICs(); len(list) != 1 || list[0].MACAddress != "aa:bb:cc:00:11:21" {
		t.Errorf("cards %+v", list)
	}
	if list := m.upwards("eth0", nil); !slices.Equal(list, []string{"eth0", "bond0", "bond0.7"}) {
		t.Errorf("on the card are %v", list)
	}
}

func TestThisMachineAndNothing(t *testing.T) {
	Machine{}.Read()
	if inv := tree(t, nil).Read(); len(inv.Disks) != 0 || inv.Disks == nil || inv.Interfaces == nil {
		t.Errorf("empty machine: %+v", inv)
	}
}
