package hardware

import (
	"encoding/json"
	"errors"
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
// [...]}, as a client sent it; nil: nothing. It says so as Ironic does, what concerns the form of
// disks before what concerns their values.
func CheckRAID(config map[string]any) error {
	if _, given := config["logical_disks"]; !given {
		return invalidRAID("'logical_disks' is a required property")
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if key != "logical_disks" {
			return invalidRAID("Additional properties are not allowed ('%.60s' was unexpected)", key)
		}
	}
	disks, isList := config["logical_disks"].([]any)
	if !isList {
		return invalidRAID("%s is not of type 'array'", shown(config["logical_disks"]))
	}
	if len(disks) == 0 {
		return invalidRAID("[] should be non-empty")
	}
	for i, item := range disks {
		disk, isObject := item.(map[string]any)
		if !isObject {
			return invalidRAID("%s is not of type 'object' in logical disk %d", shown(item), i+1)
		}
		if err := checkDiskForm(disk); err != nil {
			return invalidRAID("%w in logical disk %d", err, i+1)
		}
	}
	roots := 0
	for i, item := range disks {
		disk := item.(map[string]any)
		for _, property := range diskProperties {
			if value, given := disk[property.name]; given {
				if err := property.check(value); err != nil {
					return invalidRAID("%w in %s of logical disk %d", err, property.name, i+1)
				}
			}
		}
		if disk["is_root_volume"] == true {
			roots++
		}
	}
	if roots > 1 {
		return inWords("Raid config cannot have more than one root volume. %d root volumes were specified", roots)
	}
	return nil
}

// inWords is an error in Ironic's own words, which may begin with a capital letter.
func inWords(format string, args ...any) error { return fmt.Errorf(format, args...) }

func invalidRAID(format string, args ...any) error {
	return fmt.Errorf("RAID config validation error: "+format, args...)
}

// checkDiskForm checks which properties a logical disk has.
func checkDiskForm(disk map[string]any) error {
	for _, needed := range []string{"raid_level", "size_gb"} {
		if _, given := disk[needed]; !given {
			return fmt.Errorf("'%s' is a required property", needed)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(disk)) {
		if RAIDProperties[key] == "" {
			return inWords("Additional properties are not allowed ('%.60s' was unexpected)", key)
		}
	}
	_, named := disk["physical_disks"]
	if _, given := disk["controller"]; named && !given {
		return errors.New("'controller' is a dependency of 'physical_disks'")
	}
	return nil
}

// diskProperties are the checks of a logical disk's values, in the order in which they are made.
var diskProperties = []struct {
	name  string
	check func(any) error
}{
	{"raid_level", oneOf(raidLevels)},
	{"size_gb", size},
	{"volume_name", aText},
	{"is_root_volume", aBool},
	{"share_physical_disks", aBool},
	{"disk_type", oneOf(diskTypes)},
	{"interface_type", oneOf(diskInterfaces)},
	{"number_of_physical_disks", positive},
	{"controller", aText},
	{"physical_disks", physicalDisks},
}

// size admits MAX, and whole numbers of GiB; 0 leaves the size to whoever makes the disk.
func size(v any) error {
	n, isWhole := whole(v)
	_, isText := v.(string)
	switch {
	case v == "MAX", isWhole && n >= 0:
		return nil
	case isText:
		return fmt.Errorf("%s is not one of ['MAX']", shown(v))
	case isWhole:
		return fmt.Errorf("%d is less than the minimum of 0", n)
	}
	return fmt.Errorf("%s is not valid under any of the given schemas", shown(v))
}

// physicalDisks admits a list of names or of hints.
func physicalDisks(v any) error {
	list, isList := v.([]any)
	wrong := fmt.Errorf("%s is not valid under any of the given schemas", shown(v))
	if !isList {
		return wrong
	}
	for _, item := range list {
		_, isText := item.(string)
		_, isHint := item.(map[string]any)
		if !isText && !isHint {
			return wrong
		}
	}
	return nil
}

func oneOf(words []string) func(any) error {
	return func(v any) error {
		s, isText := v.(string)
		if !isText {
			return fmt.Errorf("%s is not of type 'string'", shown(v))
		}
		if !slices.Contains(words, s) {
			return fmt.Errorf("%s is not one of ['%s']", shown(s), strings.Join(words, "', '"))
		}
		return nil
	}
}

func aText(v any) error {
	if _, ok := v.(string); !ok {
		return fmt.Errorf("%s is not of type 'string'", shown(v))
	}
	return nil
}

func aBool(v any) error {
	if _, ok := v.(bool); !ok {
		return fmt.Errorf("%s is not of type 'boolean'", shown(v))
	}
	return nil
}

// positive admits whole numbers above 0.
func positive(v any) error {
	n, isWhole := whole(v)
	if !isWhole {
		return fmt.Errorf("%s is not of type 'integer'", shown(v))
	}
	if n <= 0 {
		return fmt.Errorf("%d is less than or equal to the minimum of 0", n)
	}
	return nil
}

// whole reads a whole number, from either way of reading JSON.
func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	case float64:
		return int64(n), n == float64(int64(n))
	}
	return 0, false
}

// shown is a value of a configuration as errors repeat it, cut where it is long.
func shown(v any) string {
	text, isText := v.(string)
	switch {
	case isText:
		text = "'" + text + "'"
	case v == nil:
		return "None"
	case v == true:
		return "True"
	case v == false:
		return "False"
	default:
		raw, _ := json.Marshal(v) // it was read from JSON
		text = string(raw)
	}
	return fmt.Sprintf("%.80s", text)
}
