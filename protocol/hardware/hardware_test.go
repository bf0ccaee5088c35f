package hardware

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheckRAID(t *testing.T) {
	for config, wrong := range map[string]string{
		`{"logical_disks":[{"size_gb":100,"raid_level":"1"}]}`: "",
		`{"logical_disks":[{"size_gb":0,"raid_level":"1"}]}`:   "",
		`{"logical_disks":[{"size_gb":"MAX","raid_level":"5+0","is_root_volume":true,"disk_type":"ssd","controller":"c","physical_disks":["a",{}]}]}`: "",
		`{}`:                    "RAID config validation error: 'logical_disks' is a required property",
		`{"logical_disks":{}}`:  "RAID config validation error: {} is not of type 'array'",
		`{"logical_disks":[]}`:  "RAID config validation error: [] should be non-empty",
		`{"logical_disks":[3]}`: "RAID config validation error: 3 is not of type 'object'",
		`{"logical_disks":[{"size_gb":100,"raid_level":"1"}],"x":1}`:                                                                    "RAID config validation error: Additional properties are not allowed ('x' was unexpected)",
		`{"logical_disks":[{"raid_level":"1"}]}`:                                                                                        "RAID config validation error: 'size_gb' is a required property in logical disk 1",
		`{"logical_disks":[{"size_gb":-1,"raid_level":"1"}]}`:                                                                           "RAID config validation error: -1 is less than the minimum of 0",
		`{"logical_disks":[{"size_gb":"x","raid_level":"1"}]}`:                                                                          "RAID config validation error: 'x' is not one of ['MAX']",
		`{"logical_disks":[{"size_gb":1.5,"raid_level":"1"}]}`:                                                                          "RAID config validation error: 1.5 is not valid under any of the given schemas",
		`{"logical_disks":[{"size_gb":null,"raid_level":"1"}]}`:                                                                         "RAID config validation error: None is not valid under any of the given schemas",
		`{"logical_disks":[{"size_gb":1,"raid_level":1}]}`:                                                                              "RAID config validation error: 1 is not of type 'string'",
		`{"logical_disks":[{"size_gb":1,"raid_level":"7"}]}`:                                                                            "RAID config validation error: '7' is not one of ['JBOD', '0', '1', '2', '5', '6', '1+0', '5+0', '6+0']",
		`{"logical_disks":[{"size_gb":1,"raid_level":"7"},{"size_gb":1,"raid_level":"1","colour":"red"}]}`:                              "RAID config validation error: Additional properties are not allowed ('colour' was unexpected) in logical disk 2",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","is_root_volume":"yes"}]}`:                                                     "RAID config validation error: 'yes' is not of type 'boolean' in is_root_volume",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","number_of_physical_disks":0}]}`:                                               "RAID config validation error: 0 is less than or equal to the minimum of 0",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","is_root_volume":true},{"size_gb":1,"raid_level":"0","is_root_volume":true}]}`: "Raid config cannot have more than one root volume. 2 root volumes were specified",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","physical_disks":["a"]}]}`:                                                     "RAID config validation error: 'controller' is a dependency of 'physical_disks'",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","controller":"c","physical_disks":[1]}]}`:                                      "RAID config validation error: [1] is not valid under any of the given schemas",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","interface_type":"ide"}]}`:                                                     "'ide' is not one of ['sata', 'scsi', 'sas'] in interface_type",
		`{"logical_disks":[{"size_gb":1,"raid_level":"1","volume_name":3}]}`:                                                            "RAID config validation error: 3 is not of type 'string' in volume_name",
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
	for _, property := range diskProperties {
		if RAIDProperties[property.name] == "" {
			t.Errorf("nobody says what %s means", property.name)
		}
	}
	if len(diskProperties) != len(RAIDProperties) {
		t.Errorf("%d properties of a logical disk are explained and %d checked", len(RAIDProperties), len(diskProperties))
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
	was.Merge(Observation{Vendor: "Contoso"})
	was.Merge(Observation{})
	if was.Vendor != "Contoso" || (&Observation{Vendor: "x"}).Empty() {
		t.Errorf("the vendor is %q after merges", was.Vendor)
	}
	if was.Empty() || !new(Observation).Empty() {
		t.Error("empty is not told from something")
	}
}
