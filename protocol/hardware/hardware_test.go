package hardware

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckRAID(t *testing.T) {
	for config, wrong := range map[string]string{
		`{"logical_disks":[{"size_gb":100,"raid_level":"1"}]}`:                                                                       "",
		`{"logical_disks":[{"size_gb":"MAX","raid_level":"5+0","is_root_volume":true,"disk_type":"ssd","physical_disks":["a",{}]}]}`: "",
		`{}`:                   "logical_disks",
		`{"logical_disks":[]}`: "at least one",
		`{"logical_disks":[{"size_gb":100,"raid_level":"1"}],"x":1}`:                                                                    "x",
		`{"logical_disks":[{"raid_level":"1"}]}`:                                                                                        "size_gb is a required",
		`{"logical_disks":[{"size_gb":0,"raid_level":"1"}]}`:                                                                            "size_gb",
		`{"logical_disks":[{"size_gb":1.5,"raid_level":"1"}]}`:                                                                          "size_gb",
		`{"logical_disks":[{"size_gb":1,"raid_level":"7"}]}`:                                                                            "raid_level",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","colour":"red"}]}`:                                                             "colour",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","is_root_volume":"yes"}]}`:                                                     "is_root_volume",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","is_root_volume":true},{"size_gb":1,"raid_level":"0","is_root_volume":true}]}`: "root volume",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","physical_disks":[1]}]}`:                                                       "physical_disks",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","interface_type":"ide"}]}`:                                                     "interface_type",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","volume_name":3}]}`:                                                            "volume_name",
		`{"logical_disks":[3]}`: "not an object",
	} {
		var floats map[string]any
		if err := json.Unmarshal([]byte(config), &floats); err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(strings.NewReader(config))
		dec.UseNumber()
		var numbers map[string]any
		if err := dec.Decode(&numbers); err != nil {
			t.Fatal(err)
		}
		for _, m := range []map[string]any{floats, numbers} {
			err := CheckRAID(m)
			if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want an error with %q (none when empty)", config, err, wrong)
			}
		}
	}
	for property := range diskChecks {
		if RAIDProperties[property] == "" {
			t.Errorf("nobody says what %s means", property)
		}
	}
}

// What was not read leaves what was known, also over the wire, where "no settings" and
// "not read" differ.
func TestObservationMerges(t *testing.T) {
	mode, on := "uefi", true
	was := Observation{BootMode: &mode, BIOS: []Setting{{Name: "a"}}}
	for _, next := range []Observation{{SecureBoot: &on}, {BIOS: []Setting{}}} {
		raw, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		var o Observation
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		was.Merge(o)
	}
	if was.BootMode == nil || *was.BootMode != "uefi" || was.SecureBoot == nil || !*was.SecureBoot || was.BIOS == nil || len(was.BIOS) != 0 || was.Firmware != nil {
		t.Errorf("merged to %+v", was)
	}
	if was.Empty() || !new(Observation).Empty() {
		t.Error("empty is not told from something")
	}
}
