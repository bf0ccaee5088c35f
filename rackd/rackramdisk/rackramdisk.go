// Package rackramdisk is the ramdisks that a rackd has, and which of them a node's machine boots: the rack's own, or one for the
// machine's architecture, for the node's resource class, or for both.
//
// It may import protocol/node and rackd/netboot/bootfiles. Invariants:
//   - The most specific ramdisk decides: one for class and architecture before one for the class, that before one for the
//     architecture, and the rack's own last. Where that lacks what a boot interface needs, the boot is refused, and no other is taken.
//   - For rescues it is the most specific one that has a ramdisk for rescues, with the kernel of the same.
//   - A machine of a known architecture is given nothing for another.
package rackramdisk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/netboot/bootfiles"
)

// Architectures in the words of a node's cpu_arch. There may be others, of which no program is known.
const (
	X64   = "x86_64"
	ARM64 = "aarch64"
)

// Ramdisk is one ramdisk for some machines.
type Ramdisk struct {
	Arch  string // of the machines; empty: any that the files are for
	Class string // resource class of the nodes; empty: any
	// Kernel and Initramfs are files, and RescueInitramfs is one with the same kernel. UKI and RescueUKI are files that firmware
	// starts. Empty: there is none.
	Kernel, Initramfs, RescueInitramfs, UKI, RescueUKI string
}

// Parse reads a ramdisk as operators write it: name=value, divided by commas.
func Parse(text string) (r Ramdisk, err error) {
	fields := map[string]*string{"arch": &r.Arch, "class": &r.Class, "kernel": &r.Kernel, "ramdisk": &r.Initramfs, "rescue-ramdisk": &r.RescueInitramfs,
		"uki": &r.UKI, "rescue-uki": &r.RescueUKI}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		into := fields[strings.TrimSpace(name)]
		switch {
		case into == nil:
			return r, fmt.Errorf("%q: there is no %q: give arch=, class=, kernel=, ramdisk=, rescue-ramdisk=, uki= and rescue-uki=", text, strings.TrimSpace(name))
		case *into != "":
			return r, fmt.Errorf("%q: %s is given twice", text, strings.TrimSpace(name))
		case strings.TrimSpace(value) == "":
			return r, fmt.Errorf("%q: %s has no value", text, strings.TrimSpace(name))
		}
		*into = strings.TrimSpace(value)
	}
	r.Arch = canonical(r.Arch)
	if err := r.check(); err != nil {
		return r, fmt.Errorf("%q: %w", text, err)
	}
	return r, nil
}

func (r Ramdisk) check() error {
	switch {
	case r.Arch == "" && r.Class == "":
		return errors.New("it is for all machines: give arch=, class= or both; the rack's own ramdisk is given by flags of its own")
	case (r.Kernel == "") != (r.Initramfs == ""):
		return errors.New("give both kernel= and ramdisk=, or neither")
	case r.Kernel == "" && r.UKI == "":
		return errors.New("it names no ramdisk: give kernel= and ramdisk=, uki=, or all of them")
	case r.RescueInitramfs != "" && r.Kernel == "":
		return errors.New("rescue-ramdisk= starts with the kernel of kernel=, which is missing")
	}
	return nil
}

// String says for which machines the ramdisk is.
func (r Ramdisk) String() string {
	var parts []string
	if r.Arch != "" {
		parts = append(parts, "arch="+r.Arch)
	}
	if r.Class != "" {
		parts = append(parts, "class="+r.Class)
	}
	if len(parts) == 0 {
		return "the rack's own ramdisk"
	}
	return "--ramdisk-for " + strings.Join(parts, ",")
}

// canonical is an architecture in the words of cpu_arch.
func canonical(arch string) string {
	switch arch = strings.ToLower(arch); arch {
	case "amd64":
		return X64
	case "arm64":
		return ARM64
	}
	return arch
}

// Shelf is a rack's ramdisks. Immutable once made but for what it remembers of the files, safe for concurrent use.
type Shelf struct {
	own     bootfiles.Paths
	all     []held // the rack's own first
	digests digests
}

type held struct {
	Ramdisk
	is string // the architecture that its files are for, as far as they say it
}

// New puts ramdisks beside the rack's own. It looks into files, to see for which architecture they are; one that cannot be read
// says nothing. Two for the same machines, and files for another architecture than is said, are errors.
func New(own bootfiles.Paths, more []Ramdisk) (*Shelf, error) {
	s := &Shelf{own: own, all: []held{{Ramdisk{Kernel: own.Kernel, Initramfs: own.Ramdisk, RescueInitramfs: own.RescueRamdisk, UKI: own.UKI, RescueUKI: own.RescueUKI}, archOf(own.Kernel)}}}
	for _, r := range more {
		if slices.ContainsFunc(s.all, func(h held) bool { return h.Arch == r.Arch && h.Class == r.Class }) {
			return nil, fmt.Errorf("%s is given twice", r)
		}
		h := held{Ramdisk: r, is: r.Arch}
		for _, path := range []string{r.Kernel, r.UKI, r.RescueUKI} {
			is := archOf(path)
			if is != "" && h.is != "" && is != h.is {
				return nil, fmt.Errorf("%s: %s is for %s, and the ramdisk for %s", r, path, is, h.is)
			}
			h.is = cmp.Or(h.is, is)
		}
		if h.is == "" && h.UKI != "" {
			h.is = X64 // what most are, where the file does not say it
		}
		s.all = append(s.all, h)
	}
	return s, nil
}

// More are the files of the ramdisks beside the rack's own, by the names under which machines fetch them.
func (s *Shelf) More() map[string]string {
	all := map[string]string{}
	for i, h := range s.all[1:] {
		uki, rescue := bootfiles.UKI, bootfiles.RescueUKI
		if h.is == ARM64 {
			uki, rescue = bootfiles.UKIARM64, bootfiles.RescueUKIARM64
		}
		for name, path := range map[string]string{bootfiles.Kernel: h.Kernel, bootfiles.Ramdisk: h.Initramfs, bootfiles.RescueRamdisk: h.RescueInitramfs, uki: h.UKI, rescue: h.RescueUKI} {
			if path != "" {
				all[bootfiles.Numbered(name, i+1)] = path
			}
		}
	}
	return all
}

// fits reports whether a ramdisk is for machines of a class and an architecture; an empty architecture is not known.
func (h held) fits(class, arch string) bool {
	if h.Class != "" && h.Class != class {
		return false
	}
	return h.is == "" || h.is == arch || arch == "" && h.Arch == ""
}

// special says how specific a ramdisk is.
func (h held) special() (n int) {
	if h.Class != "" {
		n += 2
	}
	if h.Arch != "" {
		n++
	}
	return n
}

// best returns the number of the most specific ramdisk for which has is true; -1: there is none.
func (s *Shelf) best(class, arch string, has func(held) bool) int {
	found := -1
	for i, h := range s.all {
		if h.fits(class, arch) && has(h) && (found < 0 || h.special() > s.all[found].special()) {
			found = i
		}
	}
	return found
}

func always(held) bool { return true }

// kernel is the number of the ramdisk whose kernel and initramfs a machine loads; -1: there is none.
func (s *Shelf) kernel(class, arch string, rescue bool) int {
	if rescue {
		return s.best(class, arch, func(h held) bool { return h.RescueInitramfs != "" })
	}
	return s.best(class, arch, always)
}

// Names are those of the files that a machine loads; empty: there is none for it.
type Names struct{ Kernel, Initramfs, RescueKernel, RescueInitramfs string }

// Names returns the files of a node's machine, by its class and architecture.
func (s *Shelf) Names(class, arch string) (n Names) {
	arch = canonical(arch)
	if i := s.kernel(class, arch, false); i >= 0 && s.all[i].Kernel != "" {
		n.Kernel, n.Initramfs = bootfiles.Numbered(bootfiles.Kernel, i), bootfiles.Numbered(bootfiles.Ramdisk, i)
	}
	if i := s.kernel(class, arch, true); i >= 0 {
		n.RescueKernel, n.RescueInitramfs = bootfiles.Numbered(bootfiles.Kernel, i), bootfiles.Numbered(bootfiles.RescueRamdisk, i)
	}
	return n
}

// program is the number of the ramdisk that firmware of an architecture starts, and its file; an empty file: there is none.
func (s *Shelf) program(class, arch string, rescue bool) (i int, file string) {
	of := func(i int) string {
		h := s.all[i]
		switch {
		case i == 0 && arch == ARM64:
			h.UKI, h.RescueUKI = s.own.UKIARM64, s.own.RescueUKIARM64
		case i == 0 && arch != X64:
			return ""
		}
		if rescue {
			return h.RescueUKI
		}
		return h.UKI
	}
	for j, h := range s.all {
		// The rack's own programs are for one architecture each, whatever its kernel is for. One for an architecture alone, without
		// a program, leaves them to these; so does any without a program for rescues.
		fits := j == 0 || h.fits(class, arch) && (of(j) != "" || h.Class != "" && !rescue)
		if fits && (j == 0 || h.special() > s.all[i].special()) {
			i = j
		}
	}
	return i, of(i)
}

// Program returns the number of the ramdisk that the firmware of a node's machine starts, by the node's class and the firmware's
// architecture. Where it has none, no file has its name.
func (s *Shelf) Program(class, arch string, rescue bool) int {
	i, _ := s.program(class, arch, rescue)
	return i
}

// Of are the class and the architecture of a node; empty: they are not known.
func Of(n *node.Document) (class, arch string) {
	arch, _ = n.Properties["cpu_arch"].(string)
	return n.ResourceClass, canonical(arch)
}

// Lacks says why there is no kernel and initramfs for a node's machine, or for its rescue; nil: there is.
func (s *Shelf) Lacks(n *node.Document, rescue bool) error {
	class, arch := Of(n)
	i := s.kernel(class, arch, rescue)
	switch {
	case i < 0 && rescue:
		return fmt.Errorf("this rackd has no ramdisk for rescues of %s (--rescue-ramdisk, or rescue-ramdisk= in --ramdisk-for)", machines(class, arch))
	case i < 0:
		return fmt.Errorf("this rackd's ramdisk is for %s, and the machine's cpu_arch is %s: give it one by --ramdisk-for arch=%s,kernel=FILE,ramdisk=FILE", s.all[0].is, arch, arch)
	case s.all[i].Kernel == "":
		return fmt.Errorf("%s has no kernel= and ramdisk=, and its uki= is for the boot interface http alone: add them, or use http", s.all[i].Ramdisk)
	}
	return nil
}

// Arch is the architecture of the kernel that a node's machine loads, or loads for its rescue; empty: the file does not say it, or there
// is none.
func (s *Shelf) Arch(n *node.Document, rescue bool) string {
	class, arch := Of(n)
	if i := s.kernel(class, arch, rescue); i >= 0 {
		return s.all[i].is
	}
	return ""
}

// LacksProgram is Lacks for a ramdisk as one program that firmware starts.
func (s *Shelf) LacksProgram(n *node.Document, rescue bool) error {
	class, arch := Of(n)
	asked := []string{arch}
	if arch == "" { // the firmware says it when it boots
		asked = []string{X64, ARM64}
	}
	special := 0
	for _, a := range asked {
		i, file := s.program(class, a, rescue)
		if file != "" {
			return nil
		}
		special = max(special, i)
	}
	flag, part := "--uki", "uki="
	if rescue {
		flag, part = "--rescue-uki", "rescue-uki="
	}
	if arch == ARM64 {
		flag += "-arm64"
	}
	if special > 0 {
		return fmt.Errorf("%s has no %s, a ramdisk as one program, which the boot interface http needs", s.all[special].Ramdisk, part)
	}
	return fmt.Errorf("this rackd has no ramdisk as one program for %s (rackd %s, or %s in --ramdisk-for), which the boot interface http needs", machines(class, arch), flag, part)
}

// machines names the machines of a class and an architecture.
func machines(class, arch string) string {
	text := "machines"
	if arch != "" {
		text = arch + " machines"
	}
	if class != "" {
		text += " of class " + class
	}
	return text
}
