package ramdisk_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
)

// A ramdisk holds of a Debian package the firmware that its drivers name, and tells which drivers have none.
func TestFirmwareOfAPackage(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("fetches the kernel of real machines; set IRONYARD_E2E=1")
	}
	o := ramdisk.Options{KernelPackage: debkernel.Generic, OutDir: t.TempDir(), CacheDir: agentvm.KernelCache(), Firmware: []string{"firmware-linux-free"}}
	r, err := ramdisk.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("sh", "-c", "zstd -dc "+r.Initramfs+" | cpio -it --quiet | grep lib/firmware/.*/").Output()
	if err != nil {
		t.Fatal(err)
	}
	// The package holds firmware of other drivers too.
	if got := strings.Fields(string(list)); len(got) != 1 || got[0] != "lib/firmware/isci/isci_firmware.bin" || r.FirmwareFiles != 1 || r.FirmwareBytes == 0 {
		t.Errorf("firmware in the ramdisk: %v; %d files, %d bytes", got, r.FirmwareFiles, r.FirmwareBytes)
	}
	if slices.Contains(r.WithoutFirmware, "isci") || !slices.Contains(r.WithoutFirmware, "bnx2x") || slices.Contains(r.WithoutFirmware, "e1000e") {
		t.Errorf("without firmware: %v", r.WithoutFirmware)
	}
}

// Debian's kernel finds the firmware: QEMU's Intel 82559ER wants some. Debian has it in its section non-free-firmware. The file here has
// the size of the real one, and QEMU takes what it is given.
func TestKernelLoadsFirmware(t *testing.T) {
	if os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("boots the kernel of real machines twice in QEMU: make hardware runs it")
	}
	blob := make([]byte, 4*134+3) // the program, and three places in it
	copy(blob[4*134:], []byte{1, 2, 3})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "e100"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "e100", "d101s_ucode.bin"), blob, 0o644); err != nil {
		t.Fatal(err)
	}
	const lacks = "failed to load e100/d101s_ucode.bin"
	for name, from := range map[string][]string{"without": nil, "with": {dir}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			built, err := ramdisk.Build(ctx, ramdisk.Options{KernelPackage: debkernel.Generic, OutDir: t.TempDir(), CacheDir: agentvm.KernelCache(),
				Modules: append(ramdisk.Modules(debkernel.Generic), "e100"), Firmware: from})
			if err != nil {
				t.Fatal(err)
			}
			vm := agentvm.Boot(ctx, t, built, agentvm.Hardware{Mode: "bios", NIC: "i82559er"}, nil)
			if said := strings.Contains(vm.Console(t), lacks); said != (from == nil) {
				t.Errorf("the kernel says %q: %v", lacks, said)
			}
		})
	}
}
