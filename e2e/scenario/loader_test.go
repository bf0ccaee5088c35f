package scenario

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
)

// factoryVariables is firmware with the keys of Microsoft, as Debian's package ovmf has it.
const factoryVariables = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"

// Firmware that is not told of HTTP by its BMC loads the ramdisk as one program by PXE. Its own client fetches it by TFTP, and no boot
// program comes in between. The machine is deployed and torn down.
func TestDeployByProgramOverPXE(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 20*time.Minute)
	const name = "uefi-0"
	id := enrolled(ctx, t, name, byMedium("http"))
	console := consoleFromNow(t, name)
	said := deploysWhole(ctx, t, id, name, qcow2())
	saysOf(t, said, map[string]bool{"tftp": true, "ramdisk.efi": true, "parameters: ramdisk": true, "MB by HTTP": false, "iPXE": false})
	line, err := console.Wait(ctx, regexp.MustCompile(`NBP file downloaded successfully|NBP filesize is \d{7,} Bytes`))
	if err != nil {
		t.Errorf("the console does not say that the firmware loaded the program: %v", err)
	}
	t.Log(strings.TrimSpace(line))
}

// Firmware with Microsoft's keys checks what it starts, from the network and from the disk: Debian's shim, GRUB and kernel. So the machine
// is deployed with secure boot on, by --pxe-loader grub.
func TestDeployByShimAndGRUB(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 20*time.Minute)
	const name = "factory-0"
	restartAll(ctx, t, loaderArgs(ctx, t)...)
	t.Cleanup(func() { restartAll(context.WithoutCancel(ctx), t) })
	id := enrolled(ctx, t, name, byMedium("pxe"))
	console := consoleFromNow(t, name)
	said := deploysWhole(ctx, t, id, name, debianImage(ctx, t))
	saysOf(t, said, map[string]bool{"tftp: shimx64.efi": true, "script: ramdisk, state wait call-back, by TFTP": true, "snponly.efi": false, "iPXE": false})
	for _, kernel := range []string{"ramdisk", "instance"} {
		if _, err := console.Wait(ctx, secureKernel); err != nil {
			t.Errorf("the %s's kernel does not say that secure boot is on: %v", kernel, err)
		}
	}
}

// deploysWhole deploys an image, sees the instance speak, tears it down and returns the node's history.
func deploysWhole(ctx context.Context, t *testing.T, id, name string, image operator.Image) string {
	t.Helper()
	o := theRack.Operator
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	if err := o.SetImage(ctx, id, image); err != nil {
		t.Fatal(err)
	}
	if reason, err := o.Unfit(ctx, id); err != nil || reason != "" {
		t.Fatalf("validate says %q, %v", reason, err)
	}
	began := time.Now()
	deployed(ctx, t, id, name)
	t.Logf("%.0f s from the request to the instance's words", time.Since(began).Seconds())
	said := historyOf(ctx, t, id)
	undeployed(ctx, t, id)
	return said
}

// saysOf looks what a history says and what it does not.
func saysOf(t *testing.T, said string, want map[string]bool) {
	t.Helper()
	for text, has := range want {
		if strings.Contains(said, text) != has {
			t.Errorf("that the history says %q is %t:\n%s", text, !has, said)
		}
	}
}

// debianImage is the test image with the loaders that Debian has signed in place of its own GRUB. Its kernel is Debian's.
func debianImage(ctx context.Context, t *testing.T) operator.Image {
	t.Helper()
	const name = "debian.raw"
	run := changedImage(ctx, t, name)
	config := filepath.Join(t.TempDir(), "grub.cfg")
	if err := os.WriteFile(config, []byte("linux /vmlinuz console=ttyS0,115200 cryptomgr.notests\ninitrd /initrd\nboot\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("mdel", "::EFI/BOOT/BOOTX64.EFI")
	run("mmd", "::EFI/debian")
	run("mcopy", ofPackage(ctx, t, "shim-signed", "usr/lib/shim/shimx64.efi.signed"), "::EFI/BOOT/BOOTX64.EFI")
	run("mcopy", ofPackage(ctx, t, "grub-efi-amd64-signed", "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"), "::EFI/BOOT/grubx64.efi")
	run("mcopy", config, "::EFI/debian/grub.cfg")
	return named(t, name)
}
