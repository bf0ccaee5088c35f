package testimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ironyard/ironyard/ops/initramfs"
)

// Names of the files in OutDir.
const (
	rawName   = "testimage.raw"
	qcow2Name = "testimage.qcow2"
	zstdName  = "testimage.raw.zst"
)

// finish makes the other forms of the raw image in scratch and moves all into out. The
// old stamp goes first: it must not vouch for a mixture.
func finish(ctx context.Context, scratch, out string) (Images, error) {
	raw := filepath.Join(scratch, rawName)
	if _, err := run(ctx, scratch, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2Name); err != nil {
		return Images{}, err
	}
	if err := compress(raw, filepath.Join(scratch, zstdName)); err != nil {
		return Images{}, fmt.Errorf("compressing the raw image: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(out, stampName)); err != nil {
		return Images{}, err
	}
	var images Images
	for name, f := range map[string]*File{rawName: &images.Raw, qcow2Name: &images.QCOW2, zstdName: &images.RawZstd} {
		var err error
		if *f, err = describe(filepath.Join(scratch, name)); err != nil {
			return Images{}, err
		}
		f.Path = filepath.Join(out, name)
		if err := os.Rename(filepath.Join(scratch, name), f.Path); err != nil {
			return Images{}, err
		}
	}
	images.VirtualSize = images.Raw.Size
	return images, nil
}

func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	z, err := initramfs.Compress(out, initramfs.Zstd)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, in); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return out.Close()
}

func describe(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{Path: path, SHA256: hex.EncodeToString(h.Sum(nil)), Size: n}, err
}
