package configdrive

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// sampleFiles has the sizes at which sectors are miscounted.
func sampleFiles() []isoFile {
	return []isoFile{{"meta_data.json", []byte("{}")}, {"network_data.json", nil},
		{"user_data", bytes.Repeat([]byte("u"), 2*sector)}, {"vendor_data2.json", bytes.Repeat([]byte("v"), sector+1)}}
}

func sampleImage(t *testing.T) []byte {
	t.Helper()
	image, err := writeISO(Label, []string{"openstack", "latest"}, sampleFiles())
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// readTree reads label and files by the descriptor in sector at, from the records
// alone, and checks what the records say twice.
func readTree(t *testing.T, image []byte, at int) (label string, files map[string][]byte) {
	t.Helper()
	d := image[at*sector:][:sector]
	name := func(b []byte) string { return string(b) }
	if at == jolietSector {
		name = func(b []byte) string {
			var u []uint16
			for i := 0; i+1 < len(b); i += 2 {
				u = append(u, binary.BigEndian.Uint16(b[i:]))
			}
			return string(utf16.Decode(u))
		}
	}
	twice := func(b []byte) int {
		little, big := binary.LittleEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if little != big {
			t.Fatalf("a number is %d in one order and %d in the other", little, big)
		}
		return int(little)
	}
	if string(d[1:6]) != "CD001" || twice(d[80:])*sector != len(image) {
		t.Fatalf("descriptor %d: %q, %d sectors of %d bytes", at, d[1:6], twice(d[80:]), len(image))
	}
	files = map[string][]byte{}
	var walk func(path string, extent, size int)
	walk = func(path string, extent, size int) {
		b := image[extent*sector:][:size]
		for n := 0; len(b) > 0 && b[0] != 0; n++ {
			r := b[:b[0]]
			b = b[b[0]:]
			at, size := twice(r[2:]), twice(r[10:])
			child := path + name(r[33:][:r[32]])
			switch {
			case n < 2: // itself and its parent
			case r[25]&2 != 0:
				walk(child+"/", at, size)
			default:
				files[child] = image[at*sector:][:size]
			}
		}
	}
	root := d[156:190]
	walk("", twice(root[2:]), twice(root[10:]))
	return strings.TrimRight(name(d[40:72]), " "), files
}

func TestBothTrees(t *testing.T) {
	image := sampleImage(t)
	for at, folder := range map[int]string{primarySector: "OPENSTACK/LATEST/", jolietSector: "openstack/latest/"} {
		label, files := readTree(t, image, at)
		if label != Label || len(files) != 4 {
			t.Errorf("descriptor %d: label %q, %d files", at, label, len(files))
		}
		for _, f := range sampleFiles() {
			name := f.name
			if at == primarySector {
				name = string(plainName(f.name, true))
			}
			if got, ok := files[folder+name]; !ok || !bytes.Equal(got, f.body) {
				t.Errorf("%s%s: %d bytes, want %d", folder, name, len(got), len(f.body))
			}
		}
	}
}

// TestForeignReader reads the plain tree with a library. Joliet's is hidden from it,
// for it finds no folder below the first level there.
func TestForeignReader(t *testing.T) {
	image := sampleImage(t)
	copy(image[jolietSector*sector:][:sector], image[endSector*sector:])
	path := filepath.Join(t.TempDir(), "drive.iso")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := file.OpenFromPath(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	fs, err := iso9660.Read(b, int64(len(image)), 0, sector)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(fs.Label()); got != Label {
		t.Errorf("label %q", got)
	}
	for name, want := range map[string][]byte{"META_DATA.JSON": sampleFiles()[0].body, "USER_DATA": sampleFiles()[2].body, "VENDOR_DATA2.JSON": sampleFiles()[3].body} {
		f, err := fs.OpenFile("OPENSTACK/LATEST/"+name, os.O_RDONLY)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
}

func TestPathTables(t *testing.T) {
	image := sampleImage(t)
	for _, at := range []int{primarySector, jolietSector} {
		d := image[at*sector:]
		size := int(binary.LittleEndian.Uint32(d[132:]))
		little := image[int(binary.LittleEndian.Uint32(d[140:]))*sector:][:size]
		big := image[int(binary.BigEndian.Uint32(d[148:]))*sector:][:size]
		folders := 0
		for i := 0; i < size; folders++ {
			extent := binary.LittleEndian.Uint32(little[i+2:])
			if other := binary.BigEndian.Uint32(big[i+2:]); extent != other {
				t.Errorf("descriptor %d, folder %d: sector %d and %d", at, folders, extent, other)
			}
			if self := binary.LittleEndian.Uint32(image[extent*sector+2:]); self != extent {
				t.Errorf("descriptor %d, folder %d: sector %d holds a folder of sector %d", at, folders, extent, self)
			}
			if parent := int(binary.LittleEndian.Uint16(little[i+6:])); parent != max(folders, 1) {
				t.Errorf("descriptor %d, folder %d: its parent is %d", at, folders, parent)
			}
			i += 8 + int(little[i]+1)&^1
		}
		if folders != 3 {
			t.Errorf("descriptor %d: %d folders in the path table", at, folders)
		}
	}
}

// Busybox, which ramdisks look for their config drive with, tells the label of the smallest drive too.
func TestBusyboxFindsASmallDrive(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("NOT RUN: it takes Debian's busybox")
	}
	image, err := writeISO(Label, []string{"openstack", "latest"}, []isoFile{{"meta_data.json", []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(at, image, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), busybox, "blkid", at).CombinedOutput()
	if err != nil || !strings.Contains(string(said), `LABEL="`+Label+`"`) {
		t.Errorf("of a drive of %d bytes it says %q: %v", len(image), said, err)
	}
}
