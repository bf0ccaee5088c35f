package rackramdisk

import (
	"encoding/binary"
	"io"
	"os"
)

// archOf is the architecture that a kernel or a UEFI program is for, by its first bytes; empty: they do not say.
func archOf(path string) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return ""
	}
	return archIn(head[:n])
}

// Machines in the header of a PE file (Microsoft's PE format, "Machine types").
const (
	peAMD64 = 0x8664
	peARM64 = 0xaa64
)

// archIn reads the header of a PE file, which kernels with EFI's entry have too, or that of a plain kernel. X86's has "HdrS" at 0x202,
// and bit 0 of xloadflags at 0x236 where it has 64 bits (Documentation/arch/x86/boot.rst). Arm64's has "ARM\x64" at 56
// (Documentation/arch/arm64/booting.rst).
func archIn(head []byte) string {
	at := func(i int, text string) bool {
		return i >= 0 && i+len(text) <= len(head) && string(head[i:i+len(text)]) == text
	}
	if at(0, "MZ") && len(head) >= 0x40 {
		pe := int(binary.LittleEndian.Uint32(head[0x3c:]))
		if pe < len(head) && at(pe, "PE\x00\x00") && pe+6 <= len(head) {
			switch binary.LittleEndian.Uint16(head[pe+4:]) {
			case peAMD64:
				return X64
			case peARM64:
				return ARM64
			}
			return ""
		}
	}
	switch {
	case at(0x202, "HdrS") && len(head) > 0x237 && head[0x236]&1 != 0:
		return X64
	case at(56, "ARM\x64"):
		return ARM64
	}
	return ""
}
