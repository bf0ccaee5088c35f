package uefivars

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

var vendor = uuid.MustParse("0e0d5bf2-9b1f-4a0e-8d0e-1f5f0c3a7b11")

// image is a store in a volume of blocks, with the firmware's journal in the last one.
func image(blocks, storeBytes int) []byte {
	raw := bytes.Repeat([]byte{0xff}, blocks*blockSize)
	clear(raw[:volumeHeader])
	copy(raw[16:], appendGUID(nil, volumeType))
	le.PutUint64(raw[32:], uint64(len(raw)))
	copy(raw[40:], "_FVH")
	le.PutUint16(raw[48:], volumeHeader)
	raw[55] = 2
	le.PutUint32(raw[56:], uint32(blocks))
	le.PutUint32(raw[60:], blockSize)
	fixSum(raw)
	copy(raw[volumeHeader:], appendGUID(nil, storeType))
	le.PutUint32(raw[volumeHeader+16:], uint32(storeBytes))
	copy(raw[volumeHeader+20:], []byte{storeFormatted, storeHealthy, 0, 0, 0, 0, 0, 0})
	copy(raw[(blocks-1)*blockSize:], append(appendGUID(nil, workingType), 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xe0, 0x0f, 0, 0, 0, 0, 0, 0))
	return raw
}

func fixSum(raw []byte) {
	le.PutUint16(raw[50:], 0)
	sum := uint16(0)
	for at := 0; at < volumeHeader; at += 2 {
		sum += le.Uint16(raw[at:])
	}
	le.PutUint16(raw[50:], -sum)
}

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := Parse(image(3, blockSize))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t *testing.T, s *Store, name, data string) {
	t.Helper()
	if err := s.Set(Variable{Vendor: vendor, Name: name, Attributes: bootAttributes, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, name string) string {
	t.Helper()
	again, err := Parse(s.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := again.Get(vendor, name)
	return string(v.Data)
}

func TestSetReplacesAndDeletes(t *testing.T) {
	s := newStore(t)
	if list := s.List(); len(list) != 0 {
		t.Fatalf("a new store has %v", list)
	}
	set(t, s, "A", "one")
	set(t, s, "B", "two")
	before := s.Bytes()
	set(t, s, "A", "one")
	if !bytes.Equal(before, s.Bytes()) {
		t.Error("the same value was written twice")
	}
	set(t, s, "A", "three!")
	if a, b := get(t, s, "A"), get(t, s, "B"); a != "three!" || b != "two" {
		t.Errorf("A %q, B %q", a, b)
	}
	// The old one is marked as the firmware marks it, and flash only loses bits.
	if state := s.image[volumeHeader+storeHeader+2]; state != 0x3c {
		t.Errorf("state of what was replaced: %02xh", state)
	}
	for i, b := range s.Bytes() {
		if b&^before[i] != 0 {
			t.Fatalf("byte %#x gained bits: %02xh, then %02xh", i, before[i], b)
		}
	}
	for range 2 {
		if err := s.Delete(vendor, "A"); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.Get(vendor, "A"); ok || len(s.List()) != 1 {
		t.Errorf("after the delete: %v", s.List())
	}
}

func TestRefusals(t *testing.T) {
	s := newStore(t)
	set(t, s, "A", "one")
	good := Variable{Vendor: vendor, Name: "A", Attributes: bootAttributes, Data: []byte("x")}
	for what, change := range map[string]func(*Variable){
		"other attributes":     func(v *Variable) { v.Attributes = 3 },
		"no name":              func(v *Variable) { v.Name = "" },
		"a NUL":                func(v *Variable) { v.Name = "A\x00B" },
		"no data":              func(v *Variable) { v.Data = nil },
		"volatile":             func(v *Variable) { v.Name, v.Attributes = "V", BootService },
		"too large":            func(v *Variable) { v.Data = make([]byte, 0x2000) },
		"a time, not attested": func(v *Variable) { v.Time = time.Now() },
	} {
		bad, before := good, s.Bytes()
		change(&bad)
		if err := s.Set(bad); err == nil || !bytes.Equal(before, s.Bytes()) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestReclaim(t *testing.T) {
	s := newStore(t)
	set(t, s, "Kept", "kept")
	reclaims, last := 0, 0
	for i := range 200 {
		set(t, s, "Counter", strings.Repeat(fmt.Sprintf("%03d.", i), 10))
		_, free, err := records(s.image, s.end)
		if err != nil {
			t.Fatal(err)
		}
		if free < last {
			reclaims++
		}
		last = free
	}
	if reclaims < 2 || get(t, s, "Kept") != "kept" || !strings.HasPrefix(get(t, s, "Counter"), "199.199.") {
		t.Errorf("%d reclaims, Kept %q, Counter %q", reclaims, get(t, s, "Kept"), get(t, s, "Counter"))
	}
	// A replacement may need the room of what it replaces.
	set(t, s, "Large", strings.Repeat("x", 3000))
	set(t, s, "Large", strings.Repeat("y", 3000))
	if got := get(t, s, "Large"); got != strings.Repeat("y", 3000) {
		t.Errorf("Large: %d bytes, %.3q", len(got), got)
	}
	before := s.Bytes()
	err := s.Set(Variable{Vendor: vendor, Name: "More", Attributes: bootAttributes, Data: make([]byte, 3000)})
	if !errors.Is(err, ErrFull) || !bytes.Equal(before, s.Bytes()) {
		t.Errorf("a full store: %v", err)
	}
}

// What the firmware leaves when it is stopped in the middle of a write.
func TestCutOffWrites(t *testing.T) {
	s := newStore(t)
	set(t, s, "A", "old")
	first := volumeHeader + storeHeader
	s.image[first+2] &= stateDeletedTransition
	if got := get(t, s, "A"); got != "old" {
		t.Errorf("its successor does not exist yet: %q", got)
	}
	raw := encode(Variable{Vendor: vendor, Name: "A", Attributes: bootAttributes, Data: []byte("new")})
	raw[2] = 0x7f // only the header is valid
	_, free, err := records(s.image, s.end)
	if err != nil {
		t.Fatal(err)
	}
	copy(s.image[free:], raw)
	if got := get(t, s, "A"); got != "old" {
		t.Errorf("its successor is not complete: %q", got)
	}
	s.image[free+2] = stateAdded
	if got := get(t, s, "A"); got != "new" {
		t.Errorf("its successor is complete: %q", got)
	}
	// A header without sizes.
	_, free, err = records(s.image, s.end)
	if err != nil {
		t.Fatal(err)
	}
	le.PutUint16(s.image[free:], startID)
	set(t, s, "B", "after it")
	if a, b := get(t, s, "A"), get(t, s, "B"); a != "new" || b != "after it" {
		t.Errorf("A %q, B %q", a, b)
	}
}

// compactionJournal is what OVMF (Debian's ovmf 2022.11) left in its journal after it
// had compacted a store that was full: one write, complete.
const compactionJournal = "f8ffffff76ea5cfe724fe849986f2cd899dffe5dffffffff01000000000000000000000000000000" +
	"f9ffffffffffffff00000000000000004800000000000000b8ff03000000000000e0fbffffffffff"

func TestInterruptedReclaim(t *testing.T) {
	journal, err := hex.DecodeString(compactionJournal)
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	set(t, s, "A", "one")
	queue := s.image[2*blockSize+32:]
	for _, at := range []int{0, len(journal)} { // a first compaction, a second
		copy(queue[at:], journal)
		for state, want := range map[byte]error{0xfe: ErrInterrupted, 0xfc: ErrInterrupted, 0xf8: nil} {
			queue[at] = state
			if err := s.Set(Variable{Vendor: vendor, Name: "A", Attributes: bootAttributes, Data: []byte{state}}); !errors.Is(err, want) {
				t.Errorf("set in state %02xh: %v, want %v", state, err, want)
			}
			if err := s.Delete(vendor, "B"); !errors.Is(err, want) {
				t.Errorf("delete in state %02xh: %v, want %v", state, err, want)
			}
		}
		queue[at] = 0xf8
	}
	set(t, s, "A", "two")
}

func TestUnknownLayouts(t *testing.T) {
	for what, change := range map[string]func(raw []byte) []byte{
		"empty":         func(raw []byte) []byte { return nil },
		"cut off":       func(raw []byte) []byte { return raw[:len(raw)-1] },
		"file system":   func(raw []byte) []byte { raw[16]++; fixSum(raw); return raw },
		"no volume":     func(raw []byte) []byte { raw[40]++; fixSum(raw); return raw },
		"checksum":      func(raw []byte) []byte { raw[50]++; return raw },
		"header":        func(raw []byte) []byte { raw[48]++; fixSum(raw); return raw },
		"blocks":        func(raw []byte) []byte { raw[61]++; fixSum(raw); return raw },
		"kind of store": func(raw []byte) []byte { raw[volumeHeader]++; return raw },
		"format":        func(raw []byte) []byte { raw[volumeHeader+20]++; return raw },
		"store's size":  func(raw []byte) []byte { raw[volumeHeader+18] = 0xff; return raw },
		"free space":    func(raw []byte) []byte { raw[volumeHeader+storeHeader+1000] = 0; return raw },
		"variable's length": func(raw []byte) []byte {
			copy(raw[volumeHeader+storeHeader:], encode(Variable{Vendor: vendor, Name: "A", Attributes: 7, Data: make([]byte, 10)}))
			raw[volumeHeader+storeHeader+42] = 1
			return raw
		},
	} {
		if _, err := Parse(change(image(3, blockSize))); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", what, err)
		}
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vars.fd")
	s := newStore(t)
	set(t, s, "A", "one")
	for range 2 {
		if err := s.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	again, err := ReadFile(path)
	if err != nil || get(t, again, "A") != "one" {
		t.Errorf("%v, %v", again, err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file cut off: %v", err)
	}
}

// debian reads a store of Debian's package ovmf.
func debian(t *testing.T, name string) *Store {
	t.Helper()
	s, err := ReadFile("/usr/share/OVMF/" + name)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("Debian's package ovmf is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDebiansEmptyStores(t *testing.T) {
	for _, name := range []string{"OVMF_VARS_4M.fd", "OVMF_VARS.fd"} {
		s := debian(t, name)
		if list := s.List(); len(list) != 0 {
			t.Errorf("%s has %v", name, list)
		}
		set(t, s, "A", "one")
		if get(t, s, "A") != "one" {
			t.Errorf("%s: the variable is lost", name)
		}
		if err := s.SetISCSI("iqn.2026-11.org.example:a", nil); !errors.Is(err, ErrNoAttempts) {
			t.Errorf("%s: attempts that the firmware has not written: %v", name, err)
		}
	}
}

// OVMF itself wrote this store, when Debian's build enrolled keys.
func TestWhatFirmwareWrote(t *testing.T) {
	s := debian(t, "OVMF_VARS_4M.ms.fd")
	// Debian's build deleted the order at its end.
	if order, err := s.BootOrder(); err != nil || len(order) != 0 {
		t.Errorf("boot order %v, %v", order, err)
	}
	options, err := s.BootOptions()
	if err != nil {
		t.Fatal(err)
	}
	if o := options[0]; o.Description != "UiApp" || o.Boots() || len(o.Path) != 2 {
		t.Errorf("Boot0000: %+v", o)
	}
	if o := options[1]; o.Description != "UEFI QEMU HARDDISK QM00001 " || !o.Boots() || !strings.HasPrefix(o.Path.String(), "PciRoot(0x0)/Pci(0x1F,0x2)/") || len(o.OptionalData) != 16 {
		t.Errorf("Boot0001: %+v, %s", o, o.Path)
	}
	for number, o := range options {
		raw, err := o.Encode()
		v, _ := s.Get(GlobalVendor, optionName(number))
		if err != nil || !bytes.Equal(raw, v.Data) {
			t.Errorf("%s is not the same when written: %x, want %x (%v)", v.Name, raw, v.Data, err)
		}
	}
	keys, err := s.Keys()
	if err != nil || len(keys.PK) == 0 || len(keys.KEK) != 2 || len(keys.DB) != 2 || !s.SecureBoot() {
		t.Errorf("keys: PK %d bytes, %d KEK, %d db, secure boot %t, %v", len(keys.PK), len(keys.KEK), len(keys.DB), s.SecureBoot(), err)
	}
	if v, _ := s.Get(ImageSecurityVendor, "db"); v.Time.Year() < 2020 || v.Attributes != keyAttributes {
		t.Errorf("db: of %s, attributes %#x", v.Time, v.Attributes)
	}
	// All of it survives a compaction.
	compact, err := Parse(s.compacted(vendor, "none"))
	if err != nil {
		t.Fatal(err)
	}
	if before, after := fmt.Sprint(s.List()), fmt.Sprint(compact.List()); before != after {
		t.Errorf("compaction changes\n%s\nto\n%s", before, after)
	}
}

// Blank flash of an arm64 board is laid out as Debian has laid out its own. The zeros behind the volume stay, and take no room in a file.
func TestFlashOfARM64(t *testing.T) {
	const size, debians = 64 << 20, "/usr/share/AAVMF/AAVMF_VARS.snakeoil.fd"
	s, err := Flash(size)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "vars.fd")
	if err := s.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if s, err = ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if n := len(s.Bytes()); n != size {
		t.Errorf("the store has %d bytes, and the flash %d", n, size)
	}
	if err := s.Set(Variable{Vendor: vendor, Name: "B", Attributes: 7, Data: make([]byte, 0x2000)}); err == nil {
		t.Error("a variable that the firmware does not read was set")
	}
	set(t, s, "A", "one")
	if err := s.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if s, err = ReadFile(path); err != nil || get(t, s, "A") != "one" {
		t.Fatalf("%v, %v", s, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Size != size || st.Blocks*512 > flashVolume+1<<20 {
		t.Errorf("the file has %d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
	raw, err := os.ReadFile(debians)
	if err != nil {
		t.Skipf("NOT RUN: %v (Debian's package qemu-efi-aarch64)", err)
	}
	if _, err := Parse(raw); err != nil {
		t.Errorf("Debian's store: %v", err)
	}
	if ours := s.Bytes()[:volumeHeader+storeHeader]; !bytes.Equal(ours, raw[:len(ours)]) {
		t.Errorf("headers\n%x, Debian's are\n%x", ours, raw[:len(ours)])
	}
	for what, spoil := range map[string]func(){
		"something behind the volume": func() { raw[len(raw)-1] = 1 },
		"a flash that is too small":   func() { raw = raw[:flashVolume-1] },
	} {
		spoil()
		if _, err := Parse(raw); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", what, err)
		}
	}
	if _, err := Flash(flashVolume - 1); !errors.Is(err, ErrLayout) {
		t.Errorf("a flash without room: %v, want ErrLayout", err)
	}
}
