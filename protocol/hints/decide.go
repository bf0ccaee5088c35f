package hints

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Rules are what a node says of its disks.
type Rules struct {
	Root  Hints                // which one gets the image
	Kept  Kept                 // which ones nothing is written to
	Known []agentapi.KnownDisk // what the last inspection found; nil: there was none; empty: it found no disk
	// VolumesChanged: the machine's RAID was changed, so disks that it has shown before may be gone on purpose. Decide does not ask.
	VolumesChanged bool
	// MinBytes is the least size of a disk that no hint asks for; 0: DefaultMinBytes.
	MinBytes int64
}

// Spared is a disk that a cleaning does not erase.
type Spared struct {
	Disk agentapi.Disk
	Why  string
}

// Decision says what becomes of each disk of a machine.
type Decision struct {
	// Image is where an image goes; it is valid if NoImage is nil.
	Image   agentapi.Disk
	NoImage error // a *NoDiskError
	Erased  []agentapi.Disk
	Spared  []Spared
	// Unerased are disks that a cleaning is to erase and nothing can be written to.
	Unerased []agentapi.UnfitDisk
	// NoErasure is a *NothingError where a cleaning finds no disk on a machine that is not known to have none.
	NoErasure error
}

// Cleaned returns why a machine is not clean once the disks of Erased are erased, nil if it is.
func (d Decision) Cleaned() error {
	if len(d.Unerased) > 0 {
		return &UnerasedError{d.Unerased}
	}
	return d.NoErasure
}

// Decide is the one place where disks are chosen: docs/disks.md has its rules as a table. disks
// are those that an image may go to, unfit the others, as agent/inventory lists them. It fails, and
// nothing may be written, if a disk of the last inspection is missing (*MissingError) or a kept disk
// cannot be told from the others (*UnknownError). The same disks give the same decision, in whichever
// order the machine found them.
func (r Rules) Decide(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) (Decision, error) {
	var d Decision
	if err := Missing(r.Known, disks); err != nil {
		return d, err
	}
	if err := r.Kept.check(disks, unfit); err != nil {
		return d, err
	}
	in := func(list []agentapi.Disk, disk agentapi.Disk) bool {
		return slices.ContainsFunc(list, func(o agentapi.Disk) bool { return o.Name == disk.Name })
	}
	all := slices.Clone(disks) // one that nothing can be written to may be a path to a disk that is kept
	for _, u := range unfit {
		all = append(all, u.Disk)
	}
	others := r.Kept.Others(all)
	open := slices.DeleteFunc(slices.Clone(disks), func(o agentapi.Disk) bool { return !in(others, o) })
	d.Image, d.NoImage = r.Root.Choose(open, r.MinBytes)
	usable := r.Root.Usable(all)
	for _, disk := range disks {
		erased := slices.IndexFunc(d.Erased, func(o agentapi.Disk) bool { return path(disk, o) })
		switch {
		case !in(open, disk):
			d.Spared = append(d.Spared, Spared{disk, "skip_block_devices keeps it"})
		case !in(usable, disk):
			d.Spared = append(d.Spared, Spared{disk, "it is removable, and no root device hint names it"})
		case erased >= 0:
			d.Spared = append(d.Spared, Spared{disk, "it is another path to " + d.Erased[erased].Name})
		default:
			d.Erased = append(d.Erased, disk)
		}
	}
	for _, u := range unfit {
		switch {
		case !in(others, u.Disk):
			d.Spared = append(d.Spared, Spared{u.Disk, "skip_block_devices keeps it"})
		case !in(usable, u.Disk):
			d.Spared = append(d.Spared, Spared{u.Disk, "it is removable, and no root device hint names it"})
		case slices.ContainsFunc(d.Erased, func(o agentapi.Disk) bool { return path(u.Disk, o) }):
			d.Spared = append(d.Spared, Spared{u.Disk, "it is another path to a disk that is erased"})
		default:
			d.Unerased = append(d.Unerased, u)
		}
	}
	kept, diskless := len(others) < len(all), r.Known != nil && len(r.Known) == 0
	if len(d.Erased)+len(d.Unerased) == 0 && !kept && !diskless {
		d.NoErasure = &NothingError{disks}
	}
	return d, nil
}

// Choose picks the disk to write to. minBytes counts only without hints; zero
// means DefaultMinBytes. The error is a *NoDiskError.
func (h Hints) Choose(disks []agentapi.Disk, minBytes int64) (agentapi.Disk, error) {
	if minBytes == 0 {
		minBytes = DefaultMinBytes
	}
	if len(h.rules) > 0 {
		minBytes = 0
	}
	fit := slices.DeleteFunc(h.Usable(disks), func(d agentapi.Disk) bool {
		return d.Size < minBytes || !h.Match(d)
	})
	if len(fit) == 0 {
		return agentapi.Disk{}, &NoDiskError{Hints: h, MinBytes: minBytes, Disks: disks}
	}
	return slices.MinFunc(fit, before), nil
}

// before orders disks that are equally fit: by size, then by what stays the same on each boot.
// The kernel's names follow the order in which disks appear, so they come last.
func before(a, b agentapi.Disk) int {
	return cmp.Or(cmp.Compare(a.Size, b.Size), named(a.ByPath, b.ByPath), named(a.Known().WWN, b.Known().WWN), named(a.Serial, b.Serial), natural(a.Name, b.Name))
}

// named puts what has a name in front of what has none.
func named(a, b string) int {
	if (a == "") != (b == "") {
		return -cmp.Compare(len(a), len(b))
	}
	return natural(a, b)
}

// natural compares texts whose numbers count as numbers: slot 2 comes before slot 10.
func natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}

// digits counts the digits at the beginning of s.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
