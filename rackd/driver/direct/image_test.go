package direct

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

func TestImageFields(t *testing.T) {
	sum256, sum512 := strings.Repeat("0a", 32), strings.Repeat("0b", 64)
	for _, c := range []struct {
		name, info                string
		format, compression, algo string
	}{
		{"the content tells", `{"image_source":"http://h/os.img","image_checksum":"` + sum256 + `"}`, "", "", "sha256"},
		{"by length", `{"image_source":"https://h/os.qcow2?x=1","image_checksum":"` + sum512 + `"}`, "", "", "sha512"},
		{"gzip", `{"image_source":"http://h/os.raw","image_compression":"gzip","image_os_hash_algo":"sha256","image_os_hash_value":"` + sum256 + `"}`, "", "gzip", "sha256"},
		{"in capitals", `{"image_source":"file:///i/os.qcow2.zst","image_os_hash_algo":"SHA512","image_os_hash_value":"` + strings.ToUpper(sum512) + `"}`, "", "", "sha512"},
		{"said", `{"image_source":"http://h/os","image_disk_format":"qcow2","image_compression":"gz","image_checksum":"` + sum256 + `"}`, "qcow2", "gzip", "sha256"},
		{"not compressed", `{"image_source":"http://h/os","image_compression":"none","image_checksum":"` + sum256 + `"}`, "", "none", "sha256"},
		{"a foreign format", `{"image_source":"http://h/os","image_disk_format":"vhdx","image_checksum":"` + sum256 + `"}`, "vhdx", "", "sha256"},
		{"a file of checksums", `{"image_source":"http://h/os.raw","image_checksum":"https://h/SHA256SUMS"}`, "", "", ""},
		{"a local file", `{"image_source":"file:///i/os"}`, "", "", ""},
		{"of a registry", `{"image_source":"oci://h/os:9"}`, "", "", ""},
	} {
		n := &node.Document{UUID: "u"}
		if err := json.Unmarshal([]byte(c.info), &n.InstanceInfo); err != nil {
			t.Fatal(err)
		}
		i, err := imageOf(n)
		if src := i.source; err != nil || src.Format != c.format || src.Compression != c.compression || src.HashAlgo != c.algo ||
			src.HashValue != strings.ToLower(src.HashValue) && !strings.Contains(src.HashValue, "://") {
			t.Errorf("%s: %+v, %v", c.name, i, err)
		}
	}
}

func TestImageErrorsNameAllFields(t *testing.T) {
	for info, want := range map[string][]string{
		`{}`: {"image_source", "image_checksum", "image_os_hash_value"},
		`{"image_source":"http://h/i","image_checksum":"` + strings.Repeat("a", 32) + `"}`:                               {"MD5"},
		`{"image_source":"8e0f-glance-id","image_checksum":"` + strings.Repeat("a", 64) + `"}`:                           {"image_source"},
		`{"image_source":"http://h/i","image_os_hash_value":"aa"}`:                                                       {"image_os_hash_algo"},
		`{"image_source":"http://h/i","image_os_hash_algo":"md5","image_os_hash_value":"aa"}`:                            {"md5"},
		`{"image_source":"http://h/i","image_checksum":"` + strings.Repeat("z", 64) + `"}`:                               {"hex"},
		`{"image_source":"http://h/i.qed","image_disk_format":"qed","image_checksum":"` + strings.Repeat("a", 64) + `"}`: {"qed", "vhdx"},
		`{"image_source":"http://h/i","image_compression":"bzip2","image_checksum":"` + strings.Repeat("a", 64) + `"}`:   {"bzip2", "xz"},
		`{"image_source":"oci://h/i","image_checksum":"https://h/sums"}`:                                                 {"image_checksum", "registry"},
		`{"image_source":"http://h/i","image_checksum":"http://"}`:                                                       {"image_checksum"},
		`{"image_source":"http://h/i","image_type":"disk","root_device":[1],"image_checksum":"` + strings.Repeat("a", 64) + `"}`: {
			"image_type", "root_device"},
		`{"image_source":"http://h/i","root_device":{"colour":"red"},"image_checksum":"` + strings.Repeat("a", 64) + `"}`:          {`root device hint "colour" is unknown`},
		`{"image_source":"http://h/i","root_device":"{\"size\": \">= much\"}","image_checksum":"` + strings.Repeat("a", 64) + `"}`: {"root device hint size"},
	} {
		n := &node.Document{UUID: "u-1"}
		if err := json.Unmarshal([]byte(info), &n.InstanceInfo); err != nil {
			t.Fatal(err)
		}
		err := New(Settings{}).Validate(n)
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", info, err)
			continue
		}
		for _, w := range append(want, "u-1") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not name %s", info, err, w)
			}
		}
	}
}

func TestRootDeviceAndMinimum(t *testing.T) {
	n := &node.Document{UUID: "u", Properties: map[string]any{"root_device": map[string]any{"name": "/dev/b"}},
		DriverInfo:   map[string]any{fieldMinDisk: float64(1 << 26)},
		InstanceInfo: map[string]any{"image_source": "http://h/i", "image_checksum": strings.Repeat("a", 64)}}
	i, err := imageOf(n)
	if err != nil || i.root["name"] != "/dev/b" || i.minDisk != 1<<26 {
		t.Errorf("%+v, %v", i, err)
	}
	n.InstanceInfo["root_device"] = `{"name":"/dev/a"}`
	if i, err = imageOf(n); err != nil || i.root["name"] != "/dev/a" {
		t.Errorf("instance_info goes first: %+v, %v", i, err)
	}
}

// TestDisksThatAreKept holds that the agent is told of them, and that nothing is deployed where
// they cannot be made out.
func TestDisksThatAreKept(t *testing.T) {
	kept := []any{map[string]any{"serial": "S1"}}
	n := &node.Document{UUID: "u", Properties: map[string]any{"skip_block_devices": kept},
		InstanceInfo: map[string]any{"image_source": "http://h/i", "image_checksum": strings.Repeat("a", 64)}}
	i, err := imageOf(n)
	if told := i.params(n, nil, driver.DiskImage{}, "").ImageInfo.SkipBlockDevices; err != nil || !reflect.DeepEqual(told, any(kept)) {
		t.Errorf("the agent is told of %v, %v", told, err)
	}
	n.Properties["skip_block_devices"] = []any{map[string]any{"volume_name": "data"}}
	if err := New(Settings{}).Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), `skip_block_devices: item 1: root device hint "volume_name" is unknown`) {
		t.Errorf("a hint that nobody knows: %v", err)
	}
}

func FuzzParseSteps(f *testing.F) {
	f.Add([]byte(`{"clean_steps":[{"interface":"raid","step":"a","priority":1}]}`))
	f.Add([]byte(`{"clean_steps":{"m":[{"interface":"raid","step":"a","priority":1},null]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		steps, err := parseSteps(raw, driver.InClean)
		if err != nil {
			return
		}
		for i, s := range steps {
			if s.Step == "" || i > 0 && s.Interface == steps[i-1].Interface && s.Step == steps[i-1].Step {
				t.Errorf("%q became %v", raw, steps)
			}
		}
	})
}
