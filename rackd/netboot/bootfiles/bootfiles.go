// Package bootfiles is the short list of files that machines may fetch before they
// are anybody: boot programs, kernel and ramdisk. TFTP and HTTP serve from it and
// from nowhere else.
//
// It imports nothing of the project. Names are keys of a map, never paths, so
// there is no traversal to guard against.
package bootfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names under which kernel and ramdisk are served.
const (
	Kernel  = "kernel"
	Ramdisk = "ramdisk"
	// RescueRamdisk is that of rescues, which a rack may do without.
	RescueRamdisk = "rescue-ramdisk"
	// UKI is kernel, ramdisk and command line as one program that firmware starts; RescueUKI that of rescues. A rack may do
	// without both.
	UKI       = "ramdisk.efi"
	RescueUKI = "rescue-ramdisk.efi"
	// UKIARM64 and RescueUKIARM64 are those for arm64.
	UKIARM64       = "ramdisk-arm64.efi"
	RescueUKIARM64 = "rescue-ramdisk-arm64.efi"
	// Shim and GRUB start on UEFI, with Microsoft's keys too; PXELinux and its core on BIOS. They are served where rackd is told to.
	// Shim looks for GRUB by this name, and pxelinux for its core by that one.
	Shim         = "shimx64.efi"
	GRUB         = "grubx64.efi"
	PXELinux     = "pxelinux.0"
	PXELinuxCore = "ldlinux.c32"
)

// Programs are the boot programs that are served when the folder has them.
var Programs = []string{"undionly.kpxe", "ipxe.efi", "snponly.efi", "ipxe-arm64.efi", "snponly-arm64.efi"}

// Files maps names to paths. It is immutable once made.
type Files struct{ paths map[string]string }

// Paths are those of the files that were built for machines to boot. Of these only Kernel and Ramdisk may not be empty.
type Paths struct {
	Kernel, Ramdisk, RescueRamdisk, UKI, RescueUKI, UKIARM64, RescueUKIARM64 string
	// Loaders are those of boot loaders, by the names above.
	Loaders map[string]string
	// More are those of further ramdisks, by their Numbered names.
	More map[string]string
}

// New lists the files: those with a path must exist, and of the programs at least one.
func New(programs string, built Paths) (*Files, error) {
	f := &Files{paths: map[string]string{Kernel: built.Kernel, Ramdisk: built.Ramdisk}}
	for name, path := range map[string]string{RescueRamdisk: built.RescueRamdisk, UKI: built.UKI, RescueUKI: built.RescueUKI,
		UKIARM64: built.UKIARM64, RescueUKIARM64: built.RescueUKIARM64} {
		if path != "" {
			f.paths[name] = path
		}
	}
	maps.Copy(f.paths, built.More)
	for name, path := range built.Loaders {
		if !exists(path) {
			return nil, fmt.Errorf("the boot loader %s: %q is no file; Debian's packages shim-signed, grub-efi-amd64-signed, pxelinux and syslinux-common have them", name, path)
		}
		f.paths[name] = path
	}
	boots := len(f.paths)
	for name, path := range f.paths {
		if !exists(path) {
			return nil, fmt.Errorf("the %s to boot machines with: %q is no file; `ironyard ramdisk build` makes it", unnumbered(name), path)
		}
	}
	for _, name := range Programs {
		if path := filepath.Join(programs, name); exists(path) {
			f.paths[name] = path
		}
	}
	if len(f.paths) == boots {
		return nil, fmt.Errorf("no boot program (%s and the like) in %s; Debian's package ipxe has them", Programs[0], programs)
	}
	return f, nil
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Program returns the program that firmware starts, of the ramdisk or that of rescues, for an architecture.
func Program(rescue, arm64 bool) string {
	switch {
	case rescue && arm64:
		return RescueUKIARM64
	case rescue:
		return RescueUKI
	case arm64:
		return UKIARM64
	}
	return UKI
}

// Numbered names a file of a further ramdisk: number 0 is the rack's own, whose names are as they are. A program's name keeps its
// ending, which firmware looks at.
func Numbered(name string, number int) string {
	if number == 0 {
		return name
	}
	stem, ending := strings.TrimSuffix(name, programEnding), ""
	if stem != name {
		ending = programEnding
	}
	return stem + numberMark + strconv.Itoa(number) + ending
}

const (
	programEnding = ".efi"
	numberMark    = "-r"
)

// unnumbered is a name without what Numbered adds.
func unnumbered(name string) string {
	stem, isProgram := strings.CutSuffix(name, programEnding)
	if i := strings.LastIndex(stem, numberMark); i > 0 {
		if _, err := strconv.Atoi(stem[i+len(numberMark):]); err == nil {
			stem = stem[:i]
		}
	}
	if isProgram {
		stem += programEnding
	}
	return stem
}

// IsProgram reports whether a file is a program that firmware starts.
func IsProgram(name string) bool {
	return slices.Contains([]string{UKI, RescueUKI, UKIARM64, RescueUKIARM64}, name)
}

// Has reports whether there is a file of that name.
func (f *Files) Has(name string) bool { return f.paths[name] != "" }

// mark stands between a file's name and what Now adds.
const mark = ".at-"

// Now names a file as it is now: by that name Open opens it until it is replaced, and nothing then. So a machine that loads kernel and
// ramdisk one after the other gets those of one build.
func (f *Files) Now(name string) string {
	info, err := os.Stat(f.paths[name])
	if err != nil {
		return name
	}
	return name + mark + stamp(info)
}

// Plain is a name without what Now and Numbered add.
func Plain(name string) string {
	plain, _, _ := strings.Cut(name, mark)
	return unnumbered(plain)
}

// stamp changes with each build.
func stamp(info os.FileInfo) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", info.Size(), info.ModTime().UnixNano()))
	return hex.EncodeToString(sum[:6])
}

// Open opens the file of that name, plain or as Now makes it; os.ErrNotExist when there is none.
func (f *Files) Open(name string) (*os.File, error) {
	plain, wants, stamped := strings.Cut(name, mark)
	path, ok := f.paths[plain]
	if !ok {
		return nil, fmt.Errorf("boot file %q: %w", name, os.ErrNotExist)
	}
	file, err := os.Open(path)
	if err != nil || !stamped {
		return file, err
	}
	info, err := file.Stat()
	if err == nil && stamp(info) != wants {
		err = fmt.Errorf("boot file %q was replaced: %w", plain, os.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
