package disks

import (
	"bytes"
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
	{serial: "READONLY", size: 96 * mib, device: scsi(6, ""), readOnly: true},
	{serial: "STICK", size: 100 * mib, device: scsi(7, ",removable=on")},
	{serial: "SHARED", size: 140 * mib}, // by two NVMe controllers, see Boot's arguments
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

// gptImage is a disk image with an EFI system partition and noise in it.
func gptImage(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 64*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=48MiB, type=U\nsize=8MiB, type=L\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rand.NewChaCha8([32]byte{7}).Read(data[38*mib : 42*mib])
	return data
}

// rack is one machine with all of the disks, its agent, and what it is deployed with.
type rack struct {
	*testing.T
	vm     *agentvm.VM
	dir    string
	image  []byte
	served []byte            // the image as the machine gets it
	names  map[string]string // of the machine's disks, by serial number
}

// newRack makes the disks, and returns QEMU's arguments for them at a SCSI controller.
func newRack(t *testing.T, drives []drive) (r *rack, args []string) {
	t.Helper()
	r = &rack{T: t, dir: t.TempDir(), image: gptImage(t), names: map[string]string{}}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.served = z.EncodeAll(r.image, nil) // a virtual processor is slow at TLS
	args = []string{"-device", "virtio-scsi-pci,id=scsi"}
	for _, d := range drives {
		d.prepare(t, r.dir)
		args = append(args, d.arguments(r.dir)...)
	}
	return r, args
}

// boot starts the machine, with the kernel and the drivers of real ones.
func (r *rack) boot(ctx context.Context, args []string) {
	r.Helper()
	r.vm = agentvm.Boot(ctx, r.T, agentvm.Build(r.T, debkernel.Generic), agentvm.Hardware{Mode: "bios", NIC: "e1000e", Drives: args}, map[string][]byte{"image": r.served})
}

func (r *rack) prepare(ctx context.Context, hints map[string]any, known ...agentapi.KnownDisk) (agentapi.PrepareImageResult, agentapi.Command) {
	r.Helper()
	sum := sha256.Sum256(r.served)
	c := r.vm.Run(ctx, agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{
		ID: "test", URLs: []string{r.vm.Files + "image"}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", Compression: "zstd", ImageType: "whole-disk",
		BootMode: "bios", MinDiskBytes: 1, RootDeviceHints: hints, KnownDisks: known}})
	var result agentapi.PrepareImageResult
	if c.Status == agentapi.CommandSucceeded {
		if err := json.Unmarshal(c.Result, &result); err != nil {
			r.Fatal(err)
		}
	}
	return result, c
}

// deploys has the disk that is meant get the image.
func (r *rack) deploys(ctx context.Context, hints map[string]any, serial string) {
	r.Helper()
	began := time.Now()
	result, c := r.prepare(ctx, hints)
	if c.Status != agentapi.CommandSucceeded || result.RootDevice != r.names[serial] {
		r.Errorf("hints %v: %s, on %q, want %s (%s): %+v", hints, c.Status, result.RootDevice, r.names[serial], serial, c.Error)
		return
	}
	if got := named(serial).part(r.T, r.dir, mib, 60*mib); !bytes.Equal(got, r.image[mib:61*mib]) {
		r.Errorf("disk %s does not hold the image", serial)
	}
	r.Logf("%s: written in %.1f s", serial, time.Since(began).Seconds())
}

// fails has the deploy fail with the disk's name and that text, and the disk not boot.
func (r *rack) fails(ctx context.Context, serial, want string) {
	r.Helper()
	_, c := r.prepare(ctx, map[string]any{"serial": serial})
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

	r.deploys(ctx, nil, "GOOD") // neither the stick nor the disk that cannot be written, which are smaller
	r.fails(ctx, "BROKEN", "input/output error")
	r.fails(ctx, "FULL", "/dev/sd")
	r.fails(ctx, "ROTTEN", "input/output error")
	r.fails(ctx, "LIAR", "read back differently")
	r.fails(ctx, "FOURK", "4096")
	r.deploys(ctx, map[string]any{"serial": "STICK"}, "STICK")
	r.deploys(ctx, map[string]any{"serial": "SHARED"}, "SHARED")
	r.erase(ctx)
}

// inventory learns the disks' names. Each is there once, the shared one too.
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
	for _, serial := range []string{"GOOD", "FOURK", "SHARED"} {
		if err := named(serial).holds(r.T, r.dir, 0); err != nil {
			r.Error(err)
		}
	}
	if err := named("READONLY").holds(r.T, r.dir, old); err != nil {
		r.Error(err)
	}
	if got := named("STICK").part(r.T, r.dir, mib, 60*mib); !bytes.Equal(got, r.image[mib:61*mib]) {
		r.Error("the stick was touched, which is in nobody's rules")
	}
}
