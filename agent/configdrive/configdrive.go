// Package configdrive unpacks a config drive and writes it into the last
// partition of the disk, where cloud-init looks for the label config-2.
//
// It may import agent/partition only. Invariant: an existing config-2 partition of
// the image is used if it is large enough, else a new one is made at the end.
package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/ironyard/ironyard/agent/partition"
)

const (
	// Label is how the partition is called, and the file system in it.
	Label = "config-2"
	// MaxBytes bounds a config drive after unpacking.
	MaxBytes = 64 << 20
)

// Error says what is wrong with a config drive.
type Error struct{ Reason string }

func (e *Error) Error() string { return "config drive: " + e.Reason }

// FaultType names the error in the agent's API.
func (e *Error) FaultType() string { return "InvalidConfigDrive" }

// Decode unpacks base64 of a gzipped file system image. Line breaks in the base64
// are accepted.
func Decode(text string) ([]byte, error) { return decode(text, MaxBytes) }

func decode(text string, limit int64) ([]byte, error) {
	src := base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))
	z, err := gzip.NewReader(src)
	if err != nil {
		return nil, &Error{fmt.Sprintf("it must be base64 of a gzipped image: %v", err)}
	}
	data, err := io.ReadAll(io.LimitReader(z, limit+1))
	switch {
	case err != nil:
		return nil, &Error{fmt.Sprintf("it cannot be unpacked: %v", err)}
	case int64(len(data)) > limit:
		return nil, &Error{fmt.Sprintf("it is larger than %d MiB", limit>>20)}
	case len(data) < 512:
		return nil, &Error{fmt.Sprintf("%d bytes are no file system", len(data))}
	}
	return data, nil
}

// Place finds or makes the partition for a drive of size bytes in the table t of disk, without
// writing the table. As in Ironic, a file system with the label counts too: an image that was taken of an instance has that one's drive.
func Place(disk io.ReaderAt, t partition.Table, size int64) (partition.Partition, error) {
	var found []partition.Partition
	for _, p := range t.Partitions() {
		is := strings.EqualFold(p.Label, Label)
		if !is {
			var err error
			if is, err = labelled(disk, p); err != nil {
				return p, fmt.Errorf("looking for the image's own config drive: %w", err)
			}
		}
		if is {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return t.AddLast(Label, size)
	case 1:
		p := found[0]
		if p.Size < size {
			return p, &Error{fmt.Sprintf("the image's own partition %d named %s has %d bytes, the drive needs %d", p.Number, Label, p.Size, size)}
		}
		return p, nil
	}
	return found[0], &Error{fmt.Sprintf("the image has %d partitions named %s, and which one the instance reads is not known: leave one in the image", len(found), Label)}
}

// labelled reports whether a partition has a file system with the label, of the kinds that config drives have: ISO 9660 and FAT.
func labelled(disk io.ReaderAt, p partition.Partition) (bool, error) {
	for _, m := range []struct {
		markAt  int64
		mark    string
		labelAt int64
		length  int
	}{{32<<10 + 1, "CD001", 32<<10 + 40, 32}, {54, "FAT", 43, 11}, {82, "FAT32", 71, 11}} {
		if p.Size < m.labelAt+int64(m.length) {
			continue
		}
		mark, label := make([]byte, len(m.mark)), make([]byte, m.length)
		if _, err := disk.ReadAt(mark, p.Start+m.markAt); err != nil {
			return false, err
		}
		if _, err := disk.ReadAt(label, p.Start+m.labelAt); err != nil {
			return false, err
		}
		if string(mark) == m.mark && strings.EqualFold(strings.TrimRight(string(label), " \x00"), Label) {
			return true, nil
		}
	}
	return false, nil
}

// Write puts the drive into the partition. The caller flushes the disk and reads the drive back.
func Write(d partition.Disk, p partition.Partition, data []byte) error {
	if int64(len(data)) > p.Size {
		return &Error{fmt.Sprintf("%d bytes do not fit partition %d of %d bytes", len(data), p.Number, p.Size)}
	}
	// Whole sectors, so that the write needs no read of old content.
	padded := append(bytes.Clone(data), make([]byte, -int64(len(data))&(d.SectorSize()-1))...)
	if _, err := d.WriteAt(padded, p.Start); err != nil {
		return fmt.Errorf("writing the config drive: %w", err)
	}
	return nil
}
