package hints

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

var disks = []agentapi.Disk{
	{Name: "/dev/sda", Size: 10 << 30, Model: "ACME Fast 100", Vendor: "acme", Serial: "S1", WWN: "0x1", WWNWithExtension: "0x1a", HCTL: "0:0:0:0", Tran: "sata", Rotational: true},
	{Name: "/dev/sdb", Size: 8 << 30, Model: "ACME Slow", Serial: "S2", ByPath: "/dev/disk/by-path/pci-0000:00:1f.2"},
	{Name: "/dev/sdc", Size: 8 << 30, Serial: "S3"},
	{Name: "/dev/sdd", Size: 1 << 30, Serial: "S4"},
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name  string
		hints map[string]any
		min   int64
		want  string // empty: none
	}{
		{"default: smallest of 4 GiB, tie by name", nil, 0, "/dev/sdb"},
		{"lower minimum", nil, 1, "/dev/sdd"},
		{"hints lift the minimum", map[string]any{"serial": "s4"}, 0, "/dev/sdd"},
		{"size is exact", map[string]any{"size": 10.0}, 0, "/dev/sda"},
		{"= is at least", map[string]any{"size": "= 9"}, 0, "/dev/sda"},
		{"<", map[string]any{"size": "< 2"}, 0, "/dev/sdd"},
		{"!=", map[string]any{"size": "!= 1"}, 0, "/dev/sdb"},
		{"range", map[string]any{"size": "<range-in> ( 8 10 ]"}, 0, "/dev/sda"},
		{"open range", map[string]any{"size": "<range-in> ( 8 10 )"}, 0, ""},
		{"in", map[string]any{"model": "<in> fast"}, 0, "/dev/sda"},
		{"all-in", map[string]any{"model": "<all-in> acme 100"}, 0, "/dev/sda"},
		{"or", map[string]any{"serial": "<or> S9 <or> S3"}, 0, "/dev/sdc"},
		{"or on numbers", map[string]any{"size": "<or> 1 <or> 10"}, 0, "/dev/sdd"},
		{"s!=", map[string]any{"serial": "s!= S2", "size": "== 8"}, 0, "/dev/sdc"},
		{"list: any", map[string]any{"serial": []any{"x", "S1"}}, 0, "/dev/sda"},
		{"wwn in either form", map[string]any{"wwn": "0x1A"}, 0, "/dev/sda"},
		{"rotational", map[string]any{"rotational": "yes"}, 0, "/dev/sda"},
		{"not rotational", map[string]any{"rotational": false}, 0, "/dev/sdd"},
		{"name", map[string]any{"name": "/dev/sdc"}, 0, "/dev/sdc"},
		{"hctl, tran, vendor", map[string]any{"hctl": "0:0:0:0", "tran": "sata", "vendor": "ACME"}, 0, "/dev/sda"},
		{"by path", map[string]any{"by_path": "/dev/disk/by-path/pci-0000:00:1f.2"}, 0, "/dev/sdb"},
		{"all must match", map[string]any{"serial": "S1", "size": 8.0}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Parse(c.hints)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Choose(disks, c.min)
			var none *NoDiskError
			if c.want == "" {
				if !errors.As(err, &none) || !strings.Contains(err.Error(), "/dev/sda") {
					t.Fatalf("chose %q, %v; want an error that lists the disks", got.Name, err)
				}
				return
			}
			if err != nil || got.Name != c.want {
				t.Errorf("chose %q, %v; want %s", got.Name, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, raw := range []map[string]any{
		{"colour": "red"}, {"size": "big"}, {"size": ">= x"}, {"model": ""}, {"model": "<in>"}, {"serial": []any{}},
		{"size": "<range-in> 1 2"}, {"rotational": "maybe"}, {"size": map[string]any{}}, {"size": "<or> 1 <or> x"},
	} {
		if _, err := Parse(raw); err == nil {
			t.Errorf("Parse(%v) accepted", raw)
		}
	}
}

func TestKept(t *testing.T) {
	for _, c := range []struct {
		raw          any
		others, want string // the disks that are left; what the error says
	}{
		{nil, "a b c d", ""},
		{"", "a b c d", ""},
		{[]any{}, "a b c d", ""},
		{[]any{map[string]any{"serial": "S2"}}, "a c d", ""},
		{[]any{map[string]any{"serial": "S2"}, map[string]any{"size": "< 2"}}, "a c", ""},
		{[]any{map[string]any{"serial": "S2", "size": "< 2"}}, "a b c d", ""},
		{[]any{map[string]any{"size": "> 0"}}, "", ""},
		{[]any{map[string]any{}}, "", "item 1 must be an object of hints"},
		{[]any{map[string]any{"serial": "S2"}, "x"}, "", "item 2 must be an object of hints"},
		{[]any{map[string]any{"volume_name": "data"}}, "", `item 1: root device hint "volume_name" is unknown`},
		{map[string]any{"serial": "S2"}, "", "must be a list of hints"},
		{"/dev/sda", "", "must be a list of hints"},
	} {
		kept, err := ParseKept(c.raw)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: error %v, want %q", c.raw, err, c.want)
			}
			continue
		}
		var names []string
		for _, d := range kept.Others(disks) {
			names = append(names, strings.TrimPrefix(d.Name, "/dev/sd"))
		}
		if got := strings.Join(names, " "); err != nil || got != c.others {
			t.Errorf("%v leaves %q, %v; want %q", c.raw, got, err, c.others)
		}
	}
}

// A removable disk is used where a hint names it, and not where a hint fits it by its kind.
func TestRemovableDisksAreUsedOnlyByName(t *testing.T) {
	with := append([]agentapi.Disk{{Name: "/dev/sde", Size: 5 << 30, Serial: "STICK", Tran: "usb", Removable: true}}, disks...)
	for _, c := range []struct {
		hints map[string]any
		want  string
	}{
		{nil, "/dev/sdb"},
		{map[string]any{"size": "> 4"}, "/dev/sdb"},
		{map[string]any{"tran": "usb"}, ""},
		{map[string]any{"serial": "stick"}, "/dev/sde"},
		{map[string]any{"name": "/dev/sde", "size": 5.0}, "/dev/sde"},
		{map[string]any{"serial": "S1", "size": "> 1"}, "/dev/sda"},
	} {
		h, err := Parse(c.hints)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Choose(with, 0)
		if got.Name != c.want {
			t.Errorf("hints %v choose %q, %v; want %q", c.hints, got.Name, err, c.want)
		}
		if c.want == "" && !strings.Contains(err.Error(), "used only where properties/root_device names it") {
			t.Errorf("the refusal does not say why: %v", err)
		}
	}
}

// A hint by what no disk of the machine shows keeps none, so it must not pass for one that does.
func TestKeptDiskThatCannotBeTold(t *testing.T) {
	for _, c := range []struct {
		of   map[string]any
		want string
	}{
		{map[string]any{"serial": "other"}, ""},
		{map[string]any{"by_path": "/dev/disk/by-path/x"}, "/dev/sda shows no by_path and may be that disk"},
		{map[string]any{"by_path": "/dev/disk/by-path/x", "serial": "S3"}, "/dev/sdc shows no by_path"},
		{map[string]any{"by_path": "/dev/disk/by-path/x", "serial": "S2"}, ""},
		{map[string]any{"by_path": "/dev/disk/by-path/pci-0000:00:1f.2"}, ""},
		{map[string]any{"model": "x", "vendor": "x"}, ""},
		{map[string]any{"wwn_vendor_extension": "0x1"}, "no disk of this machine shows its wwn_vendor_extension"},
		{map[string]any{"serial": "S1", "wwn_vendor_extension": "0x1"}, "wwn_vendor_extension"},
	} {
		kept, err := ParseKept([]any{c.of})
		if err != nil {
			t.Fatal(err)
		}
		err = kept.Check(disks)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("kept by %v: %v, want %q", c.of, err, c.want)
		}
		if err := kept.Check(nil); err != nil {
			t.Errorf("a machine without disks: %v", err)
		}
	}
}

// A drive with two ports shows itself twice; what keeps one of them keeps the drive.
func TestBothPathsOfAKeptDiskAreKept(t *testing.T) {
	two := []agentapi.Disk{
		{Name: "/dev/sda", Size: 10, WWNWithExtension: "0x5000c500a1b2c3d4", HCTL: "0:0:0:0"},
		{Name: "/dev/sdb", Size: 10, WWNWithExtension: "0x5000c500a1b2c3d4", HCTL: "1:0:0:0"},
		{Name: "/dev/sdc", Size: 10, WWNWithExtension: "0x5000c500a1b2ffff", HCTL: "1:0:1:0"},
		{Name: "/dev/sdd", Size: 10, HCTL: "1:0:2:0"},
		{Name: "/dev/sde", Size: 10, HCTL: "1:0:3:0"},
	}
	for hctl, want := range map[string]string{"1:0:0:0": "cde", "1:0:1:0": "abde", "1:0:2:0": "abce"} {
		kept, err := ParseKept([]any{map[string]any{"hctl": hctl}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range kept.Others(two) {
			got += strings.TrimPrefix(d.Name, "/dev/sd")
		}
		if got != want {
			t.Errorf("kept by %s: %q may be written to, want %q", hctl, got, want)
		}
	}
}

func TestByPathOfBefore(t *testing.T) {
	const at = "/dev/disk/by-path/"
	for _, c := range []struct {
		disk agentapi.Disk
		hint string
		want bool
	}{
		{agentapi.Disk{ByPath: at + "pci-0000:00:1f.2-ata-1.0"}, at + "pci-0000:00:1f.2-ata-1.0", true},
		{agentapi.Disk{ByPath: at + "pci-0000:00:1f.2-ata-1.0"}, at + "pci-0000:00:1f.2-ata-1", true},
		{agentapi.Disk{ByPath: at + "pci-0000:00:1f.2-ata-11.0"}, at + "pci-0000:00:1f.2-ata-1", false},
		{agentapi.Disk{ByPath: at + "pci-0000:00:04.0", Tran: "virtio"}, at + "virtio-pci-0000:00:04.0", true},
		{agentapi.Disk{}, at + "pci-0000:00:04.0", false},
	} {
		h, err := Parse(map[string]any{"by_path": c.hint})
		if err != nil {
			t.Fatal(err)
		}
		if h.Match(c.disk) != c.want {
			t.Errorf("%s and hint %s: match %v, want %v", c.disk.ByPath, c.hint, !c.want, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("size", ">= 10")
	f.Add("model", "<or> a <or> b")
	f.Add("size", "<range-in> [ 1 2 ]")
	f.Fuzz(func(t *testing.T, key, value string) {
		h, err := Parse(map[string]any{key: value})
		if err != nil {
			return
		}
		for _, d := range disks {
			h.Match(d)
		}
	})
}

// A disk that another hint keeps is kept, whatever it hides: it stops nothing, and neither does another path to it.
func TestAKeptDiskMayHideWhatAnotherHintAsksFor(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 480 << 30, HCTL: "0:0:0:0", WWN: "0x5000c500a1b2c3d4", WWNWithExtension: "0x5000c500a1b2c3d4"},
		{Name: "/dev/sdb", Size: 480 << 30, HCTL: "1:0:0:0", WWN: "0x5000c500a1b2c3d4", WWNWithExtension: "0x5000c500a1b2c3d4"},
		{Name: "/dev/sdc", Size: 480 << 30, HCTL: "0:0:1:0", Serial: "S3"},
	}
	kept, err := ParseKept([]any{map[string]any{"hctl": "0:0:0:0"}, map[string]any{"serial": "of another machine"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := (Rules{Kept: kept}).Decide(disks, nil)
	if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != "/dev/sdc" {
		t.Errorf("erased %v, %v", d.Erased, err)
	}
}
