package partition

import (
	"strings"
	"testing"
)

// Util-linux reads new tables as they were meant, of both kinds and for both sector sizes, and so does this package.
func TestNewTables(t *testing.T) {
	t.Parallel()
	gib := int64(1) << 30
	for _, c := range []struct {
		kind   Kind
		sector int64
		want   []Wanted
		dump   []string // of sfdisk
	}{
		{GPT, 512, []Wanted{{Label: "efi-part", Type: TypeESP, Size: 5 << 20}, {Label: "swap1", Type: TypeSwap, Size: 3<<20 + 1}, {Label: "root", Type: TypeLinux, Size: 9 << 20}},
			[]string{"label: gpt", "start=2048, size=10240, type=" + TypeESP, `name="efi-part"`, "start=12288, size=8192, type=" + TypeSwap, "start=20480, size=18432, type=" + TypeLinux}},
		{GPT, 4096, []Wanted{{Label: "root", Type: TypeLinux, Size: 9 << 20, GUID: "6B1D0F5E-0003-4A5C-9D3E-1A0C7E57D15C"}}, nil},
		{MBR, 512, []Wanted{{Type: TypeSwap, Size: 3 << 20}, {Type: TypeLinux, Size: 9 << 20, Active: true}},
			[]string{"label: dos", "start=2048, size=6144, type=82", "start=8192, size=18432, type=83, bootable"}},
	} {
		d := &memory{make([]byte, 32<<20), c.sector}
		made, err := New(d, c.kind, c.want)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Write(); err != nil {
			t.Fatal(err)
		}
		read, err := Read(d)
		if err != nil {
			t.Fatal(err)
		}
		places, err := Layout(d, c.kind, c.want)
		if err != nil || read.ID() != made.ID() || len(read.Partitions()) != len(c.want) {
			t.Errorf("%s: read back %v, %v", c.kind, read.Partitions(), err)
		}
		for i, p := range read.Partitions() {
			if p.Start != places[i].Start || p.Size != places[i].Size || p.Label != places[i].Label || p.Type != places[i].Type {
				t.Errorf("%s: partition %+v, laid out as %+v", c.kind, p, places[i])
			}
			if id := c.want[i].GUID; id != "" && (p.GUID != id || PartUUID(read, p) != strings.ToLower(id)) {
				t.Errorf("partition %+v, PARTUUID %s", p, PartUUID(read, p))
			}
		}
		if c.sector != 512 {
			continue // sfdisk takes a file for a disk of 512 bytes a sector
		}
		dump := strings.ReplaceAll(verify(t, d.data), " ", "")
		for _, want := range c.dump {
			if !strings.Contains(dump, strings.ReplaceAll(want, " ", "")) {
				t.Errorf("%s: sfdisk does not say %q:\n%s", c.kind, want, dump)
			}
		}
		// The next one on the disk still finds room for a config drive.
		if _, err := read.AddLast("config-2", 1<<20); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		kind Kind
		want []Wanted
		says string
	}{
		"too large":    {GPT, []Wanted{{Type: TypeLinux, Size: 31 << 20}}, "the partitions need 32505856 bytes, and disk mem has room for 31457280"},
		"too many":     {MBR, make([]Wanted, 5), "use a GPT"},
		"beyond 2 TiB": {MBR, []Wanted{{Type: TypeLinux, Size: 2048 * gib}}, "room for"},
	} {
		if _, err := New(&memory{make([]byte, 32<<20), 512}, c.kind, c.want); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A partition gets another type, and nothing else of the table changes.
func TestAnotherType(t *testing.T) {
	for kind, types := range map[Kind][2]string{GPT: {TypeReserved, TypeLinux}, MBR: {"da", "83"}} {
		d := &memory{make([]byte, 32<<20), 512}
		made, err := New(d, kind, []Wanted{{Label: "a", Type: TypeReserved, Size: 5 << 20}, {Label: "b", Type: TypeSwap, Size: 3 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		was := made.Partitions()
		if err := made.SetType(1, TypeLinux); err != nil {
			t.Fatal(err)
		}
		is := made.Partitions()
		if was[0].Type != types[0] || is[0].Type != types[1] {
			t.Errorf("%s: type %s, then %s", kind, was[0].Type, is[0].Type)
		}
		if is[0].Type = was[0].Type; is[0] != was[0] || is[1] != was[1] {
			t.Errorf("%s: %+v, and %+v before", kind, is, was)
		}
		if made.SetType(3, TypeLinux) == nil || made.SetType(0, TypeLinux) == nil {
			t.Errorf("%s: a partition that is not there has another type", kind)
		}
	}
}
