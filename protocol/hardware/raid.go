package hardware

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RAIDProperties says what each property of a logical disk means, for people.
var RAIDProperties = map[string]string{
	"raid_level":               "The RAID level of the logical disk: JBOD, 0, 1, 2, 5, 6, 1+0, 5+0 or 6+0. Required.",
	"size_gb":                  "The size of the logical disk in GiB, a whole number, or MAX for all the space that is left. Required.",
	"volume_name":              "The name of the volume. The BMC or the agent makes one up where it is left out.",
	"is_root_volume":           "True for the volume that the instance boots from. At most one volume may be it; the default is false.",
	"share_physical_disks":     "True where other logical disks may lie on the same physical disks. The default is false.",
	"disk_type":                "The type of the physical disks to use: hdd or ssd. Any type where it is left out.",
	"interface_type":           "The interface of the physical disks to use: sata, scsi or sas. Any where it is left out.",
	"number_of_physical_disks": "How many physical disks to use, a whole number. The smallest number that the RAID level takes where it is left out.",
	"controller":               "The controller that is to make the volume, by the name that the BMC or the agent has for it; software for RAID without a controller.",
	"physical_disks":           "The physical disks to use, by the names that the BMC has for them, or as hints for the agent.",
}

var (
	raidLevels     = []string{"JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"}
	diskTypes      = []string{"hdd", "ssd"}
	diskInterfaces = []string{"sata", "scsi", "sas"}
)

// CheckRAID says what is wrong with a target RAID configuration, {"logical_disks":
// [...]}, as a client sent it; nil: nothing.
func CheckRAID(config map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if key != "logical_disks" {
			return fmt.Errorf("unknown property %.60q: there is logical_disks", key)
		}
	}
	disks, isList := config["logical_disks"].([]any)
	if !isList || len(disks) == 0 {
		return fmt.Errorf("logical_disks is missing, or not a list with at least one disk")
	}
	roots := 0
	for i, item := range disks {
		disk, isObject := item.(map[string]any)
		if !isObject {
			return fmt.Errorf("logical disk %d is not an object", i+1)
		}
		if err := checkDisk(disk); err != nil {
			return fmt.Errorf("logical disk %d: %w", i+1, err)
		}
		if disk["is_root_volume"] == true {
			roots++
		}
	}
	if roots > 1 {
		return fmt.Errorf("%d logical disks are marked as the root volume: there can be one", roots)
	}
	return nil
}

func checkDisk(disk map[string]any) error {
	for _, needed := range []string{"raid_level", "size_gb"} {
		if disk[needed] == nil {
			return fmt.Errorf("%s is a required property", needed)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(disk)) {
		check, known := diskChecks[key]
		if !known {
			return fmt.Errorf("unknown property %.60q: there are %s", key, strings.Join(slices.Sorted(maps.Keys(RAIDProperties)), ", "))
		}
		if err := check(disk[key]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

var diskChecks = map[string]func(any) error{
	"raid_level":               oneOf(raidLevels),
	"disk_type":                oneOf(diskTypes),
	"interface_type":           oneOf(diskInterfaces),
	"volume_name":              aText,
	"controller":               aText,
	"is_root_volume":           aBool,
	"share_physical_disks":     aBool,
	"number_of_physical_disks": positive,
	"size_gb": func(v any) error {
		if v == "MAX" {
			return nil
		}
		return positive(v)
	},
	"physical_disks": func(v any) error {
		list, isList := v.([]any)
		if !isList || len(list) == 0 {
			return fmt.Errorf("it is not a list with at least one disk")
		}
		for _, item := range list {
			_, isText := item.(string)
			_, isHint := item.(map[string]any)
			if !isText && !isHint {
				return fmt.Errorf("a disk is a name or an object of hints")
			}
		}
		return nil
	},
}

func oneOf(words []string) func(any) error {
	return func(v any) error {
		if s, _ := v.(string); !slices.Contains(words, s) {
			return fmt.Errorf("%.40q is not one of %v", fmt.Sprint(v), words)
		}
		return nil
	}
}

func aText(v any) error {
	if _, ok := v.(string); !ok {
		return fmt.Errorf("it is not a text")
	}
	return nil
}

func aBool(v any) error {
	if _, ok := v.(bool); !ok {
		return fmt.Errorf("it is neither true nor false")
	}
	return nil
}

// positive admits whole numbers above 0, from either way of reading JSON.
func positive(v any) error {
	switch n := v.(type) {
	case json.Number:
		if i, err := n.Int64(); err == nil && i > 0 {
			return nil
		}
	case float64:
		if n > 0 && n == float64(int64(n)) {
			return nil
		}
	}
	return fmt.Errorf("%.40q is not a whole number above 0", fmt.Sprint(v))
}
