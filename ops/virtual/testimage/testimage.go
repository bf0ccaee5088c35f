package testimage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/protocol/filelock"
)

// Packages are the Debian packages whose programs and files Build needs.
var Packages = append([]string{
	"qemu-utils", "dosfstools", "mtools", "grub-common", "grub-efi-amd64-bin", "grub-pc-bin",
}, debkernel.Packages...)

// Marker begins the line that a running instance prints on its serial console; then
// come hostname=, uuid= and root=.
const Marker = "IRONYARD-INSTANCE-UP"

// Architectures that there are images for, as Debian and Go name them.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Options says where Build works.
type Options struct {
	// Arch is the machines' architecture; empty: AMD64.
	Arch string
	// CacheDir is where debkernel keeps kernel packages.
	CacheDir string
	// OutDir receives the image's files. It is the package's own, and holds the image of one architecture.
	OutDir string
	// Init is a built init of that architecture; empty means to build it, for which the working directory
	// must be in the project's module and the go command in PATH.
	Init string
}

// File is a finished file.
type File struct {
	Path string `json:"path"`
	// SHA256 is in hexadecimal.
	SHA256 string `json:"sha256"`
	// Size is in bytes.
	Size int64 `json:"size"`
}

// Images is the same disk in the forms that an agent can write.
type Images struct {
	Raw   File `json:"raw"`
	QCOW2 File `json:"qcow2"`
	// RawZstd is Raw, compressed with zstd.
	RawZstd File `json:"raw_zstd"`
	// VirtualSize is the disk's size in bytes: a target must be as large.
	VirtualSize int64 `json:"virtual_size"`
}

// Build returns the test image, building it unless OutDir holds it already, made from
// the same init, kernel and boot loader. Safe for concurrent use, also by several
// processes on one OutDir. It needs no privileges, and no network once CacheDir
// holds the kernel.
func Build(ctx context.Context, o Options) (Images, error) {
	images, err := build(ctx, o)
	if err != nil {
		return Images{}, fmt.Errorf("building the test image in %s: %w", o.OutDir, err)
	}
	return images, nil
}

func build(ctx context.Context, o Options) (Images, error) {
	out, err := filepath.Abs(o.OutDir)
	if err != nil {
		return Images{}, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Images{}, err
	}
	unlock, err := filelock.Hold(ctx, filepath.Join(out, ".lock"))
	if err != nil {
		return Images{}, err
	}
	defer unlock()

	scratch, err := os.MkdirTemp(out, ".build-")
	if err != nil {
		return Images{}, err
	}
	defer os.RemoveAll(scratch)

	what, err := o.parts(ctx, scratch)
	if err != nil {
		return Images{}, err
	}
	key, err := what.inputs(ctx)
	if err != nil {
		return Images{}, err
	}
	if images, ok := readStamp(out, key); ok {
		return images, nil
	}

	raw := filepath.Join(scratch, rawName)
	if err := what.write(ctx, scratch, raw); err != nil {
		return Images{}, err
	}
	images, err := finish(ctx, scratch, out)
	if err != nil {
		return Images{}, err
	}
	return images, writeStamp(out, key, images)
}

// parts are what an image is made of.
type parts interface {
	// inputs is a digest of all that decides on the image's bytes.
	inputs(ctx context.Context) (string, error)
	// write makes the raw image at path.
	write(ctx context.Context, scratch, path string) error
}

func (o Options) parts(ctx context.Context, scratch string) (parts, error) {
	switch o.Arch {
	case "", AMD64:
		return readX64(ctx, o, scratch)
	case ARM64:
		return readARM64(ctx, o, scratch)
	}
	return nil, fmt.Errorf("there is none for architecture %q: give %s or %s", o.Arch, AMD64, ARM64)
}
