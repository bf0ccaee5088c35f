package partitionimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/ops/initramfs"
	"github.com/ironyard/ironyard/protocol/filelock"
)

// Of the small system's file system: its size in bytes, of which a quarter is free for what GRUB's installation adds, and its name.
const (
	SmallBytes = 64 << 20
	SmallUUID  = "7e57d15c-0004-4a5c-9d3e-1a0c7e57d15c"
)

//go:embed initramfs.sh
var initramfsScript []byte

// ofHost are the programs and files of Debian packages of this machine that the small system has: what its GRUB's installation starts, the
// mkfs that makes ephemeral partitions, and what its first program starts. ops/setup/packages.sh installs what not every Debian has.
var ofHost = []struct {
	pkg   string
	files []string
}{
	{"dash", []string{"usr/bin/sh"}},
	{"coreutils", []string{"usr/bin/basename", "usr/bin/cat", "usr/bin/chmod", "usr/bin/cut", "usr/bin/dirname", "usr/bin/head", "usr/bin/id", "usr/bin/ls", "usr/bin/mkdir",
		"usr/bin/mv", "usr/bin/od", "usr/bin/readlink", "usr/bin/rm", "usr/bin/sleep", "usr/bin/sort", "usr/bin/sync", "usr/bin/tail", "usr/bin/tr", "usr/bin/uname"}},
	{"sed", []string{"usr/bin/sed"}},
	{"grep", []string{"usr/bin/grep", "usr/bin/fgrep"}},
	{"mount", []string{"usr/bin/mount", "usr/bin/umount"}},
	{"util-linux", []string{"usr/bin/findmnt", "usr/bin/mountpoint", "usr/sbin/blkid"}},
	{"e2fsprogs", []string{"usr/sbin/mkfs.ext4", "etc/mke2fs.conf"}},
	{"grub-common", []string{"usr/sbin/grub-mkconfig", "usr/sbin/grub-probe", "usr/bin/grub-mkrelpath", "usr/bin/grub-script-check",
		"usr/share/grub/grub-mkconfig_lib", "etc/grub.d/00_header", "etc/grub.d/10_linux", "etc/grub.d/30_uefi-firmware"}},
}

// grubFolders are the folders of GRUB's modules, with the packages that they belong to.
var grubFolders = []struct{ pkg, folder string }{{"grub-pc-bin", "usr/lib/grub/i386-pc"}, {"grub-efi-amd64-bin", "usr/lib/grub/x86_64-efi"}}

// smallModules are what the small system needs of its kernel: its disk, its file system, that of config drives, and firmware's variables.
var smallModules = []string{"virtio_pci", "virtio_blk", "ext4", "isofs", "efivarfs"}

// BuildSmall returns the partition image of a small system. Its kernel and all its programs are those of Debian's packages, its GRUB
// for BIOS and UEFI too. Most of them are copied from this machine, with their libraries. packages is debkernel's cache: the kernel,
// grub-install and the shell of the initramfs come from there. It needs no privileges, and with a filled cache no network. Safe for
// concurrent use, as Build is.
func BuildSmall(ctx context.Context, cache, packages string) (Image, error) {
	i, err := buildSmall(ctx, cache, packages)
	if err != nil {
		return Image{}, fmt.Errorf("building the small partition image: %w", err)
	}
	return i, nil
}

func buildSmall(ctx context.Context, cache, packages string) (Image, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return Image{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Image{}, err
	}
	unlock, err := filelock.Hold(ctx, filepath.Join(cache, ".lock"))
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	s, err := smallSystem(ctx, packages)
	if err != nil {
		return Image{}, err
	}
	i := Image{Path: filepath.Join(cache, fmt.Sprintf("small-%s.raw.zst", s.name())), Bytes: SmallBytes}
	if _, err := os.Stat(i.Path); errors.Is(err, os.ErrNotExist) {
		if err := s.write(ctx, cache, i); err != nil {
			return Image{}, err
		}
	}
	return i.summed()
}

// system is what a file system is to hold, by paths without a slash at their beginning.
type system map[string]content

// content is a file, or a link to what it holds.
type content struct {
	perm fs.FileMode
	link bool
	data []byte
}

// smallSystem gathers the small system's files.
func smallSystem(ctx context.Context, packages string) (system, error) {
	kernel, err := debkernel.Fetch(ctx, packages, debkernel.Cloud)
	if err != nil {
		return nil, err
	}
	image, err := os.ReadFile(kernel.Image)
	if err != nil {
		return nil, err
	}
	busybox, err := debkernel.File(ctx, packages, "busybox-static", "bin/busybox")
	if err != nil {
		return nil, err
	}
	grubInstall, err := debkernel.File(ctx, packages, "grub2-common", "usr/sbin/grub-install")
	if err != nil {
		return nil, err
	}
	early, err := smallInitramfs(kernel, busybox)
	if err != nil {
		return nil, err
	}
	s := system{
		"bin": {link: true, data: []byte("usr/bin")}, "sbin": {link: true, data: []byte("usr/sbin")}, "lib": {link: true, data: []byte("usr/lib")}, "lib64": {link: true, data: []byte("usr/lib64")},
		"boot/vmlinuz-" + kernel.Version:    {perm: 0o644, data: image},
		"boot/initrd.img-" + kernel.Version: {perm: 0o644, data: early},
		"usr/sbin/grub-install":             {perm: 0o755, data: grubInstall},
		"usr/sbin/ironyard-mark":            {perm: 0o755, data: markScript},
		"etc/default/grub":                  {perm: 0o644, data: defaultGrub},
		"etc/fstab":                         {perm: 0o644, data: []byte("# what the image mounts\n")},
	}
	for _, p := range ofHost {
		for _, name := range p.files {
			if err := s.add(p.pkg, name); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range grubFolders {
		files, err := fs.Glob(os.DirFS("/"), f.folder+"/*.*") // but programs, and images with all modules within
		if err == nil && len(files) == 0 {
			err = os.ErrNotExist
		}
		if err != nil {
			return nil, missing(f.pkg, f.folder, err)
		}
		for _, name := range files {
			if err := s.add(f.pkg, name); err != nil {
				return nil, err
			}
		}
	}
	return s, s.addLibraries()
}

// add copies a file of this machine that belongs to a Debian package.
func (s system) add(pkg, name string) error {
	c, err := hostFile(name)
	if err != nil {
		return missing(pkg, name, err)
	}
	s[name] = c
	return nil
}

// hostFile reads a file of this machine; links are followed.
func hostFile(name string) (content, error) {
	at := filepath.Join("/", name)
	st, err := os.Stat(at)
	if err != nil {
		return content{}, err
	}
	data, err := os.ReadFile(at)
	return content{perm: st.Mode().Perm(), data: data}, err
}

func missing(pkg, name string, err error) error {
	return fmt.Errorf("/%s of Debian's package %s: %w: install that package on this machine", name, pkg, err)
}

// smallInitramfs packs what mounts the root partition.
func smallInitramfs(kernel debkernel.Kernel, busybox []byte) ([]byte, error) {
	modules, err := kernel.Modules(smallModules...)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := initramfs.Compress(&out, initramfs.Zstd)
	if err != nil {
		return nil, err
	}
	w := initramfs.NewWriter(z)
	for _, dir := range []string{"dev", "proc", "root", "run", "sys"} {
		err = errors.Join(err, w.AddDir(dir, 0o755))
	}
	err = errors.Join(err, w.AddDevice("dev/console", initramfs.CharDevice, 0o600, 5, 1), // for what is said before devtmpfs is there
		w.AddFile("bin/busybox", 0o755, busybox), w.AddFile("init", 0o755, initramfsScript))
	var list strings.Builder
	for _, m := range modules {
		at := "lib/modules/" + kernel.Version + "/" + m.Target
		err = errors.Join(err, w.AddFile(at, 0o644, m.Data))
		fmt.Fprintf(&list, "/%s\n", at)
	}
	err = errors.Join(err, w.AddFile("modules.list", 0o644, []byte(list.String())), w.Close(), z.Close())
	return out.Bytes(), err
}

// name is a checksum of all that the system holds.
func (s system) name() string {
	h := sha256.New()
	fmt.Fprintln(h, SmallBytes, SmallUUID)
	for _, name := range s.paths() {
		c := s[name]
		fmt.Fprintf(h, "%q %v %t %x\n", name, c.perm, c.link, sha256.Sum256(c.data))
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// paths are the system's files, in order.
func (s system) paths() []string {
	var list []string
	for name := range s {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// write makes the image's file.
func (s system) write(ctx context.Context, cache string, i Image) error {
	scratch, err := os.MkdirTemp(cache, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	root, out := filepath.Join(scratch, "root"), filepath.Join(scratch, "image")
	for _, dir := range []string{"dev", "proc", "run", "sys", "tmp", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range s.paths() {
		if err := s[name].write(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	if err := run(ctx, scratch, "mkfs.ext4", "-q", "-F", "-L", "image", "-U", SmallUUID, "-d", root, out, fmt.Sprintf("%dK", i.Bytes>>10)); err != nil {
		return err
	}
	if err := run(ctx, scratch, "zstd", "-q", "-T0", out, "-o", out+".zst"); err != nil {
		return err
	}
	return os.Rename(out+".zst", i.Path)
}

func (c content) write(at string) error {
	if c.link {
		return os.Symlink(string(c.data), at)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(at, c.data, c.perm), os.Chmod(at, c.perm)) // whatever the caller's umask is
}
