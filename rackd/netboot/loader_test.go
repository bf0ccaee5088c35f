package netboot_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// kept is the folder that keeps Debian packages, as ops/debkernel fills it.
func kept() string {
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	return filepath.Join(cache, "kernel")
}

// debian returns a file of a Debian package, which is not installed for it: an installed shim changes what other tests boot. The
// package is kept for the next run.
func debian(t *testing.T, pkg, path string) string {
	t.Helper()
	at := filepath.Join(kept(), pkg)
	if _, err := os.Stat(at); err != nil {
		dir, tree := t.TempDir(), t.TempDir()
		get := exec.Command("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", pkg)
		get.Dir = dir
		if out, err := get.CombinedOutput(); err != nil {
			t.Fatalf("apt-get download %s: %v: %s", pkg, err, out)
		}
		debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil || len(debs) != 1 {
			t.Fatalf("%d packages, %v", len(debs), err)
		}
		if out, err := exec.Command("dpkg", "-x", debs[0], tree).CombinedOutput(); err != nil {
			t.Fatalf("dpkg: %v: %s", err, out)
		}
		if err := errors.Join(os.MkdirAll(at, 0o755), os.CopyFS(at, os.DirFS(tree))); err != nil {
			t.Fatal(err)
		}
	}
	path, err := filepath.Abs(filepath.Join(at, path))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// debianKernel is a kernel that Debian has signed.
func debianKernel(t *testing.T) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(kept(), "linux-image-cloud-amd64", "boot", "vmlinuz-*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no kernel in %s (%v): ironyard ramdisk build --kernel cloud --cache %s DIR fetches one", kept(), err, kept())
	}
	return list[0]
}

// TestLoaders boots machines by the loaders of the interface pxe that are not iPXE, until their kernel speaks.
func TestLoaders(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" || os.Getenv("IRONYARD_HARDWARE") != "1" {
		t.Skip("NOT RUN: boots machines in QEMU for minutes: run `make hardware`, or set IRONYARD_E2E=1 and IRONYARD_HARDWARE=1")
	}
	// The namespace reaches no package server: what is fetched is in the cache by then.
	grub := map[string]string{bootfiles.Shim: debian(t, "shim-signed", "usr/lib/shim/shimx64.efi.signed"), bootfiles.GRUB: debian(t, "grub-efi-amd64-signed", "usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed")}
	pxelinux := map[string]string{bootfiles.PXELinux: debian(t, "pxelinux", "usr/lib/PXELINUX/pxelinux.0"), bootfiles.PXELinuxCore: debian(t, "syslinux-common", "usr/lib/syslinux/modules/bios/ldlinux.c32")}
	kernel := debianKernel(t)
	if !inNamespace(t) {
		return
	}
	t.Run("UEFI with the keys of Microsoft by shim and GRUB", func(t *testing.T) { byGRUB(t, kernel, grub) })
	t.Run("UEFI by GRUB once its address is known", func(t *testing.T) { byGRUBOnceKnown(t, kernel, grub) })
	t.Run("BIOS by pxelinux", func(t *testing.T) { byPXELinux(t, pxelinux) })
}

func byGRUB(t *testing.T, kernel string, loaders map[string]string) {
	m := ramdiskMachine
	m.Order.OverTFTP = true
	w := worldWith(t, m, kernel, func(s *setting) { s.loaders = loaders })
	if err := os.Rename(w.kernel, w.kernel+".away"); err != nil {
		t.Fatal(err)
	}
	vars := filepath.Join(t.TempDir(), "vars.fd")
	body, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
	if err != nil {
		t.Fatalf("%v (Debian's package ovmf has it)", err)
	}
	if err := os.WriteFile(vars, body, 0o644); err != nil {
		t.Fatal(err)
	}
	w.boot("-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
		"-drive", "if=pflash,unit=1,format=raw,file="+vars, "-device", uefiCard)
	w.phases("dhcp: 10.78.0.", "tftp: shimx64.efi", "tftp: grubx64.efi", "tftp: grub/", "script: ramdisk, state wait call-back, by TFTP")
	w.says("Ironyard: the ramdisk did not load")
	if err := os.Rename(w.kernel+".away", w.kernel); err != nil {
		t.Fatal(err)
	}
	w.phases("script: ramdisk", "script: ramdisk, state wait call-back, by TFTP", "kernel: by TFTP", "ramdisk: by TFTP")
	w.says("Linux version")
	w.says("ecure boot enabled")
	w.says("BOOTIF=01-52-54-00-12-34-56")
}

// byGRUBOnceKnown has a rackd that has not heard which address the machine was given: GRUB speaks DHCP once more, and is told its machine's
// configuration then.
func byGRUBOnceKnown(t *testing.T, kernel string, loaders map[string]string) {
	m := ramdiskMachine
	m.Order.OverTFTP = true
	w := worldWith(t, m, kernel, func(s *setting) { s.loaders = loaders })
	w.mu.Lock()
	w.unheard = true
	w.mu.Unlock()
	w.boot(ovmf(t)...)
	w.says("no rackd has seen which address this machine was given")
	w.phases("dhcp: 10.78.0.", "tftp: shimx64.efi", "tftp: grubx64.efi", "dhcp: 10.78.0.", "script: ramdisk, state wait call-back, by TFTP", "kernel: by TFTP", "ramdisk: by TFTP")
	w.says("Linux version")
}

// plain hides from DHCP that the network card's own program is iPXE, as it is in QEMU, so that it is treated as a card of other makers.
// It does so while hides says so, which may be nil: always.
type plain struct {
	net.PacketConn
	hides func() bool
}

func (p plain) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.PacketConn.ReadFrom(b)
	if p.hides != nil && !p.hides() {
		return n, from, err
	}
	if m, bad := dhcpv4.FromBytes(b[:n]); err == nil && bad == nil {
		m.DeleteOption(dhcpv4.OptionUserClassInformation)
		m.DeleteOption(dhcpv4.GenericOptionCode(175))
		n = copy(b, m.ToBytes())
	}
	return n, from, err
}

// byPXELinux has iPXE as a small kernel: pxelinux loads slowly in an emulator.
func byPXELinux(t *testing.T, loaders map[string]string) {
	m := ramdiskMachine
	m.Order.OverTFTP = true
	w := worldWith(t, m, "/usr/lib/ipxe/ipxe.lkrn", func(s *setting) {
		s.loaders, s.wrap = loaders, func(_ *world, c net.PacketConn) net.PacketConn { return plain{c, nil} }
	})
	if err := os.Rename(w.kernel, w.kernel+".away"); err != nil {
		t.Fatal(err)
	}
	w.boot("-device", biosCard)
	w.phases("dhcp: 10.78.0.", "tftp: pxelinux.0", "tftp: ldlinux.c32", "script: ramdisk, state wait call-back, by TFTP", "script: ramdisk")
	if err := os.Rename(w.kernel+".away", w.kernel); err != nil {
		t.Fatal(err)
	}
	w.phases("script", "script: ramdisk", "kernel: by TFTP", "ramdisk: by TFTP")
	w.until("the kernel", func(_ []string, console string) bool {
		_, after, ok := strings.Cut(console, "Loading /ramdisk")
		return ok && strings.Contains(after, "iPXE initialising devices")
	})
}
