package bootmedium

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kept is the folder that keeps Debian packages, as ops/debkernel fills it.
func kept() string {
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	return filepath.Join(cache, "kernel")
}

// unpacked is a folder with the files of Debian packages that are not installed: an installed shim changes what other tests boot. The
// packages are kept for the next run.
func unpacked(t *testing.T, packages ...string) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, pkg := range packages {
		at := filepath.Join(kept(), pkg)
		if _, err := os.Stat(at); err != nil {
			fetch(t, pkg, at)
		}
		// The folders of documents are in several packages: only what is below lib is taken.
		lib := filepath.Join("usr", "lib")
		if err := os.CopyFS(filepath.Join(root, lib), os.DirFS(filepath.Join(at, lib))); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// fetch unpacks a package into a folder.
func fetch(t *testing.T, pkg, at string) {
	t.Helper()
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

// signedKernel is a kernel that Debian has signed.
func signedKernel(t *testing.T) File {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(kept(), "linux-image-cloud-amd64", "boot", "vmlinuz-*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no kernel in %s (%v): ironyard ramdisk build --kernel cloud --cache %s DIR fetches one", kept(), err, kept())
	}
	kernel, c, err := OpenFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return kernel
}

// factoryFirmware is OVMF with the keys of Microsoft, which checks what it starts. QEMU divides its arguments at commas: the name of the
// test has none.
func factoryFirmware(t *testing.T) []string {
	t.Helper()
	store, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")
	if err != nil {
		t.Fatalf("%v (Debian's package ovmf has it)", err)
	}
	vars := filepath.Join(t.TempDir(), "vars.fd")
	if err := os.WriteFile(vars, store, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-machine", "q35,smm=on", "-cpu", "max", "-global", "driver=cfi.pflash01,property=secure,value=on",
		"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
		"-drive", "if=pflash,unit=1,format=raw,file=" + vars}
}

// refusedByFirmware is what OVMF says of a program that no key of its own has signed.
var refusedByFirmware = regexp.MustCompile(`BdsDxe: failed to load Boot[0-9A-F]+ .*: Access Denied`)

// Firmware with Microsoft's keys starts the medium of a host that has Debian's shim and signed GRUB: these start Debian's kernel, which
// says that secure boot is on. The disk that looks like a medium is not heard. The medium of a host without them the firmware refuses.
// make hardware runs it.
func TestMediumBySecureBoot(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" || os.Getenv("IRONYARD_HARDWARE") == "" {
		t.Skip("it boots virtual machines, slowly: make hardware runs it")
	}
	const word = "ironyard.test=by-secure-boot"
	mediumOf := func(t *testing.T, root string, signed bool) (medium string) {
		t.Helper()
		l := findLoader(t.Context(), root)
		t.Cleanup(func() { l.Close() })
		if err := l.Problem(UEFI); err != nil || l.Signed() != signed {
			t.Fatalf("the loader is signed: %t, %v", l.Signed(), err)
		}
		m, err := l.Image(Contents{Kernel: signedKernel(t), Ramdisk: fileOf(archive(nil)), Params: []string{"console=ttyS0", "panic=-1", word}})
		if err != nil {
			t.Fatal(err)
		}
		return inFile(t, m)
	}
	signed := mediumOf(t, unpacked(t, "shim-signed", "grub-efi-amd64-signed"), true)
	unsigned := mediumOf(t, unpacked(t, "grub-efi-amd64-bin"), false)
	disk := lookalike(t)
	for name, device := range map[string][]string{
		"a CD":        {"-device", "ide-cd,drive=m,bus=ide.1,bootindex=0"},
		"a USB stick": {"-device", "qemu-xhci", "-device", "usb-storage,drive=m,bootindex=0"},
	} {
		start := func(t *testing.T, medium string, words ...string) (said string, took time.Duration) {
			t.Helper()
			args, began := append(factoryFirmware(t), append([]string{"-drive", drive + medium}, device...)...), time.Now()
			said = consoleOf(t, machineWith(disk, args...), append(words, ofTheDisk)...)
			return said, time.Since(began)
		}
		t.Run(name+" with signatures", func(t *testing.T) {
			said, took := start(t, signed, "Kernel panic")
			for _, want := range []string{fromTheMedium, "Linux version", "ecure boot enabled", "Command line: " + LoadersParam + " console=ttyS0 panic=-1 " + word} {
				if !strings.Contains(said, want) {
					t.Errorf("the console does not say %q", want)
				}
			}
			if t.Failed() || strings.Contains(said, ofTheDisk) || refusedByFirmware.MatchString(said) {
				t.Fatalf("the machine says:\n%s", said)
			}
			t.Logf("%.1f s from the start of the machine until its kernel found no root: %s", took.Seconds(), regexp.MustCompile(`.*ecure boot enabled.*`).FindString(said))
		})
		t.Run(name+" without signatures", func(t *testing.T) {
			said, took := start(t, unsigned, "Access Denied", fromTheMedium)
			line := refusedByFirmware.FindString(said)
			if line == "" || strings.Contains(said, fromTheMedium) {
				t.Fatalf("the firmware does not refuse a loader without a signature:\n%s", said)
			}
			t.Logf("%.1f s from the start of the machine: %s", took.Seconds(), line)
		})
	}
}
