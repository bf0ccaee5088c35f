package ramdisk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/ops/virtual/partitionimage"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// installed is a machine whose disk a partition image is written to.
type installed struct {
	mode  string
	image partitionimage.Image
	parts agentapi.Partitions
	disk  string // the file that is its disk
	vars  string // of its firmware
}

// Real systems that come as partition images boot from the disk that the agent has laid out. A Debian boots by BIOS, and the agent has
// installed its GRUB. One as distributions of RPM are boots by UEFI, with its own shim and GRUB. A node that is rebuilt keeps what the
// first instance has left on the ephemeral partition.
func TestPartitionImages(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("installs real systems in QEMU, which takes minutes: make hardware runs it")
	}
	built := agentvm.Build(t, debkernel.Cloud)
	for _, c := range []struct {
		name, mode string
		style      partitionimage.Style
		parts      agentapi.Partitions
		loader     string   // that the boot entry names
		want       []string // of the console
	}{
		{"Debian by BIOS", "bios", partitionimage.Debian, agentapi.Partitions{RootMB: 700, SwapMB: 64, EphemeralMB: 96, EphemeralFormat: "ext4"}, "",
			[]string{"firmware bios", "root /dev/vda4 ext4", "label ephemeral0 /dev/vda1 ext4", "label swap1 /dev/vda2 swap", "label config-2 /dev/vda3", `drive {"hostname":"part"}`, "init=/sbin/ironyard-mark"}},
		{"RPM style by UEFI", "uefi", partitionimage.RPM, agentapi.Partitions{RootMB: 1024, SwapMB: 64}, `\EFI\ironyardlinux\shimx64.efi`,
			[]string{"firmware uefi", "root /dev/vda4 xfs", "label efi-part /dev/vda1 vfat", "label swap1 /dev/vda2 swap", "/boot/efi\tvfat\tumask=0077\t0\t1"}},
		{"Debian by UEFI", "uefi", partitionimage.Debian, agentapi.Partitions{RootMB: 700, EphemeralMB: 96, EphemeralFormat: "ext4"}, `\EFI\BOOT\BOOTX64.EFI`,
			[]string{"firmware uefi", "ext4", "label efi-part /dev/vda1 vfat", "label ephemeral0 /dev/vda2 ext4"}},
		{"RPM style by BIOS", "bios", partitionimage.RPM, agentapi.Partitions{RootMB: 1024, DiskLabel: "gpt"}, "", []string{"firmware bios", "xfs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			image, err := partitionimage.Build(t.Context(), filepath.Join(filepath.Dir(agentvm.KernelCache()), "partition"), c.style)
			if err != nil {
				t.Fatal(err)
			}
			m := &installed{mode: c.mode, image: image, parts: c.parts, disk: filepath.Join(t.TempDir(), "disk")}
			if err := os.WriteFile(m.disk, bytes.Repeat([]byte{0xd7}, 2<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(m.disk, 3<<30); err != nil {
				t.Fatal(err)
			}
			if c.mode == "uefi" {
				m.vars = filepath.Join(t.TempDir(), "vars")
			}
			made := m.deploy(t, built)
			m.judge(t)
			said := m.boot(t, m.vars)
			if c.loader != "" {
				c.want = append(c.want, entryOf(t, made, c.loader), strings.ReplaceAll(c.loader, `\`, "/"))
			}
			for _, want := range append(c.want, "root=UUID=") {
				if !strings.Contains(said, want) {
					t.Errorf("the instance does not say %q:\n%s", want, said)
				}
			}
			if c.mode == "uefi" {
				if said := m.boot(t, ""); !strings.Contains(said, partitionimage.Up) {
					t.Errorf("a firmware that has forgotten its boot entries does not boot it:\n%s", said)
				}
			}
			if c.parts.EphemeralMB > 0 {
				m.parts.PreserveEphemeral, m.parts.RootMB = true, c.parts.RootMB+16
				m.deploy(t, built)
				if said := m.boot(t, m.vars); !strings.Contains(said, "kept by the first instance") {
					t.Errorf("the ephemeral partition did not survive the rebuild:\n%s", said)
				}
			}
		})
	}
}

// entryOf looks that the boot entry which a deploy tells of names the loader. It returns what the instance says that was booted by it.
func entryOf(t *testing.T, made, loader string) string {
	t.Helper()
	words := regexp.MustCompile(`(Boot[0-9A-F]{4}) starts (\S+) on partition 1 of /dev/vda`).FindStringSubmatch(made)
	if words == nil || words[2] != loader {
		t.Fatalf("the boot entry does not start %s: %s", loader, made)
	}
	return partitionimage.Mark + "entry " + words[1] + " "
}

// deploy boots the ramdisk, writes the image and installs its boot loader. It returns what the agent says of that.
func (m *installed) deploy(t *testing.T, built ramdisk.Result) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	file, err := os.ReadFile(m.image.Path)
	if err != nil {
		t.Fatal(err)
	}
	vm := agentvm.Boot(ctx, t, built, agentvm.Hardware{Mode: m.mode, NIC: "virtio-net-pci", Vars: m.vars, Drives: []string{
		"-drive", "if=none,id=d,format=raw,cache=unsafe,discard=unmap,file=" + m.disk, "-device", "virtio-blk-pci,drive=d,serial=DISK1"}}, map[string][]byte{"image": file})
	run := func(name string, params any) json.RawMessage {
		c := vm.Run(ctx, name, params)
		if c.Status != agentapi.CommandSucceeded {
			t.Fatalf("%s: %+v", name, c.Error)
		}
		return c.Result
	}
	parts := m.parts
	var result agentapi.PrepareImageResult
	if err := json.Unmarshal(run(agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ConfigDrive: gzip64(driveOf(t)), ImageInfo: agentapi.ImageInfo{
		ID: "test", URLs: []string{vm.Files + "image"}, HashAlgo: "sha256", HashValue: m.image.SHA256, DiskFormat: "raw", Compression: "zstd",
		ImageType: agentapi.ImagePartition, BootMode: m.mode, MinDiskBytes: 1 << 20, Partitions: &parts,
	}}), &result); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: wrote %d bytes in %.1f s, %.1f s after power on: %+v", m.mode, result.Written.DoneBytes, result.Written.Seconds, time.Since(vm.Began).Seconds(), result.PartitionUUIDs)
	var uuids agentapi.PartitionUUIDs
	if err := json.Unmarshal(run(agentapi.CmdPartitionUUIDs, nil), &uuids); err != nil || uuids.Root != result.RootUUID || (uuids.ESP == "") != (m.mode == "bios") {
		t.Errorf("partitions %+v, %v", uuids, err)
	}
	began := time.Now()
	var made struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(run(agentapi.CmdInstallBoot, map[string]any{"root_uuid": result.RootUUID, "target_boot_mode": m.mode}), &made); err != nil {
		t.Fatal(err)
	}
	t.Logf("boot loader in %.1f s: %s", time.Since(began).Seconds(), made.Result)
	if c := vm.Post(ctx, agentapi.CmdRunImage, "go", nil); c.Error != nil {
		t.Fatalf("run_image: %+v", c.Error)
	}
	select {
	case <-vm.Ended:
	case <-ctx.Done():
		t.Fatal("the machine does not reboot")
	}
	return made.Result
}

// driveOf is a config drive, an ISO 9660 of xorriso.
func driveOf(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "tree", "openstack", "latest")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "meta_data.json"), []byte(`{"hostname":"part"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	iso := filepath.Join(dir, "drive")
	if out, err := exec.Command("xorriso", "-as", "mkisofs", "-quiet", "-R", "-J", "-V", "config-2", "-o", iso, filepath.Join(dir, "tree")).CombinedOutput(); err != nil {
		t.Fatalf("xorriso (Debian package xorriso): %v: %s", err, out)
	}
	data, err := os.ReadFile(iso)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// judge has the programs of Debian look at the disk: util-linux at the table, dosfstools and e2fsprogs at the file systems.
func (m *installed) judge(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("sfdisk", "--verify", m.disk).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors")) {
		t.Errorf("sfdisk --verify: %v: %s", err, out)
	}
	dump, err := exec.Command("sfdisk", "--json", m.disk).Output()
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		PartitionTable struct {
			Partitions []struct {
				Start, Size int64
				Name        string
			}
		}
	}
	if err := json.Unmarshal(dump, &table); err != nil {
		t.Fatal(err)
	}
	for n, p := range table.PartitionTable.Partitions {
		part := filepath.Join(t.TempDir(), "part")
		if out, err := exec.Command("dd", "if="+m.disk, "of="+part, "bs=512", "conv=sparse", fmt.Sprintf("skip=%d", p.Start), fmt.Sprintf("count=%d", p.Size), "status=none").CombinedOutput(); err != nil {
			t.Fatalf("dd: %v: %s", err, out)
		}
		kind, _ := exec.Command("blkid", "-p", "-o", "value", "-s", "TYPE", part).Output()
		var check *exec.Cmd
		switch strings.TrimSpace(string(kind)) {
		case "vfat":
			check = exec.Command("fsck.vfat", "-n", part)
		case "ext4":
			check = exec.Command("e2fsck", "-f", "-n", part)
		case "xfs":
			check = exec.Command("xfs_repair", "-n", "-f", part)
		default:
			continue
		}
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("partition %d: %v: %v: %s", n+1, check.Args, err, out)
		}
	}
}

// boot starts the machine from its disk, with the variables of its firmware or without any, and returns what the instance says.
func (m *installed) boot(t *testing.T, vars string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	serial := filepath.Join(t.TempDir(), "serial")
	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max", "-smp", "1", "-m", "512",
		"-serial", "file:" + serial, "-drive", "if=none,id=d,format=raw,cache=unsafe,file=" + m.disk, "-device", "virtio-blk-pci,drive=d"}
	if m.mode == "uefi" {
		if vars == "" {
			vars = filepath.Join(t.TempDir(), "vars")
			empty, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(vars, empty, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,unit=1,format=raw,file="+vars)
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		said, _ := os.ReadFile(serial)
		t.Fatalf("qemu: %v: %s\nconsole:\n%s", err, out, said)
	}
	said, err := os.ReadFile(serial)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the instance was up and off again after %.1f s", time.Since(began).Seconds())
	var lines []string
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, partitionimage.Mark) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("the instance says nothing:\n%s", said)
	}
	return strings.Join(lines, "")
}
