// Package partitionimage builds partition images of real systems, for tests: a Debian as mmdebstrap installs it, and the same
// laid out as distributions of RPM are: XFS, grub2, and boot loaders of its own below /boot/efi/EFI. Its third is small: a Debian's
// kernel and GRUB, and the few programs that a deploy and the system's first program start. It is made in seconds.
//
// It owns the layout of its cache folder. It may import agent/container/containertest, ops/debkernel, ops/elflibs, ops/initramfs and
// protocol/filelock. Invariants: a file in the cache is whole or absent; its name holds a checksum of what it is made by, so a change of
// this package makes another one. Building a whole Debian needs root, mmdebstrap and a mirror; with a filled cache it needs neither.
//
// The systems' first program tells on the serial console what it was started from and what it finds, then switches the machine off.
package partitionimage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/protocol/filelock"
)

// Mark begins each line that a system says on its console, and Up ends what it says.
const (
	Mark = "IRONYARD-PARTITION "
	Up   = Mark + "up"
)

// Style is how a system is laid out.
type Style string

// The styles.
const (
	Debian Style = "debian" // ext4, grub, no boot loader for UEFI but what grub-install makes
	RPM    Style = "rpm"    // XFS, grub2, shim and GRUB below /boot/efi/EFI
)

// The scripts: the first is slow and needs a mirror, the second makes an image of what it has installed.
var (
	//go:embed tree.sh
	treeScript []byte
	//go:embed image.sh
	imageScript []byte
)

// What is in all images: the systems' first program, and how their GRUB is configured.
var (
	//go:embed mark.sh
	markScript []byte
	//go:embed default-grub
	defaultGrub []byte
)

// Sizes of the file systems in bytes, as the images are made with: GRUB and kernels need some room more.
const (
	DebianBytes = 640 << 20
	RPMBytes    = 768 << 20
)

// Image is a built partition image.
type Image struct {
	Path   string // a raw image, compressed by zstd
	SHA256 string
	Bytes  int64 // of the file system
}

// Build returns the partition image of a style. cache is the folder that keeps it. Safe for concurrent use, also by several
// processes on one cache.
func Build(ctx context.Context, cache string, s Style) (Image, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return Image{}, fmt.Errorf("building partition image %s: %w", s, err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Image{}, fmt.Errorf("building partition image %s: %w", s, err)
	}
	unlock, err := filelock.Hold(ctx, filepath.Join(cache, ".lock"))
	if err != nil {
		return Image{}, fmt.Errorf("building partition image %s: %w", s, err)
	}
	defer unlock()
	tree := treeIn(cache)
	i := Image{Path: filepath.Join(cache, fmt.Sprintf("%s-%s.raw.zst", s, short(bytes.Join([][]byte{treeScript, imageScript, markScript, defaultGrub}, nil)))), Bytes: DebianBytes}
	if s == RPM {
		i.Bytes = RPMBytes
	}
	if _, err := os.Stat(i.Path); errors.Is(err, os.ErrNotExist) {
		if err := build(ctx, cache, s, tree, i); err != nil {
			return Image{}, fmt.Errorf("building partition image %s: %w", s, err)
		}
	}
	return i.summed()
}

// summed is the image with the checksum of its file.
func (i Image) summed() (Image, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return Image{}, err
	}
	digest := sha256.Sum256(data)
	i.SHA256 = hex.EncodeToString(digest[:])
	return i, nil
}

// BootFiles are the kernel and the initramfs of the system that all images hold, for machines that load them by the network. Build has
// filled the cache before.
func BootFiles(cache string) (kernel, initramfs []byte, err error) {
	f, err := os.Open(treeIn(cache))
	if err != nil {
		return nil, nil, fmt.Errorf("kernel and initramfs of a partition image: %w", err)
	}
	defer f.Close()
	for r := tar.NewReader(f); kernel == nil || initramfs == nil; {
		h, err := r.Next()
		if err != nil {
			return nil, nil, fmt.Errorf("kernel and initramfs of a partition image, in %s: %w", f.Name(), err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		switch {
		case h.Typeflag != tar.TypeReg:
		case strings.HasPrefix(name, "boot/vmlinuz-"):
			kernel, err = io.ReadAll(r)
		case strings.HasPrefix(name, "boot/initrd.img-"):
			initramfs, err = io.ReadAll(r)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s of %s: %w", name, f.Name(), err)
		}
	}
	return kernel, initramfs, nil
}

// treeIn is the file of the installed system in a cache folder.
func treeIn(cache string) string { return filepath.Join(cache, "tree-"+short(treeScript)+".tar") }

// short names what is made by a script.
func short(script []byte) string {
	made := sha256.Sum256(script)
	return hex.EncodeToString(made[:6])
}

func build(ctx context.Context, cache string, s Style, tree string, i Image) error {
	shim, err := debkernel.File(ctx, filepath.Join(cache, "packages"), "shim-signed", "usr/lib/shim/shimx64.efi.signed")
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(cache, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	at := func(name string) string { return filepath.Join(scratch, name) }
	for name, data := range map[string][]byte{"shim": shim, "tree.sh": treeScript, "image.sh": imageScript, "mark.sh": markScript, "default-grub": defaultGrub} {
		if err := os.WriteFile(at(name), data, 0o644); err != nil {
			return err
		}
	}
	if _, err := os.Stat(tree); errors.Is(err, os.ErrNotExist) {
		if err := run(ctx, scratch, "sh", "tree.sh", tree); err != nil {
			return err
		}
	}
	if err := run(ctx, scratch, "sh", "image.sh", string(s), tree, at("image"), fmt.Sprint(i.Bytes), at("shim")); err != nil {
		return err
	}
	return os.Rename(at("image.zst"), i.Path)
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, out)
	}
	return nil
}
