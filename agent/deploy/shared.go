package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ironyard/ironyard/agent/disk"
	"github.com/ironyard/ironyard/agent/partition"
)

// sharedTypes are partition types of file systems that several machines have open at once.
var sharedTypes = map[string]string{
	"AA31E02A-400F-11DB-9590-000C2911D1B8": "VMware VMFS",
	"37AFFC90-EF7D-4E96-91C3-2D7AE055B174": "IBM GPFS",
	"fb":                                   "VMware VMFS",
}

// sharedSignatures are the marks of such file systems, by where they lie in a disk or partition.
var sharedSignatures = []struct {
	name string
	at   int64
	mark []byte
}{
	{"GFS2", 64 << 10, []byte{0x01, 0x16, 0x19, 0x70}},
	{"VMware VMFS", 1 << 20, []byte{0x0d, 0xd0, 0x01, 0xc0}}, // of a volume's member
	{"VMware VMFS", 2 << 20, []byte{0x5e, 0xf1, 0xab, 0x2f}},
}

// refuseShared fails if other machines may be using the disk at this moment, as far as its
// partition tables and superblocks tell: to erase it would take it from all of them. What EraseMetadata wipes is judged, each
// area of it: a table that is damaged in one place tells of them in another.
func refuseShared(d *disk.Disk) error {
	areas := append([]partition.Area{{}}, partition.Areas(d)...) // the disk itself, then its partitions
	for _, p := range areas {
		if name, ok := sharedTypes[p.Type]; ok {
			return sharedError(name, p.Number)
		}
		for _, s := range sharedSignatures {
			got := make([]byte, len(s.mark))
			if _, err := d.ReadAt(got, p.Start+s.at); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("looking for file systems that machines share: %w", err)
			}
			if bytes.Equal(got, s.mark) {
				return sharedError(s.name, p.Number)
			}
		}
	}
	return nil
}

// sharedError says what is on a partition, or on the disk itself if that is 0.
func sharedError(name string, number int) error {
	where := "it"
	if number > 0 {
		where = fmt.Sprintf("its partition %d", number)
	}
	return fmt.Errorf("%s holds %s, which other machines may be using: keep the disk (properties/skip_block_devices), take it from the machine, "+
		"or let such disks be erased with the kernel parameter ipa-guard-special-filesystems=false", where, name)
}
