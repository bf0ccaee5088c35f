package bootloader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/agent/esp"
	"github.com/ironyard/ironyard/agent/filesystem"
)

// assets is where images have what belongs on the EFI system partition.
const assets = "boot/efi"

func (i *installation) uefi(ctx context.Context) (said string, err error) {
	g := i.grub()
	brought, err := i.brought()
	if err != nil {
		return "", err
	}
	if brought {
		said = "the image's boot loaders are copied to the EFI system partition"
		if err := i.configure(ctx, g); err != nil {
			return "", err
		}
	} else {
		said = "the image's GRUB is installed for UEFI"
		if g.install == "" {
			return "", cannot("the machine boots by UEFI, and the image has no boot loader below /%s/EFI and neither grub-install nor grub2-install: add one to the image, use a whole-disk image, or boot mode bios", assets)
		}
		if err := i.install(ctx, g); err != nil {
			return "", err
		}
	}
	before := map[string]sum{}
	err = i.onESP(false, func(to *os.Root) error {
		if brought {
			if err := i.copyAssets(to); err != nil {
				return err
			}
			if err := i.stubs(to, g); err != nil {
				return err
			}
		}
		if err := fallback(to); err != nil {
			return err
		}
		return sums(to, before)
	})
	if err != nil {
		return "", err
	}
	after := map[string]sum{}
	if err := i.onESP(true, func(to *os.Root) error { return sums(to, after) }); err != nil {
		return "", fmt.Errorf("reading back the EFI system partition: %w", err)
	}
	if err := same("the EFI system partition", before, after); err != nil {
		return "", err
	}
	return said, i.addToFstab()
}

// onESP calls do with the EFI system partition's files.
func (i *installation) onESP(readOnly bool, do func(to *os.Root) error) error {
	return Mounted(i.disk.ESP, filesystem.VFAT, readOnly, func(dir string) error {
		to, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer to.Close()
		return do(to)
	})
}

// brought reports whether the image has boot loaders for the EFI system partition.
func (i *installation) brought() (has bool, err error) {
	err = walk(i.root, assets+"/EFI", func(name string, _ fs.FileInfo) error {
		has = has || strings.EqualFold(path.Ext(name), ".efi")
		return nil
	})
	return has, err
}

// install has the image's GRUB put itself into the fallback path, which needs no variable of the firmware.
func (i *installation) install(ctx context.Context, g grub) error {
	if err := i.root.MkdirAll(assets, 0o755); err != nil {
		return err
	}
	if st, err := i.root.Lstat(assets); err != nil || !st.IsDir() {
		return cannot("its /%s is no folder", assets)
	}
	// The folder is looked up once more by mount: a link further up would lead out of the image.
	top, err := filepath.EvalSymlinks(i.dir)
	if err != nil {
		return err
	}
	at, err := filepath.EvalSymlinks(filepath.Join(top, assets))
	if err != nil || at != filepath.Join(top, assets) {
		return cannot("its /%s is reached by a link", assets)
	}
	return mountedAt(i.disk.ESP, at, func() error {
		if err := i.run(ctx, g.install, "--target="+target(), "--efi-directory=/"+assets, "--removable", "--no-nvram"); err != nil {
			return err
		}
		return i.configure(ctx, g)
	})
}

// target is GRUB's name of this machine's platform.
func target() string {
	if esp.Suffix() == "aa64" {
		return "arm64-efi"
	}
	return "x86_64-efi"
}

// copyAssets copies the image's files for the EFI system partition.
func (i *installation) copyAssets(to *os.Root) error {
	return walk(i.root, assets, func(name string, _ fs.FileInfo) error {
		return copyFile(i.root, name, to, strings.TrimPrefix(name, assets+"/"))
	})
}

// stubs gives each folder with a GRUB that has no configuration one that reads the root partition's.
func (i *installation) stubs(to *os.Root, g grub) error {
	if st, err := i.root.Stat(g.folder + "/grub.cfg"); err != nil || !st.Mode().IsRegular() {
		return nil // it boots by something else
	}
	stub := fmt.Sprintf("search --no-floppy --fs-uuid --set=root %s\nset prefix=($root)/%s\nconfigfile $prefix/grub.cfg\n", i.disk.RootFS.UUID, g.folder)
	folders := map[string]bool{}
	err := walk(to, "EFI", func(name string, _ fs.FileInfo) error {
		if base := strings.ToLower(path.Base(name)); strings.HasPrefix(base, "grub") && strings.HasSuffix(base, ".efi") {
			folders[path.Dir(name)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for dir := range folders {
		if _, err := to.Stat(dir + "/grub.cfg"); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := to.WriteFile(dir+"/grub.cfg", []byte(stub), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fallback puts a loader into the path that firmware starts without a boot entry, if none is there. Shim looks for what it
// starts in its own folder.
func fallback(to *os.Root) error {
	const dir = "EFI/BOOT"
	suffix := esp.Suffix()
	if st, err := to.Stat(dir + "/BOOT" + strings.ToUpper(suffix) + ".EFI"); err == nil && st.Size() > 0 {
		return nil
	}
	for _, set := range [][]string{{"shim" + suffix + ".efi", "grub" + suffix + ".efi", "mm" + suffix + ".efi"}, {"grub" + suffix + ".efi"}, {"systemd-boot" + suffix + ".efi"}} {
		found, err := find(to, set[0])
		if err != nil {
			return err
		}
		if found == "" {
			continue
		}
		if err := to.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for n, name := range set {
			from := path.Join(path.Dir(found), name)
			if n == 0 {
				from, name = found, "BOOT"+strings.ToUpper(suffix)+".EFI"
			} else if _, err := to.Stat(from); err != nil {
				continue
			}
			if err := copyFile(to, from, to, dir+"/"+name); err != nil {
				return err
			}
		}
		return nil
	}
	return nil // whether there is a loader at all is looked up when the boot entry is made
}

// find returns a file's path on the EFI system partition, outside the fallback folder; empty if it is not there.
func find(to *os.Root, base string) (found string, err error) {
	err = walk(to, "EFI", func(name string, st fs.FileInfo) error {
		if found == "" && strings.EqualFold(path.Base(name), base) && st.Size() > 0 && !strings.EqualFold(path.Dir(name), "EFI/BOOT") {
			found = name
		}
		return nil
	})
	return found, err
}

// walk calls do for each file below a folder that is no link, in order of their names. A folder that is not there is empty.
func walk(root *os.Root, dir string, do func(name string, st fs.FileInfo) error) error {
	err := fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return nil
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		return do(name, st)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// copyFile copies a file and makes the folders that it needs.
func copyFile(from *os.Root, name string, to *os.Root, as string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := to.MkdirAll(path.Dir(as), 0o755); err != nil {
		return err
	}
	out, err := to.Create(as)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}
