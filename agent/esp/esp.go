// Package esp finds the boot loader on a disk's EFI system partition.
//
// It may import nothing of the project. FAT is go-diskfs's. Invariants: the partition is only read; what is on it is an image's,
// so it is not believed: paths are looked up two folders deep, and files of bounded size are read.
//
// Sources: UEFI 2.10, section 3.5.1.1 (removable media path); shim's README.fallback (BOOT*.CSV).
package esp

import (
	"errors"
	"fmt"
	"io"
	"runtime"
)

// ErrUnreadable means that the partition holds a FAT file system that this program cannot read. Firmware may read it.
var ErrUnreadable = errors.New("the FAT file system of the EFI system partition cannot be read")

// NoLoaderError says that firmware finds nothing to start on the partition.
type NoLoaderError struct {
	Looked []string // the paths that were looked up
	Why    string   // set if there is no file system to look at
}

func (e *NoLoaderError) Error() string {
	if e.Why != "" {
		return "there is no boot loader on the EFI system partition: " + e.Why
	}
	return fmt.Sprintf("there is no boot loader for %s on the EFI system partition: none of %q is there", runtime.GOARCH, e.Looked)
}

// Suffix is how UEFI calls this machine's architecture in file names.
func Suffix() string {
	if runtime.GOARCH == "arm64" {
		return "aa64"
	}
	return "x64"
}

// Loader returns the path of the boot loader to start, with backslashes, on the partition that has size bytes from offset start
// of disk. The loader that the installed system names in a BOOT*.CSV is the first choice, then the removable media path, then
// what systems are known to install. It returns a *NoLoaderError if there is none, and wraps ErrUnreadable if it cannot tell.
func Loader(disk io.ReaderAt, start, size int64) (string, error) {
	files, err := open(disk, start, size)
	if err != nil {
		return "", err
	}
	return find(files)
}
