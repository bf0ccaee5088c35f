// Package efiboot makes the firmware start the written disk: a boot entry that points at the disk's EFI system partition. It stands
// in front of the boot order, or behind the entry that the machine was booted by.
//
// It may import agent/partition only and works on a mounted efivarfs (kernel
// Documentation/filesystems/efivarfs.rst). Formats are those of UEFI 2.10, sections
// 3.1.3 (load option) and 10.3 (device path). Invariants: of our label there is one
// entry, however often a machine is deployed (entries live in scarce flash);
// entries of others stay, and keep their order.
package efiboot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"unicode/utf16"

	"github.com/ironyard/ironyard/agent/partition"
)

// Dir is where efivarfs is mounted.
const Dir = "/sys/firmware/efi/efivars"

// Label is the description of our boot entry.
const Label = "ironyard"

// ErrUnsupported means that this machine was not booted by UEFI.
var ErrUnsupported = errors.New("no EFI variables: the machine was not booted by UEFI")

const (
	globalGUID = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	// attributes: non-volatile, boot service access, runtime access.
	attributes = 7
	active     = 1
)

var le = binary.LittleEndian

// Loader is the removable-media path of this architecture's boot loader.
func Loader() string {
	if runtime.GOARCH == "arm64" {
		return `\EFI\BOOT\BOOTAA64.EFI`
	}
	return `\EFI\BOOT\BOOTX64.EFI`
}

// Place is where an entry stands in the boot order.
type Place bool

// The places. A machine whose boot device nothing sets asks the network at each start only with the second.
const (
	First        Place = false
	BehindBooted Place = true
)

// Install makes an entry for the loader on ESP, removes older ones of our label and
// puts it into the boot order. sector is the disk's logical sector size.
func Install(dir string, esp partition.Partition, sector int64, loader string, at Place) (number uint16, err error) {
	v := vars(dir)
	if _, err := os.Stat(filepath.Join(dir, v.name("BootOrder"))); err != nil {
		if entries, derr := os.ReadDir(dir); derr != nil || len(entries) == 0 {
			return 0, ErrUnsupported
		}
	}
	order, err := v.order()
	if err != nil {
		return 0, err
	}
	used, ours, err := v.entries()
	if err != nil {
		return 0, err
	}
	for _, n := range ours {
		if err := v.remove(entryName(n)); err != nil {
			return 0, err
		}
		delete(used, n)
	}
	for used[number] {
		number++
	}
	option, err := loadOption(Label, esp, sector, loader)
	if err != nil {
		return 0, err
	}
	if err := v.write(entryName(number), option); err != nil {
		return 0, err
	}
	order = slices.DeleteFunc(order, func(n uint16) bool { return n == number || slices.Contains(ours, n) })
	if order, err = v.placed(order, number, at); err != nil {
		return 0, err
	}
	var raw []byte
	for _, n := range order {
		raw = le.AppendUint16(raw, n)
	}
	return number, v.write("BootOrder", raw)
}

// placed puts an entry into an order. Without an entry that the machine was booted by, all others stand before it.
func (v vars) placed(order []uint16, number uint16, at Place) ([]uint16, error) {
	if at == First {
		return slices.Insert(order, 0, number), nil
	}
	raw, err := v.read("BootCurrent")
	if errors.Is(err, os.ErrNotExist) || err == nil && len(raw) < 2 {
		return append(order, number), nil
	}
	if err != nil {
		return nil, err
	}
	booted := le.Uint16(raw)
	i := slices.Index(order, booted)
	if i < 0 { // it was chosen for once
		return slices.Insert(order, 0, booted, number), nil
	}
	return slices.Insert(order, i+1, number), nil
}

func entryName(n uint16) string { return fmt.Sprintf("Boot%04X", n) }

// loadOption builds an EFI_LOAD_OPTION.
func loadOption(label string, esp partition.Partition, sector int64, loader string) ([]byte, error) {
	guid, err := signature(esp.GUID)
	if err != nil {
		return nil, fmt.Errorf("boot entry for partition %d: %w", esp.Number, err)
	}
	hd := le.AppendUint32([]byte{4, 1, 42, 0}, uint32(esp.Number)) // media, hard drive
	hd = le.AppendUint64(hd, uint64(esp.Start/sector))
	hd = le.AppendUint64(hd, uint64(esp.Size/sector))
	hd = append(append(hd, guid...), 2, 2) // GPT, GUID signature
	name := utf16z(loader)
	file := append(le.AppendUint16([]byte{4, 4}, uint16(4+len(name))), name...)
	path := append(append(hd, file...), 0x7f, 0xff, 4, 0) // end of path
	out := le.AppendUint32(nil, active)
	out = le.AppendUint16(out, uint16(len(path)))
	return append(append(out, utf16z(label)...), path...), nil
}

func utf16z(s string) []byte {
	var out []byte
	for _, u := range append(utf16.Encode([]rune(s)), 0) {
		out = le.AppendUint16(out, u)
	}
	return out
}

// signature is the GUID in its binary, mixed-endian form.
func signature(guid string) ([]byte, error) {
	var a uint32
	var b, c, d uint16
	var e uint64
	if n, err := fmt.Sscanf(guid, "%08X-%04X-%04X-%04X-%012X", &a, &b, &c, &d, &e); n != 5 || err != nil {
		return nil, fmt.Errorf("%q is not a GUID", guid)
	}
	out := le.AppendUint32(nil, a)
	out = le.AppendUint16(le.AppendUint16(out, b), c)
	out = binary.BigEndian.AppendUint16(out, d)
	return append(out, binary.BigEndian.AppendUint64(nil, e)[2:]...), nil
}
