package inventory

import (
	"os"
	"path/filepath"
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
		ata + "/device/wwid": "naa.600508b1001c0123456789abcdef0123",
		"sys/block/vda/size": "2048", "sys/block/vda/serial": "V1", "sys/block/vda/ro": "0",
		"sys/block/vdb/size": "2048", "sys/block/vdb/ro": "1",
		"sys/block/vdc/size": "2048", "sys/block/vdc/vdc1/size": "1024",
		"sys/block/sr0/size": "2048", "sys/block/loop0/size": "2048", "sys/block/sdb/size": "0", "sys/block/zram0/size": "8",
		"proc/self/mounts": "proc /proc proc rw 0 0\n/dev/vdc1 /mnt ext4 rw 0 0",
	})
	got := m.Disks()
	if len(got) != 2 || got[0].Name != "/dev/sda" || got[1].Name != "/dev/vda" {
		t.Fatalf("disks %+v", got)
	}
	a := got[0]
	if a.Size != 10<<30 || !a.Rotational || a.HCTL != "0:0:0:0" || a.Tran != "sata" || a.Serial != "S-77" ||
		a.WWN != "0x600508b1001c0123" || a.WWNVendorExtension != "0x456789abcdef0123" || a.WWNWithExtension != "0x600508b1001c0123456789abcdef0123" {
		t.Errorf("sda %+v", a)
	}
	if got[1].Serial != "V1" {
		t.Errorf("vda %+v", got[1])
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

func TestThisMachineAndNothing(t *testing.T) {
	Machine{}.Read()
	if inv := tree(t, nil).Read(); len(inv.Disks) != 0 || inv.Disks == nil || inv.Interfaces == nil {
		t.Errorf("empty machine: %+v", inv)
	}
}
