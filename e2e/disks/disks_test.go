package disks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// drives are the machine's disks. The smallest that may be chosen is GOOD.
var drives = []drive{
	{serial: "GOOD", size: 112 * mib, device: scsi(0, "")},
	{serial: "BROKEN", size: 120 * mib, device: scsi(1, ""), fails: []failure{{"write", int(syscall.EIO), 40 * mib}, {"write-zeroes", int(syscall.EIO), 40 * mib}}},
	{serial: "FULL", size: 124 * mib, device: scsi(2, ""), fails: []failure{{"write", int(syscall.ENOSPC), 30 * mib}, {"write-zeroes", int(syscall.ENOSPC), 30 * mib}}},
	{serial: "ROTTEN", size: 128 * mib, device: scsi(3, ""), fails: rotten()},
	{serial: "LIAR", size: 132 * mib, device: scsi(4, ""), lies: true},
	{serial: "FOURK", size: 136 * mib, device: scsi(5, ",logical_block_size=4096,physical_block_size=4096")},
	{serial: "SLOW", size: 116 * mib, device: "ide-hd,bus=sata.2,werror=report,rerror=report", pace: 8 * mib},
	{serial: "READONLY", size: 96 * mib, device: scsi(6, ""), readOnly: true},
	{serial: "STICK", size: 100 * mib, device: scsi(7, ",removable=on")},
	{serial: "SHARED", size: 140 * mib}, // by two NVMe controllers, see Boot's arguments
}

// places are udev's names of where a disk is. Those of newRack's controllers give the PCI address; a disk that two of them show has none.
var places = map[string]string{
	"STICK":  "/dev/disk/by-path/pci-0000:00:15.0-scsi-0:0:7:0",
	"SLOW":   "/dev/disk/by-path/pci-0000:00:17.0-ata-3.0",
	"SHARED": "",
}

// rotten are reads that fail all over the disk, 1 MiB apart, behind its first 8 MiB: whatever the
// agent reads back meets one.
func rotten() (out []failure) {
	for at := int64(8 * mib); at < 64*mib; at += 32 << 10 {
		out = append(out, failure{"read", int(syscall.EIO), at})
	}
	return out
}

func named(serial string) drive {
	return drives[slices.IndexFunc(drives, func(d drive) bool { return d.serial == serial })]
}

// diskImage is an image that the machine can be deployed with.
type diskImage struct {
	name         string
	data, served []byte // what it is, and what the machine gets
}

// newImage makes an image with an EFI system partition and noise in it. table makes its partition table.
func newImage(t *testing.T, name string, table func(t *testing.T, path string)) diskImage {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 64*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	table(t, path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rand.NewChaCha8([32]byte{7}).Read(data[38*mib : 42*mib])
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return diskImage{name, data, z.EncodeAll(data, nil)} // a virtual processor is slow at TLS
}

// usualTable counts sectors of 512 bytes.
func usualTable(t *testing.T, path string) {
	t.Helper()
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=48MiB, type=U\nsize=8MiB, type=L\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
}

// rack is one machine with all of the disks, its agent, and what it is deployed with.
type rack struct {
	*testing.T
	vm           *agentvm.VM
	dir          string
	image, fourK diskImage         // for sectors of 512 bytes, and of 4 KiB
	names        map[string]string // of the machine's disks, by serial number
}

// newRack makes the disks, and returns QEMU's arguments for them at a SCSI and a SATA controller.
func newRack(t *testing.T, drives []drive) (r *rack, args []string) {
	t.Helper()
	r = &rack{T: t, dir: t.TempDir(), names: map[string]string{}}
	r.image, r.fourK = newImage(t, "image", usualTable), newImage(t, "fourk", fourKTable)
	args = []string{"-device", "virtio-scsi-pci,id=scsi,addr=15.0", "-device", "ich9-ahci,id=sata,addr=17.0"}
	for _, d := range drives {
		d.prepare(t, r.dir)
		args = append(args, d.arguments(r.dir)...)
	}
	return r, args
}

// boot starts the machine, with the kernel and the drivers of real ones.
func (r *rack) boot(ctx context.Context, args []string) {
	r.Helper()
	r.vm = agentvm.Boot(ctx, r.T, agentvm.Build(r.T, debkernel.Generic), agentvm.Hardware{Mode: "bios", NIC: "e1000e", Drives: args},
		map[string][]byte{r.image.name: r.image.served, r.fourK.name: r.fourK.served})
}

func (r *rack) prepare(ctx context.Context, of diskImage, hints map[string]any, known ...agentapi.KnownDisk) (agentapi.PrepareImageResult, agentapi.Command) {
	r.Helper()
	sum := sha256.Sum256(of.served)
	c := r.vm.Run(ctx, agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{
		ID: "test", URLs: []string{r.vm.Files + of.name}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", Compression: "zstd", ImageType: "whole-disk",
		BootMode: "bios", MinDiskBytes: 1, RootDeviceHints: hints, KnownDisks: known}})
	var result agentapi.PrepareImageResult
	if c.Status == agentapi.CommandSucceeded {
		if err := json.Unmarshal(c.Result, &result); err != nil {
			r.Fatal(err)
		}
	}
	return result, c
}

// deploys has the disk that is meant get the image. It returns the command.
func (r *rack) deploys(ctx context.Context, of diskImage, hints map[string]any, serial string) agentapi.Command {
	r.Helper()
	began := time.Now()
	result, c := r.prepare(ctx, of, hints)
	if c.Status != agentapi.CommandSucceeded || result.RootDevice != r.names[serial] {
		r.Errorf("hints %v: %s, on %q, want %s (%s): %+v", hints, c.Status, result.RootDevice, r.names[serial], serial, c.Error)
		return c
	}
	if got := named(serial).part(r.T, r.dir, mib, 60*mib); !bytes.Equal(got, of.data[mib:61*mib]) {
		r.Errorf("disk %s does not hold the image", serial)
	}
	r.Logf("%s: written in %.1f s", serial, time.Since(began).Seconds())
	return c
}

// fails has the deploy fail with the disk's name and that text, and the disk not boot.
func (r *rack) fails(ctx context.Context, serial, want string) {
	r.Helper()
	_, c := r.prepare(ctx, r.image, map[string]any{"serial": serial})
	if c.Status != agentapi.CommandFailed || c.Error == nil {
		r.Errorf("disk %s: %s, want a failure", serial, c.Status)
		return
	}
	text := fmt.Sprintf("%+v", *c.Error)
	r.Logf("%s: %s", serial, text)
	if !strings.Contains(text, r.names[serial]) || !strings.Contains(text, want) {
		r.Errorf("disk %s: %s, want %q in it and %q", serial, text, r.names[serial], want)
	}
	d := named(serial)
	if d.lies {
		return
	}
	if start := d.part(r.T, r.dir, 0, 512+8); bytes.HasPrefix(start[512:], []byte("EFI PART")) || start[510] == 0x55 {
		r.Errorf("disk %s has a table after a deploy that failed", serial)
	}
}

// Each disk of a machine is asked for in turn: what is whole gets the image, what fails or lies fails
// the deploy with its name, and so it is with an erasure of all. IRONYARD_E2E=1; a minute or two.
func TestDisks(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots the ramdisk in QEMU; set IRONYARD_E2E=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	r, args := newRack(t, drives)
	args = append(args, "-device", "nvme-subsys,id=subsystem,nqn=two", "-device", "nvme,serial=SHARED,subsys=subsystem", "-device", "nvme,serial=SHARED,subsys=subsystem",
		"-device", "nvme-ns,drive=n-SHARED,shared=on")
	r.boot(ctx, args)
	r.inventory(ctx)

	r.deploys(ctx, r.image, nil, "GOOD") // neither the stick nor the disk that cannot be written, which are smaller
	r.fails(ctx, "BROKEN", "input/output error")
	r.fails(ctx, "FULL", "/dev/sd")
	r.fails(ctx, "ROTTEN", "input/output error")
	r.fails(ctx, "LIAR", "read back differently")
	r.fails(ctx, "FOURK", "4096")
	r.deploys(ctx, r.fourK, map[string]any{"serial": "FOURK"}, "FOURK")
	r.checkFourK()
	r.slow(ctx)
	r.deploys(ctx, r.image, map[string]any{"serial": "STICK"}, "STICK")
	r.deploys(ctx, r.image, map[string]any{"serial": "SHARED"}, "SHARED")
	r.erase(ctx)
}

// slow deploys to the slow disk, which the hint names by its place as udev would.
func (r *rack) slow(ctx context.Context) {
	r.Helper()
	d, began := named("SLOW"), time.Now()
	c := r.deploys(ctx, r.image, map[string]any{"by_path": places[d.serial]}, d.serial)
	if c.Status != agentapi.CommandSucceeded {
		return
	}
	if took, least := time.Since(began).Seconds(), float64(len(r.image.data))/float64(d.pace)*0.9; took < least {
		r.Errorf("disk %s: written in %.1f s, so it is not slow: want %.1f s and more", d.serial, took, least)
	}
	r.progressed(ctx, c)
}

// progressed has the heartbeats during a command that has ended tell how far it came.
func (r *rack) progressed(ctx context.Context, c agentapi.Command) {
	r.Helper()
	var last int64
	var between []int64
	r.vm.Await(ctx, "the end of "+c.ID, func(h agentapi.Heartbeat) bool {
		if h.Command == nil || h.Command.ID != c.ID {
			return false
		}
		if p := h.Command.Progress; p != nil {
			if p.DoneBytes < last {
				r.Errorf("%s: progress went back from %d to %d bytes", c.ID, last, p.DoneBytes)
			}
			// The size of an image that is unpacked on the way is not known before its end.
			last = p.DoneBytes
			if h.Command.Status == agentapi.CommandRunning && last > 0 && last < cmp.Or(p.TotalBytes, int64(len(r.image.data))) {
				between = append(between, last)
			}
		}
		return h.Command.Status != agentapi.CommandRunning
	})
	r.Logf("%s: heartbeats told of %d bytes", c.ID, between)
	if len(between) == 0 {
		r.Errorf("%s: no heartbeat told of progress", c.ID)
	}
}

// inventory learns the disks' names. Each is there once, the shared one too. Its place is as udev names it.
func (r *rack) inventory(ctx context.Context) {
	r.Helper()
	c := r.vm.Run(ctx, agentapi.CmdGetInventory, nil)
	var inv agentapi.Inventory
	if err := json.Unmarshal(c.Result, &inv); err != nil {
		r.Fatalf("inventory %s, %v", c.Result, err)
	}
	for _, d := range inv.Disks {
		if before := r.names[d.Serial]; before != "" {
			r.Errorf("disk %s is listed as %s and %s", d.Serial, before, d.Name)
		}
		r.names[d.Serial] = d.Name
		if want, said := places[d.Serial]; said && d.ByPath != want {
			r.Errorf("disk %s is at %q, want %q", d.Serial, d.ByPath, want)
		}
	}
	for _, d := range drives {
		if (r.names[d.serial] == "") != d.readOnly {
			r.Errorf("disk %s is listed as %q in the inventory %+v", d.serial, r.names[d.serial], inv.Disks)
		}
	}
}

// erase has all disks erased. Those that fail are named, each other one is, and what is not to be
// touched was not.
func (r *rack) erase(ctx context.Context) {
	r.Helper()
	c := r.vm.Run(ctx, agentapi.CmdExecCleanStep, agentapi.StepParams{Node: map[string]any{}, Step: map[string]any{"interface": "deploy", "step": "erase_devices"}})
	text := fmt.Sprintf("%+v", c.Error)
	if c.Error != nil {
		text = fmt.Sprintf("%+v", *c.Error)
	}
	r.Logf("erase: %s %s", c.Status, text)
	r.progressed(ctx, c)
	if c.Status != agentapi.CommandFailed {
		r.Errorf("erased with %s, though disks fail", c.Status)
	}
	for _, d := range drives {
		failed := r.names[d.serial] != "" && strings.Contains(text, "erasing disk "+r.names[d.serial]+":")
		if want := len(d.fails) > 0; failed != want {
			r.Errorf("disk %s (%s): named %t, want %t", d.serial, r.names[d.serial], failed, want)
		}
	}
	if !strings.Contains(text, `serial "READONLY"), which is read-only`) {
		r.Error("the disk that cannot be written to is not named")
	}
	for _, serial := range []string{"GOOD", "FOURK", "SLOW", "SHARED"} {
		if err := named(serial).holds(r.T, r.dir, 0); err != nil {
			r.Error(err)
		}
	}
	if err := named("READONLY").holds(r.T, r.dir, old); err != nil {
		r.Error(err)
	}
	if got := named("STICK").part(r.T, r.dir, mib, 60*mib); !bytes.Equal(got, r.image.data[mib:61*mib]) {
		r.Error("the stick was touched, which is in nobody's rules")
	}
}
