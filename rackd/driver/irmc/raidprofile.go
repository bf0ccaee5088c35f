package irmc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
)

// The profile RAIDAdapter of the eLCM, as iRMCs of the kinds S4 to S6 write it: the RAID controllers of a machine, with their physical
// disks, the arrays of these, and the logical drives on the arrays.

// Bounds on what a profile may tell. The largest machines have a few hundred disks.
const (
	mostAdapters = 32
	mostDisks    = 1000
)

// numeral is a number that firmwares write as a number or as a text.
type numeral string

// UnmarshalJSON implements json.Unmarshaler.
func (n *numeral) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if text == "null" {
		return nil
	}
	if len(text) > 20 || strings.ContainsAny(text, "{}[]\\") {
		return fmt.Errorf("%.40q is no number", text)
	}
	*n = numeral(text)
	return nil
}

// many is a list that a firmware may write as its only element.
type many[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (m *many[T]) UnmarshalJSON(raw []byte) error {
	if text := strings.TrimSpace(string(raw)); !strings.HasPrefix(text, "{") {
		return json.Unmarshal(raw, (*[]T)(m))
	}
	var one T
	err := json.Unmarshal(raw, &one)
	*m = many[T]{one}
	return err
}

// capacity is a size. An iRMC's GB is a GiB: it shows 447 GB for a drive of 480 GB.
type capacity struct {
	Unit string  `json:"@Unit"`
	Text numeral `json:"#text"`
}

// gib is the size in GiB; ok is false for one that cannot be read.
func (c capacity) gib() (size float64, ok bool) {
	size, err := strconv.ParseFloat(string(c.Text), 64)
	if err != nil || !(size >= 0 && size <= 1<<40) { // NaN is neither
		return 0, false
	}
	factor, known := map[string]float64{"MB": 1.0 / 1024, "GB": 1, "TB": 1024, "PB": 1 << 20}[strings.ToUpper(c.Unit)]
	return size * factor, known
}

// reference names an array or a disk.
type reference struct {
	Number numeral `json:"@Number"`
}

// diskArray is disks that logical drives lie on.
type diskArray struct {
	Number           numeral `json:"@Number"`
	PhysicalDiskRefs struct{ PhysicalDiskRef many[reference] }
}

// logicalDrive is what Ironic calls a logical disk.
type logicalDrive struct {
	Number    numeral `json:"@Number"`
	RaidLevel numeral
	Name      string
	Size      capacity
	ArrayRefs struct{ ArrayRef many[reference] }
}

// physicalDisk is a drive of an adapter.
type physicalDisk struct {
	Number          numeral `json:"@Number"`
	Type, Interface string
	PDStatus        string
	Size            capacity
}

// adapter is a RAID controller.
type adapter struct {
	ID            string `json:"@AdapterId"`
	Features      struct{ RaidLevel string }
	Arrays        struct{ Array many[diskArray] }
	LogicalDrives struct{ LogicalDrive many[logicalDrive] }
	PhysicalDisks struct{ PhysicalDisk many[physicalDisk] }
}

// profileVersions are those of the profile that a machine has. Orders repeat them.
type profileVersions struct {
	Server string `json:"server,omitempty"`
	Part   string `json:"part,omitempty"`
}

// layoutOf is the adapters that a profile shows, and its versions.
type layoutOf struct {
	adapters []adapter
	versions profileVersions
}

// readLayout reads the profile RAIDAdapter. clean makes texts of it fit to show.
func readLayout(raw []byte, clean func(string) string) (l layoutOf, err error) {
	var p struct {
		Server struct {
			Version             numeral `json:"@Version"`
			HWConfigurationIrmc struct {
				Version  numeral `json:"@Version"`
				Adapters struct{ RAIDAdapter many[adapter] }
			}
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return l, fmt.Errorf("the profile RAIDAdapter cannot be read: %w", err)
	}
	l.versions = profileVersions{clean(string(p.Server.Version)), clean(string(p.Server.HWConfigurationIrmc.Version))}
	l.adapters = p.Server.HWConfigurationIrmc.Adapters.RAIDAdapter
	if len(l.adapters) == 0 {
		return l, fmt.Errorf("the profile RAIDAdapter shows no RAID controller: %w", driver.ErrUnsupported)
	}
	if len(l.adapters) > mostAdapters {
		return l, fmt.Errorf("the profile RAIDAdapter has %d adapters, and %d are read", len(l.adapters), mostAdapters)
	}
	for i, a := range l.adapters {
		if a.ID == "" || len(a.ID) > 100 || clean(a.ID) != a.ID {
			return l, fmt.Errorf("adapter %d of the profile RAIDAdapter has no name that can be read", i+1)
		}
		if n := a.most(); n > mostDisks {
			return l, fmt.Errorf("adapter %s has %d drives, and %d are read", a.ID, n, mostDisks)
		}
		l.adapters[i].clean(clean)
	}
	return l, nil
}

// most is how long its longest list is. Those of the disks of all arrays, and of the arrays of all drives, count as one each.
func (a adapter) most() int {
	disks, arrays := 0, 0
	for _, array := range a.Arrays.Array {
		disks += len(array.PhysicalDiskRefs.PhysicalDiskRef)
	}
	for _, d := range a.LogicalDrives.LogicalDrive {
		arrays += len(d.ArrayRefs.ArrayRef)
	}
	return max(len(a.PhysicalDisks.PhysicalDisk), len(a.Arrays.Array), len(a.LogicalDrives.LogicalDrive), disks, arrays)
}

// clean makes the texts of the adapter fit to show. Numbers may be texts.
func (a *adapter) clean(clean func(string) string) {
	number := func(n *numeral) { *n = numeral(clean(string(*n))) }
	a.Features.RaidLevel = clean(a.Features.RaidLevel)
	for i := range a.Arrays.Array {
		array := &a.Arrays.Array[i]
		number(&array.Number)
		for j := range array.PhysicalDiskRefs.PhysicalDiskRef {
			number(&array.PhysicalDiskRefs.PhysicalDiskRef[j].Number)
		}
	}
	for i := range a.LogicalDrives.LogicalDrive {
		d := &a.LogicalDrives.LogicalDrive[i]
		d.Name, d.Size.Unit = clean(d.Name), clean(d.Size.Unit)
		for _, n := range []*numeral{&d.Number, &d.RaidLevel, &d.Size.Text} {
			number(n)
		}
		for j := range d.ArrayRefs.ArrayRef {
			number(&d.ArrayRefs.ArrayRef[j].Number)
		}
	}
	for i := range a.PhysicalDisks.PhysicalDisk {
		d := &a.PhysicalDisks.PhysicalDisk[i]
		d.Type, d.Interface, d.PDStatus, d.Size.Unit = clean(d.Type), clean(d.Interface), clean(d.PDStatus), clean(d.Size.Unit)
		number(&d.Number)
		number(&d.Size.Text)
	}
}

// driveRef names a logical drive of a machine.
type driveRef struct {
	Adapter string  `json:"adapter"`
	Number  numeral `json:"number"`
}

// drives names all logical drives.
func (l layoutOf) drives() []driveRef {
	list := []driveRef{}
	for _, a := range l.adapters {
		for _, d := range a.LogicalDrives.LogicalDrive {
			list = append(list, driveRef{a.ID, d.Number})
		}
	}
	return list
}

// lacks is an adapter of one of these drives that the profile does not show, empty: it shows all.
func (l layoutOf) lacks(drives []driveRef) string {
	for _, d := range drives {
		if !slices.ContainsFunc(l.adapters, func(a adapter) bool { return a.ID == d.Adapter }) {
			return d.Adapter
		}
	}
	return ""
}

// disksOf are the disks that a logical drive lies on, sorted; nil where the profile does not tell.
func (a adapter) disksOf(d logicalDrive) (list []string) {
	for _, array := range a.Arrays.Array {
		if !slices.Contains(d.ArrayRefs.ArrayRef, reference{array.Number}) {
			continue
		}
		for _, disk := range array.PhysicalDiskRefs.PhysicalDiskRef {
			list = append(list, string(disk.Number))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// notFree are parts of the states of disks that no new drive is put on. Drives of Fujitsu's documents are Available when they are.
var notFree = []string{"fail", "missing", "spare", "rebuild", "unavailable", "foreign"}

// free are the disks that lie in no array, and are fit for a new drive.
func (a adapter) free() (list []physicalDisk) {
	used := map[numeral]bool{}
	for _, array := range a.Arrays.Array {
		for _, disk := range array.PhysicalDiskRefs.PhysicalDiskRef {
			used[disk.Number] = true
		}
	}
	for _, d := range a.PhysicalDisks.PhysicalDisk {
		status := strings.ToLower(d.PDStatus)
		if !used[d.Number] && !slices.ContainsFunc(notFree, func(part string) bool { return strings.Contains(status, part) }) {
			list = append(list, d)
		}
	}
	return list
}
