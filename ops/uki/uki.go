package uki

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// MaxCommandLine is what Linux reads of its command line on x86.
const MaxCommandLine = 2047

// Parts are what a unified kernel image consists of.
type Parts struct {
	// Stub is the program that starts the kernel: systemd's linuxx64.efi.stub.
	Stub []byte
	// Kernel is a bzImage with an EFI entry, Initramfs its archive.
	Kernel, Initramfs []byte
	// CommandLine is what the kernel gets. Under secure boot it gets no other.
	CommandLine string
	// OSRelease is text in the form of os-release(5), for people and tools.
	OSRelease string
}

// section is one of the parts, by the name under which the stub looks for it.
type section struct {
	name string
	data []byte
}

// Build lays the parts out as one program. Errors say which part does not fit.
func Build(p Parts) ([]byte, error) {
	if len(p.CommandLine) > MaxCommandLine {
		return nil, fmt.Errorf("making a unified kernel image: the command line has %d bytes, and the kernel reads %d", len(p.CommandLine), MaxCommandLine)
	}
	for _, b := range []byte(p.CommandLine) {
		if b < ' ' || b > '~' {
			return nil, errors.New("making a unified kernel image: the command line has characters that are not printable ASCII")
		}
	}
	if len(p.Initramfs) == 0 {
		return nil, errors.New("making a unified kernel image: the initramfs is empty")
	}
	stub, err := parse(p.Stub)
	if err != nil {
		return nil, fmt.Errorf("making a unified kernel image: the stub: %w", err)
	}
	if machine := le.Uint16(stub.raw[stub.pe+4:]); !startsOn(p.Kernel, machine) {
		return nil, fmt.Errorf("making a unified kernel image: the kernel is none that the stub, of machine %#x, can start: it takes a bzImage or an arm64 Image, each with an EFI entry", machine)
	}
	// The kernel comes last: stubs that start it where it lies let it use the memory behind it.
	out, err := stub.add([]section{{".osrel", []byte(p.OSRelease)}, {".cmdline", []byte(p.CommandLine)}, {".initrd", p.Initramfs}, {".linux", p.Kernel}})
	if err != nil {
		return nil, fmt.Errorf("making a unified kernel image: %w", err)
	}
	return out, nil
}

// Offsets within a PE file (Microsoft's PE format, COFF header and optional header of PE32+).
const (
	offSections  = 6 // from "PE\0\0"
	offSymbols   = 12
	offOptSize   = 20
	optional     = 24
	offInitData  = optional + 8
	offSecAlign  = optional + 32
	offFileAlign = optional + 36
	offImage     = optional + 56
	offHeaders   = optional + 60
	offChecksum  = optional + 64
	offDirs      = optional + 108
	offSecurity  = optional + 112 + 4*8
	sectionSize  = 40
	// pageSize is what new sections begin at: memory is protected in pages.
	pageSize = 4096
	// readable and initialised data.
	dataSection = 0x40000040
)

var le = binary.LittleEndian

// program is a PE32+ file whose headers have been checked.
type program struct {
	raw []byte
	pe  int // where "PE\0\0" is
	// table is where the section headers are, sections how many.
	table, sections int
	// end is where the last section's bytes end in the file, memory where it ends in memory.
	end, memory uint64
}

func (p program) u32(at int) uint32 { return le.Uint32(p.raw[p.pe+at:]) }

// Machines, by their numbers in PE files.
const (
	amd64 = 0x8664
	arm64 = 0xaa64
)

// startsOn reports whether a kernel is one with an EFI entry for a machine.
func startsOn(kernel []byte, machine uint16) bool {
	if len(kernel) < 0x206 || string(kernel[:2]) != "MZ" {
		return false
	}
	if machine == arm64 {
		return string(kernel[56:60]) == "ARM\x64" // Linux, Documentation/arm64/booting
	}
	return string(kernel[0x202:0x206]) == "HdrS"
}

// parse checks the headers of a program for x86-64 or arm64.
func parse(raw []byte) (p program, err error) {
	bad := func(format string, args ...any) (program, error) { return p, fmt.Errorf(format, args...) }
	if len(raw) < 64 || raw[0] != 'M' || raw[1] != 'Z' {
		return bad("no PE file")
	}
	at := le.Uint32(raw[60:])
	if uint64(at)+offSecurity+8 > uint64(len(raw)) || string(raw[at:at+4]) != "PE\x00\x00" {
		return bad("no PE file")
	}
	p = program{raw: raw, pe: int(at)}
	if machine := le.Uint16(raw[p.pe+4:]); machine != amd64 && machine != arm64 || le.Uint16(raw[p.pe+optional:]) != 0x20b {
		return bad("machine %#x: not a PE32+ program for x86-64 or arm64", machine)
	}
	p.sections = int(le.Uint16(raw[p.pe+offSections:]))
	p.table = p.pe + optional + int(le.Uint16(raw[p.pe+offOptSize:]))
	headers := uint64(p.u32(offHeaders))
	if p.u32(offDirs) < 5 || headers > uint64(len(raw)) || uint64(p.table+p.sections*sectionSize) > headers {
		return bad("its headers do not fit")
	}
	for _, align := range []uint32{p.u32(offSecAlign), p.u32(offFileAlign)} {
		if align == 0 || align&(align-1) != 0 || align > 1<<16 {
			return bad("it aligns sections to %d bytes", align)
		}
	}
	p.end, p.memory = headers, headers
	for i := range p.sections {
		h := raw[p.table+i*sectionSize:]
		p.memory = max(p.memory, uint64(le.Uint32(h[12:]))+uint64(max(le.Uint32(h[8:]), le.Uint32(h[16:]))))
		if size := le.Uint32(h[16:]); size > 0 {
			p.end = max(p.end, uint64(le.Uint32(h[20:]))+uint64(size))
		}
	}
	if p.end > uint64(len(raw)) {
		return bad("it is cut: sections end at %d, the file at %d", p.end, len(raw))
	}
	return p, nil
}

// add returns the program with further sections. Symbols, which no firmware reads, are left out.
func (p program) add(more []section) ([]byte, error) {
	if p.u32(offSecurity+4) != 0 {
		return nil, errors.New("the stub is signed already")
	}
	headers := p.table + (p.sections+len(more))*sectionSize
	if headers > int(p.u32(offHeaders)) || !padding(p.raw[p.table+p.sections*sectionSize:headers]) {
		return nil, fmt.Errorf("the stub has no room for %d more section headers", len(more))
	}
	fileAlign := uint64(p.u32(offFileAlign))
	out := append(bytes.Clone(p.raw[:p.end]), make([]byte, aligned(p.end, fileAlign)-p.end)...)
	memory, data := p.memory, uint64(p.u32(offInitData))
	for i, s := range more {
		memory = aligned(memory, pageSize)
		size := aligned(uint64(len(s.data)), fileAlign)
		h := out[p.table+(p.sections+i)*sectionSize:][:sectionSize]
		clear(h)
		at := uint64(len(out))
		if memory+size >= 1<<31 || at+size >= 1<<31 {
			return nil, fmt.Errorf("part %s makes it larger than 2 GiB", s.name)
		}
		copy(h[:8], s.name)
		le.PutUint32(h[8:], uint32(len(s.data)))
		le.PutUint32(h[12:], uint32(memory))
		le.PutUint32(h[16:], uint32(size))
		le.PutUint32(h[20:], uint32(at))
		le.PutUint32(h[36:], dataSection)
		out = append(append(out, s.data...), make([]byte, size-uint64(len(s.data)))...)
		memory, data = memory+uint64(len(s.data)), data+size
	}
	le.PutUint16(out[p.pe+offSections:], uint16(p.sections+len(more)))
	le.PutUint64(out[p.pe+offSymbols:], 0) // where they are, and how many
	le.PutUint32(out[p.pe+offInitData:], uint32(data))
	le.PutUint32(out[p.pe+offImage:], uint32(aligned(memory, max(uint64(p.u32(offSecAlign)), pageSize))))
	sum(out, p.pe+offChecksum)
	return out, nil
}

// padding reports whether nothing is there: zeros or, in stubs for arm64, instructions that do nothing.
func padding(raw []byte) bool {
	zeros := !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 })
	return zeros || len(raw)%4 == 0 && bytes.Equal(raw, bytes.Repeat([]byte{0x1f, 0x20, 0x03, 0xd5}, len(raw)/4))
}

func aligned(n, to uint64) uint64 { return (n + to - 1) / to * to }

// sum writes the file's checksum, which is of all but itself.
func sum(raw []byte, at int) {
	le.PutUint32(raw[at:], 0)
	var n uint32
	for i := 0; i < len(raw); i += 2 {
		word := uint32(raw[i])
		if i+1 < len(raw) {
			word |= uint32(raw[i+1]) << 8
		}
		n += word
		n = n&0xffff + n>>16
	}
	le.PutUint32(raw[at:], n+uint32(len(raw)))
}
