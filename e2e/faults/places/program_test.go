package places

import (
	"encoding/binary"
	"testing"

	"github.com/ironyard/ironyard/ops/uki"
)

// programFile is the name of the ramdisk as one program.
const programFile = "program.efi"

// program makes the ramdisk as one program, of a stub and a kernel that no processor runs. Its agent asks a rackd for the parameters of
// its boot.
func program(t *testing.T) []byte {
	t.Helper()
	kernel := make([]byte, 0x400)
	copy(kernel, "MZ")
	copy(kernel[0x202:], "HdrS")
	parts := uki.Parts{Stub: emptyStub(), Kernel: kernel, Initramfs: []byte("a ramdisk"), CommandLine: "quiet ironyard-boot-server=dhcp"}
	file, err := uki.Build(parts)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// emptyStub is the smallest program for x86-64 that has room for more sections.
func emptyStub() []byte {
	le, file := binary.LittleEndian, make([]byte, 0x600)
	copy(file, "MZ")
	le.PutUint32(file[60:], 64)
	copy(file[64:], "PE\x00\x00")
	h := le.AppendUint16(le.AppendUint16(nil, 0x8664), 1)
	h = append(h, make([]byte, 12)...)
	h = le.AppendUint16(le.AppendUint16(h, 240), 0x22)
	h = append(le.AppendUint16(h, 0x20b), 0, 0)
	for _, word := range []uint32{0x200, 0, 0, 0x1000, 0x1000, 0, 0, 0x1000, 0x200, 0, 0, 0, 0, 0x2000, 0x400, 0, 10,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 16} {
		h = le.AppendUint32(h, word)
	}
	h = append(append(h, make([]byte, 16*8)...), ".text\x00\x00\x00"...)
	for _, word := range []uint32{0x200, 0x1000, 0x200, 0x400, 0, 0, 0, 0x60000020} {
		h = le.AppendUint32(h, word)
	}
	copy(file[68:], h)
	return file
}
