package hints

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// kept reads hints, which must be good.
func kept(t *testing.T, raw ...any) Kept {
	t.Helper()
	k, err := ParseKept(raw)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A hint with alternatives keeps each disk as a hint of its own would: one that is there does not vouch for one that hides.
func TestEachAlternativeIsToldApart(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 960 << 30, Serial: "KEEP1"},
		{Name: "/dev/sdb", Size: 960 << 30}, // KEEP2, behind a controller that hides its serial number
		{Name: "/dev/sdc", Size: 960 << 30, Serial: "OTHER"},
	}
	for name, given := range map[string][]any{
		"two hints": {map[string]any{"serial": "KEEP1"}, map[string]any{"serial": "KEEP2"}},
		"a list":    {map[string]any{"serial": []any{"KEEP1", "KEEP2"}}},
		"<or>":      {map[string]any{"serial": "<or> KEEP1 <or> KEEP2"}},
	} {
		var unknown *UnknownError
		d, err := Rules{Kept: kept(t, given...)}.Decide(disks, nil)
		if !errors.As(err, &unknown) || unknown.Disk != "/dev/sdb" || !strings.Contains(unknown.Hint, "keep2") && !strings.Contains(unknown.Hint, "KEEP2") {
			t.Errorf("%s: erased %v, %v", name, d.Erased, err)
		}
		// One of the two is read-only: it keeps itself, and not the other.
		d, err = Rules{Kept: kept(t, given...)}.Decide(disks[1:], []agentapi.UnfitDisk{{Disk: disks[0], Why: "read-only"}})
		if !errors.As(err, &unknown) || unknown.Disk != "/dev/sdb" {
			t.Errorf("%s, one read-only: erased %v, %v", name, d.Erased, err)
		}
		shown := slices.Clone(disks)
		shown[1].Serial = "Keep2"
		d, err = Rules{Kept: kept(t, given...)}.Decide(shown, nil)
		if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != "/dev/sdc" {
			t.Errorf("%s, both shown: erased %v, %v", name, d.Erased, err)
		}
	}
}

// What a hint stands for is bounded.
func TestTooManyAlternatives(t *testing.T) {
	var names []any
	for i := range 40 {
		names = append(names, fmt.Sprint("S", i))
	}
	if _, err := ParseKept([]any{map[string]any{"serial": names, "wwn": names}}); err == nil || !strings.Contains(err.Error(), "more than 1024 disks") {
		t.Errorf("1,600 disks: %v", err)
	}
	if k := kept(t, map[string]any{"serial": names, "model": names}); len(k) != 40 {
		t.Errorf("40 serial numbers of 40 models are %d hints, want 40", len(k))
	}
}

// A hint may be copied from the inventory: it fits the disk that it was copied from.
func TestSpacesOfAModel(t *testing.T) {
	disks := []agentapi.Disk{{Name: "/dev/sda", Size: 960 << 30, Serial: "A", Model: "BACKUP  VAULT"}, {Name: "/dev/sdb", Size: 960 << 30, Serial: "B", Model: "OTHER"}}
	for _, text := range []string{disks[0].Model, "backup vault", "<or> x <or> BACKUP   VAULT", "s== BACKUP  VAULT"} {
		d, err := Rules{Kept: kept(t, map[string]any{"model": text})}.Decide(disks, nil)
		if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != "/dev/sdb" {
			t.Errorf("kept by model %q: erased %v, %v", text, d.Erased, err)
		}
	}
}

// A number is a hint for the size alone: JSON's numbers do not hold a serial number of 17 digits.
func TestNumbersAreNoTexts(t *testing.T) {
	for hint, good := range map[string]bool{
		`{"serial": 20263600000000001}`: false, `{"wwn": 5764824129059291136}`: false, `{"model": true}`: false,
		`{"serial": "20263600000000001"}`: true, `{"size": 960}`: true, `{"rotational": true}`: true, `{"rotational": "no"}`: true,
	} {
		var raw any
		if err := json.Unmarshal([]byte(hint), &raw); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKept([]any{raw}); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "in quotes") {
			t.Errorf("%s: %v", hint, err)
		}
	}
}

// Two devices without a WWN that have one serial number may be one disk: if one is kept, the other is not written to.
func TestAPathThatMayBeToAKeptDisk(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 960 << 30, Serial: "KEEP1", ByPath: "/dev/disk/by-path/pci-0000:03:00.0-fc-0x1-lun-0", HCTL: "0:0:0:0"},
		{Name: "/dev/sdb", Size: 960 << 30, Serial: "KEEP1", ByPath: "/dev/disk/by-path/pci-0000:03:00.1-fc-0x2-lun-0", HCTL: "1:0:0:0"},
	}
	for _, h := range []map[string]any{{"by_path": disks[0].ByPath}, {"hctl": "0:0:0:0"}} {
		var unknown *UnknownError
		d, err := Rules{Kept: kept(t, h)}.Decide(disks, nil)
		if !errors.As(err, &unknown) || unknown.Disk != "/dev/sdb" || unknown.Twin != "/dev/sda" {
			t.Errorf("%v: erased %v, %v", h, d.Erased, err)
		}
	}
	volumes := slices.Clone(disks) // of an array, which has one serial number
	volumes[0].WWNWithExtension, volumes[1].WWNWithExtension = "0x600a", "0x600b"
	if d, err := (Rules{Kept: kept(t, map[string]any{"hctl": "0:0:0:0"})}).Decide(volumes, nil); err != nil || len(d.Erased) != 1 {
		t.Errorf("two WWNs: erased %v, %v", d.Erased, err)
	}
}

// An instance's hints choose no removable disk: when the machine is cleaned they are gone, and the disk would keep its data.
func TestAnInstanceChoosesNoRemovableDisk(t *testing.T) {
	disks := []agentapi.Disk{{Name: "/dev/sda", Size: 900 << 30, Serial: "BIG"}, {Name: "/dev/sdb", Size: 64 << 30, Serial: "CARD", Removable: true}}
	card := map[string]any{"root_device": map[string]any{"serial": "CARD"}}
	for _, c := range []struct {
		name                 string
		instance, properties map[string]any
		want                 string
	}{
		{"of the properties", nil, card, "CARD"},
		{"of the instance", card, nil, ""},
		{"of both", card, card, ""},
	} {
		raw, byInstance, err := RootDevice(c.instance, c.properties)
		if err != nil {
			t.Fatal(err)
		}
		root, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		root.ByInstance = byInstance
		d, err := Rules{Root: root}.Decide(disks, nil)
		if err != nil || d.Image.Serial != c.want || (d.NoImage == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, %v", c.name, d.Image.Serial, d.NoImage, err)
		}
	}
}

// root_device is an object or its JSON text, of the instance first.
func TestRootDevice(t *testing.T) {
	a, b := map[string]any{"serial": "A"}, map[string]any{"serial": "B"}
	for _, c := range []struct {
		name                 string
		instance, properties any
		want                 string
		byInstance, bad      bool
	}{
		{"none", nil, nil, "", false, false},
		{"empty", "", map[string]any{}, "", false, false},
		{"of the properties", nil, a, "A", false, false},
		{"of the instance", b, a, "B", true, false},
		{"empty of the instance", map[string]any{}, `{"serial": "A"}`, "A", false, false},
		{"text of the instance", `{"serial": "B"}`, a, "B", true, false},
		{"text that is none", `serial=B`, a, "", false, true},
		{"a list", []any{a}, nil, "", false, true},
		{"text of a list", nil, `[{"serial": "A"}]`, "", false, true},
	} {
		raw, byInstance, err := RootDevice(map[string]any{"root_device": c.instance}, map[string]any{"root_device": c.properties})
		got, _ := raw["serial"].(string)
		if got != c.want || byInstance != c.byInstance || (err != nil) != c.bad {
			t.Errorf("%s: %v, by the instance %t, %v", c.name, raw, byInstance, err)
		}
	}
}
