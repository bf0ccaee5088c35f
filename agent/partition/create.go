package partition

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"unicode/utf16"
)

// Types of partitions that a new table may have besides TypeESP and TypeLinux.
const (
	TypeBIOSBoot = "21686148-6449-6E6F-744E-656564454649"
	TypeSwap     = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
	// TypeReserved is Linux's for what holds no file system. In an MBR it is "Non-FS data".
	TypeReserved = "8DA63339-0007-60C0-C436-083AC8230908"
)

// mbrTypes are the MBR's bytes for the types that a new one may have.
var mbrTypes = map[string]byte{TypeLinux: 0x83, TypeSwap: 0x82, TypeReserved: 0xda}

// TypeIn is how Partition.Type writes a type in a table of a kind.
func TypeIn(kind Kind, of string) string {
	if kind == MBR {
		return fmt.Sprintf("%02x", mbrTypes[of])
	}
	return of
}

// Wanted is a partition of a new table.
type Wanted struct {
	Label  string // GPT name; an MBR has none
	Type   string // GUID in capitals
	Size   int64  // bytes; it is rounded up to a MiB
	Active bool   // MBR: the partition that boot code may look for
	GUID   string // GPT: empty makes one
}

// Layout says where New would put partitions on the disk, without a table of their own. They lie one behind the other from
// the first MiB on. It is an error if they do not fit.
func Layout(d Disk, kind Kind, want []Wanted) ([]Partition, error) {
	limit := d.Size() - mib // room for the backup table
	if kind == MBR {
		limit = min(d.Size(), mbrMaxLBAs*d.SectorSize())
		if len(want) > 4 {
			return nil, fmt.Errorf("an MBR has four partitions, and %d are wanted: use a GPT", len(want))
		}
	}
	var out []Partition
	at := int64(mib)
	for i, w := range want {
		p := Partition{Number: i + 1, Label: w.Label, GUID: w.GUID, Start: at, Size: roundUp(w.Size, mib)}
		p.Type = TypeIn(kind, w.Type)
		if kind == MBR {
			p.Label, p.GUID = "", ""
		}
		out = append(out, p)
		at += p.Size
	}
	if at > limit {
		return nil, fmt.Errorf("the partitions need %d bytes, and disk %s has room for %d", at-mib, d.Name(), max(0, limit-mib))
	}
	return out, nil
}

// New makes an empty disk's table with these partitions, where Layout puts them. Nothing reaches the disk before Write. What is
// on the disk is not looked at: an MBR has no boot code, and a GPT a protective MBR without any.
func New(d Disk, kind Kind, want []Wanted) (Table, error) {
	places, err := Layout(d, kind, want)
	if err != nil {
		return nil, err
	}
	if kind == MBR {
		return newMBR(d, want, places)
	}
	return newGPT(d, want, places)
}

func newMBR(d Disk, want []Wanted, places []Partition) (*mbr, error) {
	m := &mbr{disk: d, sector: make([]byte, 512)}
	m.sector[510], m.sector[511] = 0x55, 0xaa
	if _, err := rand.Read(m.sector[mbrID : mbrID+4]); err != nil {
		return nil, err
	}
	for i, p := range places {
		m.set(i, mbrTypes[want[i].Type], p)
		if want[i].Active {
			m.entry(i)[0] = 0x80
		}
	}
	return m, nil
}

// set fills in an entry.
func (m *mbr) set(i int, kind byte, p Partition) {
	s, e := m.disk.SectorSize(), m.entry(i)
	clear(e)
	e[4] = kind
	copy(e[1:4], []byte{0xfe, 0xff, 0xff}) // CHS: "use LBA"
	copy(e[5:8], []byte{0xfe, 0xff, 0xff})
	le.PutUint32(e[8:], uint32(p.Start/s))
	le.PutUint32(e[12:], uint32(p.Size/s))
}

// newEntries is how many entries a new GPT has: the least that the specification allows.
const newEntries = 128

func newGPT(d Disk, want []Wanted, places []Partition) (*gpt, error) {
	s := d.SectorSize()
	g := &gpt{disk: d, sector: s, header: make([]byte, s), entries: make([]byte, newEntries*128), count: newEntries, size: 128, pmbr: make([]byte, 512)}
	copy(g.header, gptSignature)
	le.PutUint32(g.header[8:], 0x00010000) // revision 1.0
	le.PutUint32(g.header[hdrSize:], headerMin)
	le.PutUint64(g.header[hdrMyLBA:], 1)
	le.PutUint64(g.header[hdrEntriesLBA:], 2)
	le.PutUint64(g.header[hdrFirst:], uint64(2+g.entrySectors()))
	le.PutUint32(g.header[hdrNumEntries:], newEntries)
	le.PutUint32(g.header[hdrEntrySize:], 128)
	id, err := newGUID()
	if err != nil {
		return nil, err
	}
	copy(g.header[hdrDiskGUID:], id)
	last := d.Size()/s - 1
	g.pmbr[510], g.pmbr[511] = 0x55, 0xaa
	e := g.pmbr[mbrTable:]
	e[4] = 0xee
	copy(e[1:4], []byte{0x00, 0x02, 0x00}) // CHS of sector 1 (UEFI 2.10, table 5-4)
	copy(e[5:8], []byte{0xff, 0xff, 0xff})
	le.PutUint32(e[8:], 1)
	le.PutUint32(e[12:], uint32(min(last, 1<<32-1)))
	for i, p := range places {
		id, err := newGUID()
		if err != nil {
			return nil, err
		}
		if want[i].GUID != "" {
			id = parseGUID(want[i].GUID)
		}
		g.set(i, want[i].Label, want[i].Type, id, p)
	}
	return g, g.GrowToDisk()
}

// set fills in an entry.
func (g *gpt) set(i int, label, kind string, id []byte, p Partition) {
	e := g.entry(i)
	clear(e)
	copy(e[:16], parseGUID(kind))
	copy(e[16:32], id)
	le.PutUint64(e[32:], uint64(p.Start/g.sector))
	le.PutUint64(e[40:], uint64((p.Start+p.Size)/g.sector-1))
	for k, u := range utf16.Encode([]rune(label)) {
		if k < 36 {
			le.PutUint16(e[56+2*k:], u)
		}
	}
}

// newGUID makes a GUID of version 4, in GPT's layout.
func newGUID() ([]byte, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	id[7], id[8] = id[7]&0x0f|0x40, id[8]&0x3f|0x80
	return id, nil
}

// PartUUID is how Linux names a partition in PARTUUID=, and udev below /dev/disk/by-partuuid.
func PartUUID(t Table, p Partition) string {
	if t.Kind() == MBR {
		return fmt.Sprintf("%s-%02x", t.ID()[2:], p.Number)
	}
	b := parseGUID(p.GUID)
	return hex.EncodeToString([]byte{b[3], b[2], b[1], b[0]}) + "-" + hex.EncodeToString([]byte{b[5], b[4]}) + "-" +
		hex.EncodeToString([]byte{b[7], b[6]}) + "-" + hex.EncodeToString(b[8:10]) + "-" + hex.EncodeToString(b[10:])
}
