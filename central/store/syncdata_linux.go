package store

import (
	"os"
	"syscall"
)

// syncData has a file's data on the disk, and of what is told about it the size.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
