package irmc

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// raidLevel is a RAID level that an iRMC makes.
type raidLevel struct {
	irmc        string
	least, most int
	// data is how many of n disks hold data.
	data func(n int) int
	// spans: its disks lie in several arrays. Which, an iRMC chooses: python-scciclient names no disks of such levels.
	spans bool
}

// raidLevels are the levels by Ironic's names.
var raidLevels = map[string]raidLevel{
	"0":   {"0", 1, mostDisks, func(n int) int { return n }, false},
	"1":   {"1", 2, 2, func(int) int { return 1 }, false},
	"5":   {"5", 3, mostDisks, func(n int) int { return n - 1 }, false},
	"6":   {"6", 4, mostDisks, func(n int) int { return n - 2 }, false},
	"1+0": {"10", 4, mostDisks, func(n int) int { return n / 2 }, true},
	"5+0": {"50", 6, mostDisks, func(n int) int { return n - 2 }, true},
	"6+0": {"60", 8, mostDisks, func(n int) int { return n - 4 }, true},
}

// levelNames are Ironic's names by the iRMC's.
var levelNames = func() map[string]string {
	names := map[string]string{}
	for name, l := range raidLevels {
		names[l.irmc] = name
	}
	return names
}()

// checkDisks refuses logical disks that no iRMC makes by its eLCM, before anything is asked of it.
func checkDisks(n *node.Document, disks []any) error {
	wrong := func(i int, format string, args ...any) error {
		return driver.Refuse("node %s: logical disk %d: %s", n.Label(), i+1, fmt.Sprintf(format, args...))
	}
	for i, item := range disks {
		disk, _ := item.(map[string]any)
		name := textIn(disk, "raid_level")
		level, known := raidLevels[name]
		if !known {
			return wrong(i, "an iRMC makes no RAID level %s: give one of %s", name, strings.Join(slices.Sorted(maps.Keys(raidLevels)), ", "))
		}
		named, err := namedDisks(disk)
		if err != nil {
			return wrong(i, "%s", err.Error())
		}
		asked := wholeIn(disk, "number_of_physical_disks")
		count := max(asked, len(named))
		switch {
		case disk["share_physical_disks"] == true:
			return wrong(i, "an iRMC's eLCM puts no two logical disks on the same physical disks: leave out share_physical_disks")
		case len(named) > 0 && asked > 0 && asked != len(named):
			return wrong(i, "it names %d physical_disks, and number_of_physical_disks is %d: give one of the two", len(named), asked)
		case count > 0 && count < level.least:
			return wrong(i, "RAID level %s takes at least %d physical disks, not %d: give more", name, level.least, count)
		case count > level.most:
			return wrong(i, "RAID level %s takes at most %d physical disks, not %d: give fewer", name, level.most, count)
		case level.spans && (len(named) > 0 || textIn(disk, "disk_type") != "" || textIn(disk, "interface_type") != "" || count > level.least):
			return wrong(i, "an iRMC's eLCM chooses the disks of RAID level %s itself: "+
				"leave out physical_disks, number_of_physical_disks, disk_type and interface_type", name)
		}
	}
	return nil
}

// namedDisks are the numbers of the physical disks that a logical disk names.
func namedDisks(disk map[string]any) (list []string, err error) {
	all, _ := disk["physical_disks"].([]any)
	for _, item := range all {
		name, _ := item.(string)
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			return nil, fmt.Errorf("%.40q is no physical disk of an iRMC: give its number, such as \"0\"", fmt.Sprint(item))
		}
		if slices.Contains(list, name) {
			return nil, fmt.Errorf("it names the physical disk %s twice: name each once", name)
		}
		list = append(list, name)
	}
	return list, nil
}

// capacity is how many GiB the level holds on disks of those numbers. It has no bound where the sizes of all are unknown.
func (l raidLevel) capacity(numbers []string, disks []physicalDisk) float64 {
	smallest := math.Inf(1)
	for _, d := range disks {
		if gib, known := d.Size.gib(); known && slices.Contains(numbers, string(d.Number)) {
			smallest = min(smallest, gib)
		}
	}
	return smallest * float64(l.data(len(numbers)))
}

// textIn is a text of a logical disk, empty for anything else.
func textIn(disk map[string]any, key string) string { s, _ := disk[key].(string); return s }

// wholeIn is a whole number of a logical disk, 0 for anything else.
func wholeIn(disk map[string]any, key string) int {
	switch v := disk[key].(type) {
	case float64:
		return int(v)
	case json.Number:
		n, _ := v.Int64()
		return int(n)
	case int:
		return v
	}
	return 0
}
