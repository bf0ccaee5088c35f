package irmc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
)

// newDrive is a logical drive as the iRMC is asked for it.
type newDrive struct {
	Adapter string `json:"adapter"`
	// Number is that of the order; the controller may give the drive another.
	Number int    `json:"number"`
	Array  int    `json:"array"`
	Level  string `json:"level"`
	// Disks are their numbers; none: the iRMC chooses.
	Disks []string `json:"disks,omitempty"`
	// GiB is the size, 0 for all that there is. Whole: it is all that its disks have, and the controller is told no size.
	GiB   int    `json:"gib,omitempty"`
	Whole bool   `json:"whole,omitempty"`
	Name  string `json:"name,omitempty"`
}

// plan chooses adapters and disks for the logical disks. Nothing that is there is touched.
func (l layoutOf) plan(disks []any) (list []newDrive, err error) {
	free := map[string][]physicalDisk{}
	for _, a := range l.adapters {
		free[a.ID] = a.free()
	}
	for i, item := range disks {
		disk, _ := item.(map[string]any)
		drive, err := l.place(disk, free, list)
		if err != nil {
			return nil, fmt.Errorf("logical disk %d: %w", i+1, err)
		}
		list = append(list, drive)
	}
	return list, nil
}

// place chooses for one logical disk, and takes its disks out of free.
func (l layoutOf) place(disk map[string]any, free map[string][]physicalDisk, before []newDrive) (newDrive, error) {
	want, level := textIn(disk, "controller"), raidLevels[textIn(disk, "raid_level")]
	var wrong []string
	for _, a := range l.adapters {
		if want != "" && want != a.ID {
			continue
		}
		if levels := a.Features.RaidLevel; levels != "" && !slices.Contains(strings.Split(levels, ","), level.irmc) {
			wrong = append(wrong, fmt.Sprintf("%s makes the RAID levels %s only", a.ID, levels))
			continue
		}
		chosen, err := choose(disk, level, free[a.ID])
		if err != nil {
			wrong = append(wrong, a.ID+" "+err.Error())
			continue
		}
		most := level.capacity(chosen, free[a.ID])
		free[a.ID] = slices.DeleteFunc(free[a.ID], func(d physicalDisk) bool { return slices.Contains(chosen, string(d.Number)) })
		drive := newDrive{Adapter: a.ID, Level: level.irmc, Disks: chosen, GiB: wholeIn(disk, "size_gb"), Name: textIn(disk, "volume_name")}
		drive.Whole = drive.GiB > 0 && float64(drive.GiB) == math.Floor(most)
		if level.spans {
			drive.Disks = nil
		}
		drive.Number, drive.Array = a.numbers(before)
		return drive, nil
	}
	if len(wrong) == 0 && want != "" {
		var names []string
		for _, a := range l.adapters {
			names = append(names, a.ID)
		}
		return newDrive{}, fmt.Errorf("there is no controller %.60q, give one of %q: %w", want, names, driver.ErrInvalid)
	}
	if len(wrong) == 0 {
		return newDrive{}, fmt.Errorf("the iRMC shows no RAID controller: %w", driver.ErrUnsupported)
	}
	return newDrive{}, fmt.Errorf("%s: %w", strings.Join(wrong, "; "), driver.ErrInvalid)
}

// numbers are those of a new drive and its array: none that the adapter, or an order before, has.
func (a adapter) numbers(before []newDrive) (drive, array int) {
	for _, d := range a.LogicalDrives.LogicalDrive {
		drive = above(drive, d.Number)
	}
	for _, r := range a.Arrays.Array {
		array = above(array, r.Number)
	}
	for _, d := range before {
		if d.Adapter == a.ID {
			drive, array = max(drive, d.Number+1), max(array, d.Array+1)
		}
	}
	return drive, array
}

func above(least int, n numeral) int {
	if v, err := strconv.Atoi(string(n)); err == nil {
		return max(least, v+1)
	}
	return least
}

// choose chooses disks of one type, the first that are large enough. Where no number is asked for, it takes the fewest that hold the size.
func choose(disk map[string]any, level raidLevel, free []physicalDisk) ([]string, error) {
	named, _ := namedDisks(disk)
	size, asked := wholeIn(disk, "size_gb"), wholeIn(disk, "number_of_physical_disks")
	if len(named) > 0 {
		return chooseNamed(named, disk, level, free)
	}
	byType := map[string][]physicalDisk{}
	var types []string
	for _, d := range free {
		if !fits(textIn(disk, "disk_type"), d.Type) || !fits(textIn(disk, "interface_type"), d.Interface) {
			continue
		}
		if kind := d.Type + " " + d.Interface; byType[kind] == nil {
			types = append(types, kind)
		}
		byType[d.Type+" "+d.Interface] = append(byType[d.Type+" "+d.Interface], d)
	}
	for _, kind := range types {
		first, last := level.least, min(level.most, len(byType[kind]))
		switch {
		case asked > 0:
			first, last = asked, min(asked, last)
		case level.spans || size == 0:
			last = min(level.least, last)
		}
		for count := first; count <= last; count++ {
			if list := largeEnough(byType[kind], count, size, level); list != nil {
				return list, nil
			}
		}
	}
	return nil, fmt.Errorf("has no %d free disks of one type for RAID level %s with %d GiB; free are %s: "+
		"name fewer or other disks, or delete logical drives first", max(asked, level.least), level.irmc, size, described(free))
}

// largeEnough are the first disks that together hold a size, nil if there are too few.
func largeEnough(disks []physicalDisk, count, size int, level raidLevel) (list []string) {
	for _, d := range disks {
		if gib, known := d.Size.gib(); size > 0 && known && gib*float64(level.data(count)) < float64(size) {
			continue
		}
		if list = append(list, string(d.Number)); len(list) == count {
			return list
		}
	}
	return nil
}

// chooseNamed takes the disks that are named, if they are free, of one type and large enough.
func chooseNamed(named []string, disk map[string]any, level raidLevel, free []physicalDisk) ([]string, error) {
	kind, size := "", wholeIn(disk, "size_gb")
	for i, name := range named {
		at := slices.IndexFunc(free, func(d physicalDisk) bool { return string(d.Number) == name })
		if at < 0 {
			return nil, fmt.Errorf("has no free disk %s; free are %s: name others, or delete logical drives first", name, described(free))
		}
		if d := free[at]; !fits(textIn(disk, "disk_type"), d.Type) || !fits(textIn(disk, "interface_type"), d.Interface) {
			return nil, fmt.Errorf("has at %s a disk of the type %s at %s, which is not that of the request: "+
				"leave out disk_type and interface_type, or name other disks", name, cmp.Or(d.Type, "none"), cmp.Or(d.Interface, "none"))
		}
		if i > 0 && free[at].Type != kind {
			return nil, fmt.Errorf("has disks of different types, %s and %s, at %s: name disks of one type",
				kind, free[at].Type, strings.Join(named, ", "))
		}
		kind = free[at].Type
	}
	if most := level.capacity(named, free); float64(size) > most {
		return nil, fmt.Errorf("has %.0f GiB on the disks %s for RAID level %s, and %d are asked for: ask for less, or name more disks",
			most, strings.Join(named, ", "), level.irmc, size)
	}
	return named, nil
}

// fits compares a property that a logical disk asks for.
func fits(want, is string) bool { return want == "" || strings.EqualFold(want, is) }

// described lists disks for people.
func described(disks []physicalDisk) string {
	const most = 40
	var list []string
	for _, d := range disks[:min(most, len(disks))] {
		list = append(list, fmt.Sprintf("%s (%s%s %s)", d.Number, d.Size.Text, d.Size.Unit, cmp.Or(d.Type, "of no type")))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
