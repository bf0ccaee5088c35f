package irmc

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// deletion is the order that deletes logical drives.
func deletion(v profileVersions, drives []driveRef) ([]byte, error) {
	by := map[string][]any{}
	for _, d := range drives {
		by[d.Adapter] = append(by[d.Adapter], map[string]any{"@Number": numberOf(d.Number), "@Action": "Delete"})
	}
	var adapters []any
	for _, id := range slices.Sorted(maps.Keys(by)) {
		adapters = append(adapters, map[string]any{"@AdapterId": id, "@ConfigurationType": "Addressing",
			"LogicalDrives": map[string]any{"LogicalDrive": by[id]}})
	}
	return raidOrder(v, adapters)
}

// creation is the order that makes logical drives. Their disks are named by arrays.
func creation(v profileVersions, drives []newDrive) ([]byte, error) {
	type parts struct{ drives, arrays []any }
	by := map[string]parts{}
	for _, d := range drives {
		p := by[d.Adapter]
		drive := map[string]any{"@Number": d.Number, "@Action": "Create", "RaidLevel": d.Level, "InitMode": "slow"}
		if d.GiB > 0 && !d.Whole {
			drive["Size"] = struct { // an iRMC wants them in that order
				Unit string `json:"@Unit"`
				Text int    `json:"#text"`
			}{"GB", d.GiB}
		}
		if d.Name != "" {
			drive["Name"] = d.Name
		}
		if len(d.Disks) > 0 {
			var disks []any
			for _, number := range d.Disks {
				disks = append(disks, map[string]any{"@Number": number})
			}
			p.arrays = append(p.arrays, map[string]any{"@Number": d.Array, "@ConfigurationType": "Setting",
				"PhysicalDiskRefs": map[string]any{"PhysicalDiskRef": disks}})
			drive["ArrayRefs"] = map[string]any{"ArrayRef": []any{map[string]any{"@Number": d.Array}}}
		}
		p.drives = append(p.drives, drive)
		by[d.Adapter] = p
	}
	var adapters []any
	for _, id := range slices.Sorted(maps.Keys(by)) {
		a := map[string]any{"@AdapterId": id, "@ConfigurationType": "Addressing", "LogicalDrives": map[string]any{"LogicalDrive": by[id].drives}}
		if len(by[id].arrays) > 0 {
			a["Arrays"] = map[string]any{"Array": by[id].arrays}
		}
		adapters = append(adapters, a)
	}
	return raidOrder(v, adapters)
}

// raidOrder is a profile that is to be carried out.
func raidOrder(v profileVersions, adapters []any) ([]byte, error) {
	part := map[string]any{"@Processing": "execute", "Adapters": map[string]any{"RAIDAdapter": adapters}}
	server := map[string]any{"HWConfigurationIrmc": part}
	if v.Part != "" {
		part["@Version"] = v.Part
	}
	if v.Server != "" {
		server["@Version"] = v.Server
	}
	return json.Marshal(map[string]any{"Server": server})
}

// numberOf is a number as iRMCs write those of logical drives.
func numberOf(n numeral) any {
	if v, err := strconv.Atoi(string(n)); err == nil {
		return v
	}
	return string(n)
}
