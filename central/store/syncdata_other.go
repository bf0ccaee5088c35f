//go:build !linux

package store

import "os"

// syncData has a file on the disk.
func syncData(f *os.File) error { return f.Sync() }
