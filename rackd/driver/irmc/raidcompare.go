package irmc

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// differs says in what a logical drive differs from what was asked for, empty: in nothing. What the profile does not tell cannot be
// compared. Controllers round sizes.
func (w newDrive) differs(a adapter, d logicalDrive) string {
	var list []string
	if a.ID != w.Adapter {
		list = append(list, fmt.Sprintf("it is on %s, asked for was %s", a.ID, w.Adapter))
	}
	if string(d.RaidLevel) != w.Level {
		list = append(list, fmt.Sprintf("its RAID level is %q, asked for was %s", d.RaidLevel, w.Level))
	}
	want := slices.Sorted(slices.Values(w.Disks))
	if on := a.disksOf(d); len(on) > 0 && len(want) > 0 && !slices.Equal(on, want) {
		list = append(list, fmt.Sprintf("it lies on the disks %s, asked for were %s", strings.Join(on, ", "), strings.Join(want, ", ")))
	}
	if gib, known := d.Size.gib(); known && w.GiB > 0 && math.Abs(gib-float64(w.GiB)) > max(float64(w.GiB)/100, 1) {
		list = append(list, fmt.Sprintf("it has %.0f GiB, asked for were %d", gib, w.GiB))
	}
	if w.Name != "" && d.Name != "" && d.Name != w.Name {
		list = append(list, fmt.Sprintf("its name is %.60q, asked for was %q", d.Name, w.Name))
	}
	return strings.Join(list, "; ")
}

// shown is the RAID configuration that the profile shows; made are the disks of the request by the drives that they have become.
func (l layoutOf) shown(disks []any, made map[driveRef]int) map[string]any {
	list := []any{}
	for _, a := range l.adapters {
		for _, d := range a.LogicalDrives.LogicalDrive {
			disk := map[string]any{}
			if i, ours := made[driveRef{a.ID, d.Number}]; ours && i < len(disks) {
				disk = maps.Clone(disks[i].(map[string]any))
			}
			disk["id"], disk["name"], disk["controller"] = string(d.Number), d.Name, a.ID
			disk["raid_level"] = cmp.Or(levelNames[string(d.RaidLevel)], string(d.RaidLevel))
			if gib, known := d.Size.gib(); known {
				disk["size_gb"] = int64(math.Round(gib))
			}
			if on := a.disksOf(d); len(on) > 0 {
				disk["physical_disks"] = on
			}
			list = append(list, disk)
		}
	}
	if len(list) == 0 {
		return map[string]any{}
	}
	return map[string]any{"logical_disks": list, "last_updated": time.Now().UTC().Format(time.DateTime)}
}
