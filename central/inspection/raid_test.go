package inspection

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// disks are disks with these serial numbers, as JSON.
func disks(serials ...string) string {
	var list []string
	for i, serial := range serials {
		list = append(list, fmt.Sprintf(`{"name":"/dev/sd%d","size":%d,"serial":%q}`, i, (i+20)<<30, serial))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func TestRAIDDevice(t *testing.T) {
	const unknown = `"unknown"`
	for name, c := range map[string]struct {
		before   []string
		found    string
		property string // root_device as it was
		want     string
	}{
		"never inspected":          {nil, disks("A"), unknown, unknown},
		"one is new":               {[]string{"A", "B"}, disks("A", "B", "C"), unknown, `{"serial":"C"}`},
		"two are new":              {[]string{"A"}, disks("A", "B", "C"), unknown, unknown},
		"none is new":              {[]string{"A", "B"}, disks("A"), unknown, unknown},
		"one instead of others":    {[]string{"A", "B"}, disks("C"), unknown, `{"serial":"C"}`},
		"the first":                {[]string{}, disks("A", ""), unknown, `{"serial":"A"}`},
		"a number twice":           {[]string{"A"}, disks("A", "B", "B"), unknown, unknown},
		"known":                    {[]string{"A"}, disks("A", "B"), `{"name":"/dev/sda"}`, `{"name":"/dev/sda"}`},
		"known to be empty":        {[]string{"A"}, disks("A", "B"), `{}`, `{}`},
		"known to be null":         {[]string{"A"}, disks("A", "B"), `null`, `null`},
		"no disks":                 {[]string{"A"}, `[]`, unknown, unknown},
		"no serials":               {[]string{"A"}, disks("", ""), unknown, unknown},
		"null":                     {[]string{"A"}, `null`, unknown, unknown},
		"an object":                {[]string{"A"}, `{"a":{"serial":"B"}}`, unknown, unknown},
		"a text":                   {[]string{"A"}, `"B"`, unknown, unknown},
		"no objects":               {[]string{"A"}, `[1,null,{"serial":"B"}]`, unknown, unknown},
		"no texts beside one":      {[]string{"A"}, `[{"serial":["y"]},{"serial":5},{"serial":null},{},{"serial":"B"}]`, unknown, `{"serial":"B"}`},
		"words":                    {[]string{"A"}, disks("A", "B 7"), unknown, `{"serial":"B 7"}`},
		"reads as an expression":   {[]string{"A"}, disks("A", "s!= A"), unknown, unknown},
		"reads as a part of one":   {[]string{"A"}, disks("A", "<in> A"), unknown, unknown},
		"is no expression":         {[]string{"A"}, disks("A", "<in>"), unknown, unknown},
		"does not match by itself": {[]string{"A"}, disks("A", "= 5"), unknown, unknown},
		"too long for a hint":      {[]string{"A"}, disks("A", strings.Repeat("B", 5000)), unknown, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			s.Serials = c.before
			s.Inventory["disks"] = decode[any](t, c.found)
			if c.property != unknown {
				s.Node.Properties["root_device"] = decode[any](t, c.property)
			}
			if err := processor(t, Settings{Hooks: []string{"raid-device"}}).Run(s, nil); err != nil {
				t.Fatal(err)
			}
			got, known := s.Node.Properties["root_device"]
			if !known {
				got = "unknown"
			}
			if !reflect.DeepEqual(got, decode[any](t, c.want)) {
				t.Errorf("root_device %v, want %s", got, c.want)
			}
			if s.NodeChanged != (c.property == unknown && c.want != unknown) {
				t.Errorf("the node is to be written: %v", s.NodeChanged)
			}
		})
	}
}

// TestRAIDDeviceIsTheRootDevice holds that the hook root-device takes up what was found before it.
func TestRAIDDeviceIsTheRootDevice(t *testing.T) {
	s := newSubject(t)
	s.Serials = []string{"A"}
	s.Inventory["disks"] = decode[any](t, disks("A", "B"))
	if err := processor(t, Settings{Hooks: []string{"raid-device", "root-device"}}).Run(s, nil); err != nil || s.Node.Properties["local_gb"] != int64(20) {
		t.Errorf("properties %v, error %v, want the size of the second disk", s.Node.Properties, err)
	}
}
