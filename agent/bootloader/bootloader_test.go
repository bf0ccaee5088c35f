package bootloader

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/esp"
	"github.com/ironyard/ironyard/agent/filesystem"
)

// tree makes files below a folder, and opens it.
func tree(t *testing.T, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func read(t *testing.T, root *os.Root, name string) string {
	t.Helper()
	raw, err := root.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(raw)
}

// The loaders of several distributions are copied, each GRUB finds its configuration on the root partition, and firmware that knows no
// boot entry finds a loader.
func TestLoadersOfDistributions(t *testing.T) {
	s := esp.Suffix()
	fallbackName := "EFI/BOOT/BOOT" + strings.ToUpper(s) + ".EFI"
	stub := "search --no-floppy --fs-uuid --set=root 12-34\nset prefix=($root)/boot/grub2\nconfigfile $prefix/grub.cfg\n"
	for name, c := range map[string]struct {
		image, want map[string]string
	}{
		"Fedora": {
			map[string]string{"usr/sbin/grub2-install": "x", "boot/grub2/grub.cfg": "menu", "boot/efi/EFI/fedora/shim" + s + ".efi": "shim", "boot/efi/EFI/fedora/grub" + s + ".efi": "grub", "boot/efi/EFI/fedora/mm" + s + ".efi": "mok"},
			map[string]string{"EFI/fedora/grub.cfg": stub, "EFI/fedora/shim" + s + ".efi": "shim", fallbackName: "shim", "EFI/BOOT/grub" + s + ".efi": "grub", "EFI/BOOT/mm" + s + ".efi": "mok"}},
		"its own configuration and fallback": {
			map[string]string{"usr/sbin/grub2-install": "x", "boot/grub2/grub.cfg": "menu", "boot/efi/EFI/redhat/grub" + s + ".efi": "grub", "boot/efi/EFI/redhat/grub.cfg": "mine", "boot/efi/" + fallbackName: "theirs"},
			map[string]string{"EFI/redhat/grub.cfg": "mine", fallbackName: "theirs"}},
		"systemd-boot": {
			map[string]string{"boot/efi/EFI/systemd/systemd-boot" + s + ".efi": "sd", "boot/efi/loader/loader.conf": "timeout 0"},
			map[string]string{fallbackName: "sd", "loader/loader.conf": "timeout 0", "EFI/systemd/grub.cfg": ""}},
	} {
		i := &installation{root: tree(t, c.image), disk: Disk{RootFS: filesystem.Found{Kind: filesystem.XFS, UUID: "12-34"}}}
		to := tree(t, nil)
		if has, err := i.brought(); !has || err != nil {
			t.Errorf("%s: brought %t, %v", name, has, err)
		}
		if err := errors.Join(i.copyAssets(to), i.stubs(to, i.grub()), fallback(to)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for file, want := range c.want {
			if got := read(t, to, file); got != want {
				t.Errorf("%s: %s holds %q, want %q", name, file, got, want)
			}
		}
	}
}

// Nothing is followed out of an image.
func TestLinksOutOfAnImage(t *testing.T) {
	i := &installation{root: tree(t, map[string]string{"etc/hosts": "x"}), disk: Disk{ESPUUID: "AB-CD"}}
	outside := filepath.Join(t.TempDir(), "fstab")
	if err := os.WriteFile(outside, []byte("of the ramdisk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.root.Symlink(outside, "etc/fstab"); err != nil {
		t.Fatal(err)
	}
	if err := i.addToFstab(); err == nil {
		t.Error("a link out of the image was followed")
	}
	if err := i.root.Symlink(filepath.Dir(outside), "boot"); err != nil {
		t.Fatal(err)
	}
	if has, err := i.brought(); has || err == nil {
		t.Errorf("brought %t, %v", has, err)
	}
	if raw, _ := os.ReadFile(outside); string(raw) != "of the ramdisk" {
		t.Errorf("it holds %q", raw)
	}
}

func TestTableOfFileSystems(t *testing.T) {
	const line = "UUID=AB-CD\t/boot/efi\tvfat\tumask=0077\t0\t1\n"
	for before, after := range map[string]string{
		"":                                   line,
		"LABEL=root / ext4 defaults 0 1":     "LABEL=root / ext4 defaults 0 1\n" + line,
		"# /boot/efi\n":                      "# /boot/efi\n" + line,
		"LABEL=mine /boot/efi vfat ro 0 0\n": "LABEL=mine /boot/efi vfat ro 0 0\n",
	} {
		i := &installation{root: tree(t, map[string]string{"etc/fstab": before}), disk: Disk{ESPUUID: "AB-CD"}}
		for range 2 { // the second time changes nothing
			if err := i.addToFstab(); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, i.root, "etc/fstab"); got != after {
			t.Errorf("%q became %q, want %q", before, got, after)
		}
	}
	if err := (&installation{root: tree(t, nil)}).addToFstab(); err != nil {
		t.Error(err)
	}
}

// What reads back differently is told by name.
func TestWhatReadsBackDifferently(t *testing.T) {
	root := tree(t, map[string]string{"boot/grub2/grub.cfg": "menu", "EFI/x/grub.cfg": "stub", "home/me": "mine"})
	before, after := map[string]sum{}, map[string]sum{}
	if err := sums(root, before); err != nil || len(before) != 2 {
		t.Errorf("%v, %v", before, err)
	}
	if err := root.WriteFile("boot/grub2/grub.cfg", []byte("nuem"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sums(root, after); err != nil {
		t.Fatal(err)
	}
	var different *DifferentError
	if err := same("the root partition", before, after); !errors.As(err, &different) || different.File != "boot/grub2/grub.cfg" {
		t.Errorf("%v", err)
	}
	if err := same("the root partition", before, before); err != nil {
		t.Error(err)
	}
}

// An image without any boot loader is refused, with what to do.
func TestImagesWithoutBootLoader(t *testing.T) {
	for mode, install := range map[string]func(*installation) (string, error){
		"BIOS": func(i *installation) (string, error) { return i.bios(t.Context()) },
		"UEFI": func(i *installation) (string, error) { return i.uefi(t.Context()) },
	} {
		_, err := install(&installation{root: tree(t, map[string]string{"etc/hosts": "x"})})
		var cannot *CannotError
		if !errors.As(err, &cannot) || !strings.Contains(err.Error(), "grub2-install") || !strings.Contains(err.Error(), mode) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
