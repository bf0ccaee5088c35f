package partition

import "fmt"

const (
	mbrID      = 440
	mbrTable   = 446
	mbrLinux   = 0x83
	mbrMaxLBAs = 1 << 32
)

type mbr struct {
	disk   Disk
	sector []byte // the first 512 bytes
}

func readMBR(d Disk, first []byte) (*mbr, error) {
	m := &mbr{disk: d, sector: first}
	total := d.Size() / d.SectorSize()
	for i := range 4 {
		e := m.entry(i)
		if e[0]&0x7f != 0 {
			// A FAT or NTFS boot sector ends in 55 AA as well, but has text here.
			return nil, fmt.Errorf("disk %s: %w", d.Name(), ErrNone)
		}
		if e[4] != 0 && int64(le.Uint32(e[8:]))+int64(le.Uint32(e[12:])) > total {
			return nil, fmt.Errorf("MBR of disk %s is damaged: partition %d ends beyond the disk's %d sectors", d.Name(), i+1, total)
		}
	}
	return m, nil
}

func (m *mbr) entry(i int) []byte { return m.sector[mbrTable+16*i : mbrTable+16*i+16] }

func (m *mbr) Kind() Kind { return MBR }

func (m *mbr) ID() string { return fmt.Sprintf("0x%08x", le.Uint32(m.sector[mbrID:])) }

func (m *mbr) Partitions() []Partition {
	var out []Partition
	for i := range 4 {
		if e := m.entry(i); e[4] != 0 {
			out = append(out, m.describe(i))
		}
	}
	return out
}

func (m *mbr) describe(i int) Partition {
	e, s := m.entry(i), m.disk.SectorSize()
	return Partition{Number: i + 1, Type: fmt.Sprintf("%02x", e[4]), Start: int64(le.Uint32(e[8:])) * s, Size: int64(le.Uint32(e[12:])) * s}
}

// GrowToDisk has nothing to do: an MBR has no backup.
func (m *mbr) GrowToDisk() error { return nil }

func (m *mbr) AddLast(label string, size int64) (Partition, error) {
	slot, end := -1, int64(mib)
	for i := range 4 {
		if m.entry(i)[4] == 0 {
			if slot < 0 {
				slot = i
			}
			continue
		}
		p := m.describe(i)
		end = max(end, p.Start+p.Size)
	}
	if slot < 0 {
		return Partition{}, fmt.Errorf("all four primary partitions of disk %s are used, so there is none left for %q: use an image with a GPT or with three partitions at most",
			m.disk.Name(), label)
	}
	size = roundUp(size, mib)
	limit := min(m.disk.Size(), mbrMaxLBAs*m.disk.SectorSize())
	start := roundDown(limit-size, mib)
	if start < end {
		return Partition{}, fmt.Errorf("no room for a partition %q of %d bytes at the end of disk %s: its partitions leave %d bytes",
			label, size, m.disk.Name(), max(0, limit-end))
	}
	m.set(slot, mbrLinux, Partition{Start: start, Size: size})
	return m.describe(slot), nil
}

func (m *mbr) SetType(number int, kind string) error {
	if number < 1 || number > 4 || m.entry(number - 1)[4] == 0 {
		return fmt.Errorf("disk %s has no primary partition %d", m.disk.Name(), number)
	}
	if mbrTypes[kind] == 0 {
		return fmt.Errorf("an MBR has no partitions of type %s", kind)
	}
	m.entry(number - 1)[4] = mbrTypes[kind]
	return nil
}

func (m *mbr) Write() error {
	if _, err := m.disk.WriteAt(m.sector, 0); err != nil {
		return fmt.Errorf("writing the partition table: %w", err)
	}
	return nil
}
