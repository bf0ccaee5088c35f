package configdrive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// File is a file of a drive.
type File struct {
	Name string // from the root of the drive, with slashes
	Body []byte
}

// Bounds of what is read of an image.
const (
	maxDepth   = 8
	maxEntries = 4096
)

// Files returns the files of a drive as Build returns it, in the order of their names. The drive has to be an ISO 9660 image, as
// Build and the usual tools make it. Names are Joliet's or Rock Ridge's, else those of the plain tree in lower case. Errors wrap
// ErrInvalid and hold nothing of a file's content.
func Files(drive string) ([]File, error) {
	image, err := Image(drive)
	if err != nil {
		return nil, err
	}
	v := volume{image: image, left: len(image)}
	root := v.root()
	if root == nil {
		return nil, fmt.Errorf("%w: it is no ISO 9660 image, and its files cannot be read", ErrInvalid)
	}
	if err := v.folder(root, "", 0); err != nil {
		return nil, err
	}
	slices.SortFunc(v.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return v.files, nil
}

// volume is an image that is read.
type volume struct {
	image   []byte
	joliet  bool
	entries int
	files   []File
	left    int // of the image's size, behind the files so far
}

// Offsets in descriptors and directory records (ECMA-119, 8.4 and 9.1).
const (
	rootRecord  = 156
	escapes     = 88
	recordStart = 2
	recordSize  = 10
	recordFlags = 25
	recordName  = 33
	flagFolder  = 2
)

// root is the record of the root folder, Joliet's where there is one; nil: the image is none.
func (v *volume) root() (record []byte) {
	for s := primarySector; (s+1)*sector <= len(v.image); s++ {
		d := v.image[s*sector : (s+1)*sector]
		switch {
		case string(d[1:6]) != "CD001" || d[0] == 255:
			return record
		case d[0] == 1 && record == nil:
			record = d[rootRecord : rootRecord+34]
		case d[0] == 2 && d[escapes] == '%' && d[escapes+1] == '/':
			record, v.joliet = d[rootRecord:rootRecord+34], true
		}
	}
	return record
}

// extent is the content that a record points to.
func (v *volume) extent(record []byte) ([]byte, error) {
	start, size := int64(binary.LittleEndian.Uint32(record[recordStart:]))*sector, int64(binary.LittleEndian.Uint32(record[recordSize:]))
	if start+size > int64(len(v.image)) {
		return nil, fmt.Errorf("%w: its ISO 9660 image points behind its end", ErrInvalid)
	}
	return v.image[start : start+size], nil
}

// folder reads a folder and what is below it.
func (v *volume) folder(record []byte, at string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: its folders lie more than %d deep", ErrInvalid, maxDepth)
	}
	body, err := v.extent(record)
	if err != nil {
		return err
	}
	for len(body) > recordName {
		length := int(body[0])
		if length == 0 { // records do not cross sectors
			rest := len(body) % sector
			if rest == 0 {
				rest = sector
			}
			body = body[rest:]
			continue
		}
		if length < recordName+1 || length > len(body) || recordName+int(body[32]) > length {
			return fmt.Errorf("%w: its ISO 9660 image has a folder that cannot be read", ErrInvalid)
		}
		entry := body[:length]
		body = body[length:]
		raw := entry[recordName : recordName+int(entry[32])]
		if len(raw) == 1 && raw[0] < 2 { // the folder itself, and the one above
			continue
		}
		if v.entries++; v.entries > maxEntries {
			return fmt.Errorf("%w: it has more than %d files and folders", ErrInvalid, maxEntries)
		}
		name := at + v.name(raw, entry[min(length, recordName+len(raw)+1-len(raw)%2):])
		if entry[recordFlags]&flagFolder != 0 {
			if err := v.folder(entry, name+"/", depth+1); err != nil {
				return err
			}
			continue
		}
		content, err := v.extent(entry)
		if err != nil {
			return err
		}
		if v.left -= len(content); v.left < 0 { // many may point to one place, each for a copy
			return fmt.Errorf("%w: the files of its ISO 9660 image have more than the image", ErrInvalid)
		}
		v.files = append(v.files, File{name, bytes.Clone(content)})
	}
	return nil
}

// name is a name without its version. In the plain tree Rock Ridge may tell the real one, in what lies behind it in the record
// (IEEE P1282, 4.1.4).
func (v *volume) name(raw, behind []byte) string {
	name, real := strings.ToLower(string(raw)), ""
	for !v.joliet && len(behind) > 4 && int(behind[2]) >= 4 && int(behind[2]) <= len(behind) {
		if string(behind[:2]) == "NM" && behind[2] > 5 {
			real += string(behind[5:behind[2]])
		}
		behind = behind[behind[2]:]
	}
	if real != "" {
		return real
	}
	if v.joliet {
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = binary.BigEndian.Uint16(raw[2*i:])
		}
		name = string(utf16.Decode(units))
	}
	name, _, _ = strings.Cut(name, ";")
	return strings.TrimSuffix(name, ".")
}
