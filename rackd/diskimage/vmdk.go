package diskimage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ironyard/ironyard/rackd/imagecache"
)

// Of VMware's "Virtual Disk Format 5.0": sectors, and the flag of a file whose grains are compressed.
const (
	vmdkSector     = 512
	vmdkCompressed = 1 << 16
	vmdkHeader     = 64
	// vmdkDirectory bounds the directory, which is read whole: 4 MiB are enough for 32 TiB in grains of 64 KiB.
	vmdkDirectory = 4 << 20
)

// vmdkWhole refuses a sparse VMDK file of size bytes that ends within a grain: qemu-img checks where grains begin, and reads
// zeros behind the file's end. Compressed grains that were cut off cannot be unpacked. It reads no more bytes than the file has.
func vmdkWhole(f io.ReaderAt, size int64) error {
	cut := func(what string) error {
		return fmt.Errorf("%w: the vmdk file was cut off: it has %d bytes, and %s is not whole", ErrRefused, size, what)
	}
	read := func(at, n uint64, what string) ([]byte, error) {
		if at > uint64(size) || n > uint64(size)-at {
			return nil, cut(what)
		}
		p := make([]byte, n)
		if _, err := f.ReadAt(p, int64(at)); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %w", imagecache.ErrDisk, err)
		}
		return p, nil
	}
	le := binary.LittleEndian
	h, err := read(0, vmdkHeader, "its header")
	if err != nil {
		return err
	}
	capacity, grain, entries, directory := le.Uint64(h[12:]), le.Uint64(h[20:]), uint64(le.Uint32(h[44:])), le.Uint64(h[56:])
	if le.Uint32(h[8:])&vmdkCompressed != 0 {
		return nil
	}
	if grain == 0 || grain > 1<<20 || entries == 0 || entries > 1<<16 || directory > 1<<40 || capacity > 1<<41 {
		return fmt.Errorf("%w: the vmdk file has grains of %d sectors, in tables of %d", ErrRefused, grain, entries)
	}
	grains := (capacity + grain - 1) / grain
	length := (grains + entries - 1) / entries * 4
	if length > vmdkDirectory {
		return fmt.Errorf("%w: the directory of the vmdk file has %d bytes, and at most %d are read", ErrRefused, length, vmdkDirectory)
	}
	tables, err := read(directory*vmdkSector, length, "its directory")
	if err != nil {
		return err
	}
	budget := uint64(size) // tables lie beside each other
	for i := 0; i < len(tables); i += 4 {
		at := le.Uint32(tables[i:])
		if at == 0 {
			continue
		}
		if budget < entries*4 {
			return fmt.Errorf("%w: the tables of the vmdk file overlap", ErrRefused)
		}
		budget -= entries * 4
		table, err := read(uint64(at)*vmdkSector, entries*4, "one of its tables")
		if err != nil {
			return err
		}
		for j := uint64(0); j < entries; j++ {
			number, begin := uint64(i/4)*entries+j, uint64(le.Uint32(table[j*4:]))
			// 0 is no grain, and 1 one of zeros. Of the last one counts what is within the disk.
			if number < grains && begin > 1 && (begin+min(grain, capacity-number*grain))*vmdkSector > uint64(size) {
				return cut(fmt.Sprintf("grain %d", number))
			}
		}
	}
	return nil
}
