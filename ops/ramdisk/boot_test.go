package ramdisk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ironyard/ironyard/agent/esp/esptest"
	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

const diskSize = 192 << 20

// gptImage is a disk image with an EFI system partition, mostly zeros.
func gptImage(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=40MiB, type=U\nsize=8MiB, type=L\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	esptest.Fill(t, data, 1<<20, 40<<20)
	rand.NewChaCha8([32]byte{7}).Read(data[5<<20 : 20<<20])
	return data
}

// TestBoot boots the ramdisk in a virtual machine, by BIOS and by UEFI, and deploys.
// It takes most of a minute: set IRONYARD_E2E=1.
func TestBoot(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots the ramdisk in QEMU; set IRONYARD_E2E=1")
	}
	image := gptImage(t)
	for name, m := range map[string]hardware{
		"bios virtual": {"bios", debkernel.Cloud, "virtio-blk-pci", "virtio-net-pci"},
		"uefi virtual": {"uefi", debkernel.Cloud, "virtio-blk-pci", "virtio-net-pci"},
		// The kernel and drivers of real machines: SATA and an Intel card.
		"bios real": {"bios", debkernel.Generic, "ide-hd", "e1000e"},
	} {
		t.Run(name, func(t *testing.T) {
			built := agentvm.Build(t, m.kernel)
			t.Logf("kernel %d bytes, initramfs %d bytes, %d modules", built.KernelBytes, built.InitramfsBytes, built.Modules)
			bootAndDeploy(t, built, m, image)
		})
	}
}

// hardware is a virtual machine: how it boots, which kernel, and QEMU's names for
// its disk and network card.
type hardware struct{ mode, kernel, disk, nic string }

func bootAndDeploy(t *testing.T, built ramdisk.Result, m hardware, image []byte) {
	mode := m.mode
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := z.EncodeAll(image, nil)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, bytes.Repeat([]byte{0xd7}, diskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	vm := agentvm.Boot(ctx, t, built, agentvm.Hardware{Mode: mode, NIC: m.nic, Drives: []string{
		"-drive", "if=none,id=d,format=raw,cache=unsafe,discard=unmap,file=" + disk, "-device", m.disk + ",drive=d,serial=DISK1"}}, map[string][]byte{"image": file})
	t.Logf("first heartbeat after %.1f s, callback %s", time.Since(vm.Began).Seconds(), vm.First.CallbackURL)
	if strings.Contains(vm.Console(t), "kernel module not loaded") {
		t.Error("a module was not loaded: see the console")
	}
	run := func(name string, params any) json.RawMessage {
		c := vm.Run(ctx, name, params)
		if c.Status != agentapi.CommandSucceeded {
			t.Fatalf("%s: %+v", name, c.Error)
		}
		return c.Result
	}
	raw := run(agentapi.CmdGetInventory, nil)
	var inv agentapi.Inventory
	if err := json.Unmarshal(raw, &inv); err != nil || inv.Boot.CurrentBootMode != mode || len(inv.Disks) != 1 || inv.Disks[0].Size != diskSize || len(inv.Interfaces) != 1 || inv.Interfaces[0].MACAddress != agentvm.MAC {
		t.Errorf("inventory %s, %v", raw, err)
	}
	drive := bytes.Repeat([]byte("config drive "), 1000)
	sum := sha256.Sum256(file)
	params := agentapi.PrepareImageParams{ConfigDrive: gzip64(drive), ImageInfo: agentapi.ImageInfo{
		ID: "test", URLs: []string{vm.Files + "image"}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]),
		DiskFormat: "raw", Compression: "zstd", ImageType: "whole-disk", BootMode: mode, MinDiskBytes: 1 << 20,
	}}
	var result agentapi.PrepareImageResult
	if err := json.Unmarshal(run(agentapi.CmdPrepareImage, params), &result); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: wrote %d bytes to %s in %.1f s, %.0f MB/s; %.1f s after power on", mode, result.Written.DoneBytes, result.RootDevice, result.Written.Seconds, result.Written.MBPerSec, time.Since(vm.Began).Seconds())
	entry := run(agentapi.CmdInstallBoot, nil)
	t.Logf("boot entry: %s", entry)
	if mode == "uefi" && !bytes.Contains(entry, []byte("on partition 1")) {
		t.Errorf("no boot entry: %s", entry)
	}
	if c := vm.Post(ctx, agentapi.CmdRunImage, "go", nil); c.Error != nil {
		t.Fatalf("run_image: %+v", c.Error)
	}
	// The card is busy to the last: a driver that still sends may hang a machine that
	// goes down.
	bother(ctx, t, vm.Port, vm.Ended)
	select {
	case <-vm.Ended: // QEMU ends at the reboot
	case <-ctx.Done():
		t.Fatal("the machine does not reboot")
	}
	t.Logf("reboot %.1f s after power on", time.Since(vm.Began).Seconds())
	checkDisk(t, disk, image, drive)
	if logs := vm.Logs(); !strings.Contains(logs, "image written") || strings.Contains(logs, "s3cret") {
		t.Errorf("logs at the rackd:\n%s", logs)
	}
}

// bother connects to the agent without pause until the machine has ended.
func bother(ctx context.Context, t *testing.T, agentPort int, machine <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			d := net.Dialer{Timeout: 200 * time.Millisecond}
			for ctx.Err() == nil {
				if c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", agentPort)); err == nil {
					c.Write([]byte("not TLS, to be answered with an alert\n"))
					c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
					io.Copy(io.Discard, c)
					c.Close()
				}
			}
		})
	}
	wg.Go(func() {
		select {
		case <-machine:
		case <-ctx.Done():
		}
		cancel()
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// checkDisk compares the disk with the image, except for the tables that had to move.
func checkDisk(t *testing.T, path string, image, drive []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[1<<20:63<<20], image[1<<20:63<<20]) {
		t.Error("the disk does not hold the image")
	}
	out, err := exec.Command("sfdisk", "--dump", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(`name="config-2"`)) {
		t.Errorf("sfdisk: %v: %s", err, out)
	}
	if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors")) {
		t.Errorf("sfdisk --verify: %v: %s", err, out)
	}
	if n := bytes.Index(got[64<<20:], drive); n < 0 {
		t.Error("the config drive is not on the disk")
	}
}

func gzip64(data []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}
