package esp

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/fat12"
	"github.com/diskfs/go-diskfs/filesystem/fat16"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// folder reads the partition, by the paths of io/fs.
type folder interface {
	ReadDir(path string) ([]fs.DirEntry, error)
	Open(path string) (fs.File, error)
}

// open opens the FAT file system. Which of the three it is, the number of its clusters says (Microsoft's FAT
// specification, "FAT type determination").
func open(disk io.ReaderAt, start, size int64) (files folder, err error) {
	boot := make([]byte, 512)
	if _, err := disk.ReadAt(boot, start); err != nil {
		return nil, fmt.Errorf("read the EFI system partition: %w", err)
	}
	u16 := func(at int) int64 { return int64(binary.LittleEndian.Uint16(boot[at:])) }
	u32 := func(at int) int64 { return int64(binary.LittleEndian.Uint32(boot[at:])) }
	sector, perCluster := u16(11), int64(boot[13])
	if boot[510] != 0x55 || boot[511] != 0xAA || sector < 512 || sector&(sector-1) != 0 || perCluster == 0 {
		return nil, &NoLoaderError{Why: "it holds no FAT file system"}
	}
	sectors, perTable := u16(19), u16(22)
	if sectors == 0 {
		sectors = u32(32)
	}
	wide := perTable == 0
	if wide {
		perTable = u32(36)
	}
	// The library makes room for what the boot sector says, before it looks whether that can be.
	if sectors*sector > size || perTable*sector > size {
		return nil, &NoLoaderError{Why: "its FAT file system is larger than the partition"}
	}
	clusters := (sectors - u16(14) - int64(boot[16])*perTable - (u16(17)*32+sector-1)/sector) / perCluster
	at := storage{disk, start, size}
	defer func() {
		if p := recover(); p != nil { // of the library's, at a file system that is broken
			files, err = nil, fmt.Errorf("%w: %v", ErrUnreadable, p)
		} else if err != nil {
			files, err = nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}()
	switch {
	case wide:
		return fat32.Read(at, size, 0, 0)
	case clusters < 4085:
		return fat12.Read(at, size, 0, 0)
	}
	return fat16.Read(at, size, 0, 0)
}

// storage is a part of a disk as go-diskfs wants it. It is not written.
type storage struct {
	disk        io.ReaderAt
	start, size int64
}

func (s storage) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(s.disk, s.start, s.size).ReadAt(p, off)
}
func (storage) Stat() (fs.FileInfo, error)              { return nil, backend.ErrNotSuitable }
func (storage) Read([]byte) (int, error)                { return 0, backend.ErrNotSuitable }
func (storage) Seek(int64, int) (int64, error)          { return 0, backend.ErrNotSuitable }
func (storage) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (storage) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }
func (storage) Path() string                            { return "" }
func (storage) Close() error                            { return nil }
