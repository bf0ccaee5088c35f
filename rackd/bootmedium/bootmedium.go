// Package bootmedium lays out the image that one boot of a ramdisk starts from: kernel, ramdisk, boot loader and the
// parameters of that boot. UEFI and BIOS start from the same image, shown as a CD or as a USB stick.
//
// It imports nothing of the project. Invariants: an image is made for each request and is never written anywhere. Kernel,
// ramdisk and boot loader stay in their files, of which the image shows the bytes (Image.ReadAt). What differs from boot
// to boot has a fixed size, so that each part of an image lies where it lay at the request before.
//
// The boot loader is GRUB, because Debian keeps it, and because one configuration serves both firmwares. UEFI finds it on
// a FAT volume, to which the boot catalogue (El Torito 1.0) and a partition table point: some BMCs show media as a CD,
// some as a USB stick. A BIOS starts GRUB's image by the catalogue, or by a boot sector. Per-boot files reach the agent in a
// second archive behind the ramdisk. So no driver for the drive is needed, and the medium may be gone once the kernel runs.
package bootmedium

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// File is a part of an image that stays where it is.
type File struct {
	io.ReaderAt
	Size int64
}

// OpenFile opens a file for an image; the caller closes it.
func OpenFile(path string) (File, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return File{}, nil, err
	}
	return File{f, info.Size()}, f, nil
}

// Contents is what one image holds.
type Contents struct {
	Kernel, Ramdisk File
	// Params are the words of the kernel's command line.
	Params []string
	// NetworkData is the node's network_data (Nova's network metadata, JSON); empty: the machine asks DHCP.
	NetworkData []byte
}

// Paths of an image. The agent finds NetworkDataFile in its root file system; cloud-init and ironic-python-agent find
// the same text on a volume that is labelled config-2.
const (
	kernelPath      = "boot/kernel"
	ramdiskPath     = "boot/ramdisk"
	archivePath     = "boot/own.cpio"
	menuPath        = "boot/grub/grub.cfg"
	markPath        = ".disk/info" // by which Debian's GRUB for CDs knows its medium
	networkDataPath = "openstack/latest/network_data.json"

	// NetworkDataFile is where the ramdisk's root file system has the node's network_data.
	NetworkDataFile = "etc/ironyard/network_data.json"
)

// Bounds of what differs from boot to boot.
const (
	menuSize = 8 << 10
	// MaxNetworkData is how many bytes of network_data an image takes.
	MaxNetworkData = 64 << 10
	// maxFile is the most that a record of ISO 9660 says of a file.
	maxFile = 1<<32 - 1
)

// ErrContents means that no image can hold what it is to hold.
var ErrContents = errors.New("the bootable image cannot be built")

// Image lays an image out. It opens nothing and reads nothing but what it is given.
func (l *Loader) Image(c Contents) (*Image, error) {
	menu, err := grubMenu(c.Params)
	if err != nil {
		return nil, err
	}
	switch {
	case len(c.NetworkData) > MaxNetworkData:
		return nil, fmt.Errorf("%w: network_data has %d bytes, and it takes %d", ErrContents, len(c.NetworkData), MaxNetworkData)
	case c.Kernel.Size == 0 || c.Ramdisk.Size == 0:
		return nil, fmt.Errorf("%w: kernel (%d bytes) or ramdisk (%d bytes) is empty", ErrContents, c.Kernel.Size, c.Ramdisk.Size)
	case c.Kernel.Size > maxFile || c.Ramdisk.Size > maxFile:
		return nil, fmt.Errorf("%w: kernel (%d bytes) or ramdisk (%d bytes) is too large for a CD", ErrContents, c.Kernel.Size, c.Ramdisk.Size)
	}
	v := newVolume("IRONYARD")
	if len(c.NetworkData) > 0 {
		v.label = "config-2"
		v.add(networkDataPath, bytesOf(c.NetworkData))
	}
	v.add(markPath, bytesOf([]byte("Ironyard ramdisk\n")))
	v.add(menuPath, bytesOf(menu))
	v.add(archivePath, bytesOf(archive(c.NetworkData)))
	v.add(kernelPath, []part{{c.Kernel, 0, c.Kernel.Size}})
	v.add(ramdiskPath, []part{{c.Ramdisk, 0, c.Ramdisk.Size}})
	v.bios, v.mbr, v.esp = l.bios, l.mbr, l.esp
	m, err := v.layOut()
	if err == nil {
		m.needs = c.Kernel.Size + c.Ramdisk.Size
	}
	return m, err
}

// LoadersParam is the word that GRUB adds to the kernel's command line.
const LoadersParam = "BOOT_IMAGE=/" + kernelPath

// grubMenu is GRUB's configuration: one entry, at once. It is padded to one size.
func grubMenu(params []string) ([]byte, error) {
	var b strings.Builder
	b.WriteString("set timeout=0\nset default=0\necho 'Ironyard: loading kernel and ramdisk from the medium'\n")
	b.WriteString("linux /" + kernelPath)
	for _, p := range params {
		if i := strings.IndexFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || r == '\'' || r == '\\' }); i >= 0 {
			return nil, fmt.Errorf("%w: the kernel parameter %q holds a character that GRUB's configuration cannot: %q", ErrContents, p, p[i])
		}
		// GRUB would put a backslash before a quote. Within a word the kernel reads quotes as nothing.
		b.WriteString(" '" + strings.ReplaceAll(p, `"`, "") + "'")
	}
	b.WriteString("\ninitrd /" + ramdiskPath + " /" + archivePath + "\nboot\n")
	if b.Len() > menuSize {
		return nil, fmt.Errorf("%w: its kernel parameters take %d bytes, and there is room for %d", ErrContents, b.Len(), menuSize)
	}
	b.WriteString(strings.Repeat("\n", menuSize-b.Len()))
	return []byte(b.String()), nil
}

// Image is an image as an io.ReaderAt. Safe for concurrent use as long as its files are.
type Image struct {
	parts []placed
	size  int64
	needs int64
}

// part is a stretch of a source.
type part struct {
	from io.ReaderAt
	at   int64
	size int64
}

// placed is a part at its place in the image. Between the parts there are zeros.
type placed struct {
	part
	start int64
}

// Size of the image in bytes.
func (m *Image) Size() int64 { return m.size }

// Needs is how many bytes at least are read of the image by a machine that boots from it.
func (m *Image) Needs() int64 { return m.needs }

// ReadAt implements io.ReaderAt.
func (m *Image) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("an image has no bytes before its first")
	}
	if off >= m.size {
		return 0, io.EOF
	}
	if rest := m.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	clear(p)
	first, _ := slices.BinarySearchFunc(m.parts, off, func(q placed, at int64) int {
		if q.start+q.size <= at {
			return -1
		}
		return 1
	})
	for _, q := range m.parts[first:] {
		if q.start >= off+int64(len(p)) {
			break
		}
		begin := max(off, q.start)
		end := min(off+int64(len(p)), q.start+q.size)
		into := p[begin-off : end-off]
		if got, e := q.from.ReadAt(into, q.at+begin-q.start); got < len(into) {
			if e == nil || e == io.EOF {
				e = io.ErrUnexpectedEOF // a file became shorter
			}
			return int(begin-off) + got, e
		}
	}
	return len(p), err
}

// bytesOf is a source of its own.
func bytesOf(b []byte) []part { return []part{{strings.NewReader(string(b)), 0, int64(len(b))}} }

func sizeOf(parts []part) (size int64) {
	for _, p := range parts {
		size += p.size
	}
	return size
}
