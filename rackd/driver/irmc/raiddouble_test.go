package irmc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// fakeAdapter is a RAID controller of the double, fakeDisk one of its disks, fakeDrive a logical drive.
type fakeAdapter struct {
	id, levels string
	disks      []fakeDisk
	drives     []fakeDrive
}

type fakeDisk struct {
	number, kind, bus string
	size              int
}

type fakeDrive struct {
	number, size int
	level, name  string
	disks        []string
}

// anAdapter has six disks of 447 GB and two larger ones of another type.
func anAdapter(id string) *fakeAdapter {
	a := &fakeAdapter{id: id, levels: "0,1,5,6,1E,10,50,60"}
	for i := range 6 {
		a.disks = append(a.disks, fakeDisk{fmt.Sprint(i), "SSD", "SATA", 447})
	}
	for i := range 2 {
		a.disks = append(a.disks, fakeDisk{fmt.Sprint(6 + i), "HDD", "SAS", 1000})
	}
	return a
}

// raidProfile is what the machine shows, in the form that Fujitsu's own tests have of a machine: numbers of drives count down from 239.
func (s *store) raidProfile() string {
	adapters := []any{}
	for _, a := range s.adapters {
		disks, arrays, drives := []any{}, []any{}, []any{}
		for _, d := range a.disks {
			disks = append(disks, map[string]any{"@Number": d.number, "@Action": "None", "Slot": 0, "PDStatus": "Available", "Interface": d.bus, "Type": d.kind,
				"Size": map[string]any{"@Unit": "GB", "#text": d.size}})
		}
		for i, d := range a.drives {
			refs := []any{}
			for _, number := range d.disks {
				refs = append(refs, map[string]any{"@Number": number})
			}
			arrays = append(arrays, map[string]any{"@Number": i, "@ConfigurationType": "Addressing", "PhysicalDiskRefs": map[string]any{"PhysicalDiskRef": refs}})
			drives = append(drives, map[string]any{"@Number": d.number, "@Action": "None", "RaidLevel": d.level, "Name": d.name, "LDStatus": "Operational",
				"ArrayRefs": map[string]any{"ArrayRef": []any{map[string]any{"@Number": i}}}, "Size": map[string]any{"@Unit": "GB", "#text": d.size}})
		}
		shown := map[string]any{"@AdapterId": a.id, "@ConfigurationType": "Addressing", "Features": map[string]any{"RaidLevel": a.levels},
			"Arrays": map[string]any{"Array": arrays}, "LogicalDrives": map[string]any{"LogicalDrive": drives}, "PhysicalDisks": map[string]any{"PhysicalDisk": disks}}
		if len(drives) == 0 {
			shown["Arrays"], shown["LogicalDrives"] = nil, nil
		}
		adapters = append(adapters, shown)
	}
	raw, err := json.Marshal(map[string]any{"Server": map[string]any{"@Version": "1.01",
		"HWConfigurationIrmc": map[string]any{"@Version": "1.00", "Adapters": map[string]any{"RAIDAdapter": adapters}}}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// carryOut does what a profile orders.
func (s *store) carryOut(raw []byte) {
	var p struct {
		Server struct {
			SystemConfig        struct{ BiosConfig map[string]any }
			HWConfigurationIrmc struct {
				Processing string `json:"@Processing"`
				Version    string `json:"@Version"`
				Adapters   struct{ RAIDAdapter []orderedAdapter }
			}
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		panic(err)
	}
	s.set(p.Server.SystemConfig.BiosConfig)
	if hw := p.Server.HWConfigurationIrmc; hw.Processing == "execute" && hw.Version == "1.00" {
		for _, o := range hw.Adapters.RAIDAdapter {
			s.adapters[slices.IndexFunc(s.adapters, func(a *fakeAdapter) bool { return a.id == o.ID })].carryOut(o, s.twist)
		}
	}
}

// set merges settings into those of the machine.
func (s *store) set(config map[string]any) {
	if config["@Processing"] != "execute" {
		return
	}
	var whole map[string]any
	if err := json.Unmarshal([]byte(cmp.Or(s.bios, profile)), &whole); err != nil {
		panic(err)
	}
	has := whole["Server"].(map[string]any)["SystemConfig"].(map[string]any)[biosProfile].(map[string]any)
	for section, settings := range config {
		values, is := settings.(map[string]any)
		if !is {
			continue
		}
		into := has[section].(map[string]any)
		for key, value := range values {
			into[key] = value
		}
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		panic(err)
	}
	s.bios = string(raw)
}

type orderedAdapter struct {
	ID     string `json:"@AdapterId"`
	Arrays struct {
		Array []struct {
			Number           int    `json:"@Number"`
			Type             string `json:"@ConfigurationType"`
			PhysicalDiskRefs struct {
				PhysicalDiskRef []struct {
					Number string `json:"@Number"`
				}
			}
		}
	}
	LogicalDrives struct {
		LogicalDrive []struct {
			Number          int    `json:"@Number"`
			Action          string `json:"@Action"`
			RaidLevel, Name string
			Size            struct {
				Unit string `json:"@Unit"`
				Text int    `json:"#text"`
			}
			ArrayRefs struct {
				ArrayRef []struct {
					Number int `json:"@Number"`
				}
			}
		}
	}
}

func (a *fakeAdapter) carryOut(o orderedAdapter, twist func(*fakeDrive)) {
	for _, d := range o.LogicalDrives.LogicalDrive {
		if d.Action == "Delete" {
			a.drives = slices.DeleteFunc(a.drives, func(is fakeDrive) bool { return is.number == d.Number })
			continue
		}
		made := fakeDrive{number: 239 - len(a.drives), level: d.RaidLevel, name: cmp.Or(d.Name, fmt.Sprintf("LogicalDrive_%d", len(a.drives)))}
		for _, ref := range d.ArrayRefs.ArrayRef {
			for _, array := range o.Arrays.Array {
				if array.Number == ref.Number && array.Type == "Setting" {
					for _, disk := range array.PhysicalDiskRefs.PhysicalDiskRef {
						made.disks = append(made.disks, disk.Number)
					}
				}
			}
		}
		level := raidLevels[levelNames[d.RaidLevel]]
		for _, disk := range a.disks { // it chooses
			if len(d.ArrayRefs.ArrayRef) == 0 && len(made.disks) < level.least && !slices.ContainsFunc(a.drives, func(is fakeDrive) bool { return slices.Contains(is.disks, disk.number) }) {
				made.disks = append(made.disks, disk.number)
			}
		}
		made.size = d.Size.Text
		if made.size == 0 {
			made.size = 446 * level.data(len(made.disks))
		}
		if twist != nil {
			twist(&made)
		}
		a.drives = append(a.drives, made)
	}
}

// asItIs leaves a text as it is.
func asItIs(text string) string { return text }
