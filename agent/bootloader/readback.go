package bootloader

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

type sum [sha256.Size]byte

// written are the folders and the file of a root partition that an installation writes, and EFI, the folder of an EFI system partition.
var written = []string{"boot/grub", "boot/grub2", "EFI"}

// What is compared at most: files, and bytes of them. An image's boot loader has some thousand files and some ten megabytes.
const (
	mostFiles = 1 << 16
	mostBytes = 1 << 30
)

// sums notes the checksum of each file that an installation may have written.
func sums(root *os.Root, into map[string]sum) error {
	left := int64(mostBytes)
	note := func(name string, _ fs.FileInfo) error {
		if len(into) >= mostFiles {
			return cannot("its boot loader has more than %d files", mostFiles)
		}
		f, err := openRegular(root, name, left)
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		n, err := io.Copy(h, f)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		left -= n
		into[name] = sum(h.Sum(nil))
		return nil
	}
	for _, dir := range written {
		if err := walk(root, dir, note); err != nil {
			return err
		}
	}
	if err := note(fstab, nil); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// DifferentError says that a file system does not hold what was written to it.
type DifferentError struct{ Where, File string }

func (e *DifferentError) Error() string {
	return fmt.Sprintf("%s does not hold what was written: %s reads back differently; the disk, its cable or its controller is faulty", e.Where, e.File)
}

// FaultType names the error as ironic-python-agent does.
func (*DifferentError) FaultType() string { return "BlockDeviceError" }

// same compares what was read before a file system was unmounted with what is read after it.
func same(where string, before, after map[string]sum) error {
	for name, s := range before {
		if after[name] != s {
			return &DifferentError{where, name}
		}
	}
	return nil
}

// mountedAt is Mounted for the EFI system partition at a folder that is there.
func mountedAt(device, at string, do func() error) (err error) {
	if err := unix.Mount(device, at, "vfat", unix.MS_NODEV|unix.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", device, err)
	}
	defer func() {
		if uerr := unix.Unmount(at, 0); uerr != nil {
			err = errors.Join(err, fmt.Errorf("unmounting %s: %w", device, uerr))
		}
	}()
	if err := do(); err != nil {
		return err
	}
	return syncFS(at)
}
