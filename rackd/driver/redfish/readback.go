package redfish

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// olderTypes are the RAID types of volumes that tell none, by the type that BMCs of before told.
var olderTypes = map[string]string{"NonRedundant": "RAID0", "Mirrored": "RAID1", "StripedWithParity": "RAID5", "SpannedMirrors": "RAID10",
	"SpannedStripesWithParity": "RAID50"}

// level is the volume's RAID type, empty for one that the BMC does not tell.
func (v volume) level() string { return cmp.Or(v.RAIDType, olderTypes[v.VolumeType]) }

// differs says in which of what was asked for a volume is another, empty: in nothing. What the BMC does not tell of a
// volume cannot be compared. Controllers round sizes.
func (v volume) differs(w wanted) string {
	var list []string
	if l := v.level(); l != "" && l != w.Level {
		list = append(list, fmt.Sprintf("its level is %s, asked for was %s", l, w.Level))
	}
	if w.Bytes > 0 && v.CapacityBytes > 0 && max(v.CapacityBytes-w.Bytes, w.Bytes-v.CapacityBytes) > max(w.Bytes/100, 1<<30) {
		list = append(list, fmt.Sprintf("it has %d bytes, asked for were %d", v.CapacityBytes, w.Bytes))
	}
	if on := v.Links.Drives; len(on) > 0 && !sameDrives(on, w.Drives) {
		list = append(list, fmt.Sprintf("it lies on %s, asked for was %s", paths(on), paths(w.Drives)))
	}
	if w.Name != "" && v.Name+v.DisplayName != "" && v.Name != w.Name && v.DisplayName != w.Name {
		list = append(list, fmt.Sprintf("its name is %q, asked for was %q", cmp.Or(v.DisplayName, v.Name), w.Name))
	}
	return strings.Join(list, "; ")
}

// sameDrives compares drives by their ids: a BMC may show one drive at several places.
func sameDrives(a, b []ref) bool {
	ids := func(list []ref) (ids []string) {
		for _, d := range list {
			ids = append(ids, path.Base(d.Path))
		}
		slices.Sort(ids)
		return ids
	}
	return slices.Equal(ids(a), ids(b))
}

func paths(list []ref) string {
	var names []string
	for _, d := range list {
		names = append(names, d.Path)
	}
	return strings.Join(names, ", ")
}

// levelNames are Ironic's names of the RAID types.
var levelNames = map[string]string{"RAID0": "0", "RAID1": "1", "RAID5": "5", "RAID6": "6", "RAID10": "1+0", "RAID50": "5+0", "RAID60": "6+0"}

// readBack is the RAID configuration that the BMC shows; made are the disks of the request, by the volume
// that each has become.
func readBack(all []controller, disks []any, made map[string]int) (map[string]any, error) {
	list := []any{}
	missing := maps.Clone(made)
	for _, k := range all {
		for _, v := range k.volumes {
			if v.raw() {
				continue
			}
			disk := map[string]any{}
			if i, ours := made[v.Path]; ours && i < len(disks) {
				delete(missing, v.Path)
				disk = maps.Clone(disks[i].(map[string]any))
			}
			disk["id"], disk["name"], disk["controller"] = v.ID, cmp.Or(v.DisplayName, v.Name), k.ID
			if disk["raid_level"] == nil {
				disk["raid_level"] = levelNames[v.level()]
			}
			if v.CapacityBytes > 0 {
				disk["size_gb"] = (v.CapacityBytes + 1<<29) >> 30
			}
			list = append(list, disk)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("volume %s, which it showed before, is gone: look at the BMC's log", slices.Sorted(maps.Keys(missing))[0])
	}
	if len(list) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"logical_disks": list, "last_updated": time.Now().UTC().Format(time.DateTime)}, nil
}
