package diskwatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// LeftError says that disks which the machine has shown since the agent began are gone.
type LeftError struct{ Left []agentapi.Disk }

func (e *LeftError) Error() string {
	var list []string
	for _, d := range e.Left {
		k := d.Known()
		list = append(list, fmt.Sprintf("%s (serial %q, WWN %q, %d bytes)", d.Name, k.Serial, k.WWN, k.Size))
	}
	return fmt.Sprintf("disks that this machine has shown since its ramdisk began are gone: %s; nothing is written: look at these disks, their cables and their controllers, or start the ramdisk again if they were taken out on purpose",
		strings.Join(list, ", "))
}

// FaultType names the error in the agent's API as ironic-python-agent does.
func (e *LeftError) FaultType() string { return "DeviceNotFound" }

// shown is which disks a machine has shown. Removable ones come and go, so they are left out.
type shown struct {
	named []agentapi.Disk // one of the paths to each
	// unnamed are the most disks of one size that were there at once, where one of them had neither serial number nor WWN. The kernel may
	// tell these late. So they are counted, not compared.
	unnamed map[int64]most
}

type most struct {
	n     int
	disks []agentapi.Disk // those without a name, of that look
}

// note remembers what one look has shown.
func (s *shown) note(disks []agentapi.Disk) {
	without := map[int64][]agentapi.Disk{}
	for _, d := range disks {
		if d.Removable {
			continue
		}
		if nameless(d) {
			without[d.Size] = append(without[d.Size], d)
			continue
		}
		i := slices.IndexFunc(s.named, func(o agentapi.Disk) bool { return one(o, d) })
		if i < 0 {
			s.named = append(s.named, d)
			continue
		}
		known := s.named[i] // the kernel may tell the serial number first, and the WWN later
		s.named[i] = d
		s.named[i].Serial = cmp.Or(d.Serial, known.Serial)
		if d.Known().WWN == "" {
			s.named[i].WWN, s.named[i].WWNWithExtension = known.WWN, known.WWNWithExtension
		}
	}
	for size, list := range without {
		if n := count(disks, size); n > s.unnamed[size].n {
			if s.unnamed == nil {
				s.unnamed = map[int64]most{}
			}
			s.unnamed[size] = most{n, list}
		}
	}
}

// left is a *LeftError for the disks that are no longer there, nil if all are.
func (s *shown) left(disks []agentapi.Disk, unfit []agentapi.UnfitDisk) error {
	there := slices.Clone(disks)
	for _, u := range unfit { // hints.Rules judges it, so it is not missed
		there = append(there, u.Disk)
	}
	var gone []agentapi.Disk
	named := map[int64]int{} // how many of gone have this size
	for _, d := range s.named {
		if !slices.ContainsFunc(there, func(o agentapi.Disk) bool { return one(d, o) }) {
			gone = append(gone, d)
			named[d.Size]++
		}
	}
	for size, m := range s.unnamed {
		if count(there, size)+named[size] < m.n {
			gone = append(gone, m.disks...)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.SortFunc(gone, func(a, b agentapi.Disk) int { return strings.Compare(a.Name, b.Name) })
	return &LeftError{gone}
}

func nameless(d agentapi.Disk) bool { return d.Serial == "" && d.Known().WWN == "" }

// one reports whether two devices are one disk, or paths to it. Makers have given many disks one WWN: another serial number is another
// disk. A disk that shows no name at the moment may be any of its size.
func one(a, b agentapi.Disk) bool {
	k, o := a.Known(), b.Known()
	switch {
	case k.Serial != "" && o.Serial != "" && !strings.EqualFold(k.Serial, o.Serial):
		return false
	case k.WWN != "" && o.WWN != "":
		return strings.EqualFold(k.WWN, o.WWN)
	case k.Serial != "" && o.Serial != "":
		return true
	}
	return k.Size == o.Size
}

// count counts the disks of a size, each once however many paths it has.
func count(disks []agentapi.Disk, size int64) int {
	var each []agentapi.Disk
	for _, d := range disks {
		if d.Size != size || d.Removable {
			continue
		}
		if nameless(d) || !slices.ContainsFunc(each, func(o agentapi.Disk) bool { return !nameless(o) && one(o, d) }) {
			each = append(each, d)
		}
	}
	return len(each)
}
