package hints

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The same machine chooses the same disk, in whichever order its disks appear and whatever names the
// kernel gives them for that.
func TestTheSameMachineChoosesTheSameDisk(t *testing.T) {
	for _, c := range []struct {
		name  string
		disks []agentapi.Disk
		want  string // serial
	}{
		{"by place", []agentapi.Disk{{Serial: "X", ByPath: "pci-0000:00:1f.2-ata-2.0"}, {Serial: "A", ByPath: "pci-0000:00:1f.2-ata-10.0"}}, "X"},
		{"a place before none", []agentapi.Disk{{Serial: "A"}, {Serial: "X", ByPath: "pci-0000:00:1f.2-ata-2.0"}}, "X"},
		{"by WWN", []agentapi.Disk{{Serial: "X", WWN: "0x5000c500a1b2c3d4"}, {Serial: "A", WWN: "0x5000c500a1b2c3d5"}}, "X"},
		{"by serial number", []agentapi.Disk{{Serial: "S10"}, {Serial: "S9"}, {Serial: "S11"}}, "S9"},
	} {
		for range 50 {
			disks := slices.Clone(c.disks)
			rand.Shuffle(len(disks), func(i, j int) { disks[i], disks[j] = disks[j], disks[i] })
			for i := range disks {
				disks[i].Name, disks[i].Size = "/dev/sd"+string(rune('a'+i)), 480<<30
			}
			d, err := Rules{}.Decide(disks, nil)
			if err != nil || d.Image.Serial != c.want {
				t.Fatalf("%s: %v choose %q, %v; want %q", c.name, disks, d.Image.Serial, err, c.want)
			}
		}
	}
}

func TestMissing(t *testing.T) {
	here := []agentapi.Disk{
		{Name: "/dev/sda", Serial: "S1", WWN: "0x1", WWNWithExtension: "0x1a", Size: 10},
		{Name: "/dev/sdb", Serial: "S2", Size: 10},
		{Name: "/dev/vda", Size: 20},
	}
	for _, c := range []struct {
		name  string
		known []agentapi.KnownDisk
		want  string
	}{
		{"nothing is known", nil, ""},
		{"all are there", []agentapi.KnownDisk{here[0].Known(), here[1].Known(), here[2].Known()}, ""},
		{"one was added since", []agentapi.KnownDisk{here[1].Known()}, ""},
		{"the kernel shows no WWN any more", []agentapi.KnownDisk{{Serial: "s2", WWN: "0x2", Size: 10}}, ""},
		{"another WWN", []agentapi.KnownDisk{{Serial: "S1", WWN: "0x1b", Size: 10}}, `serial "S1", WWN "0x1b", 10 bytes`},
		{"another serial number", []agentapi.KnownDisk{{Serial: "S3", Size: 10}}, `serial "S3"`},
		{"two without a name, one is there", []agentapi.KnownDisk{{Size: 20}, {Size: 20}}, `1 of the disks`},
		{"one without a name does not take another's place", []agentapi.KnownDisk{{Size: 10}, {Serial: "S1", WWN: "0x1a", Size: 10}, {Serial: "S2", Size: 10}}, `serial "", WWN "", 10 bytes`},
	} {
		err := Missing(c.known, here)
		var missing *MissingError
		if (err != nil) != (c.want != "") || err != nil && (!errors.As(err, &missing) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Drives of one maker may all have the same world wide name. Such a drive is erased: only its serial number says that it is not
// another path. To keep one keeps all of them.
func TestDisksOfOneNameAreAllErased(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 480 << 30, Serial: "S1", WWN: "0x5000000000000000", WWNWithExtension: "0x5000000000000000"},
		{Name: "/dev/sdb", Size: 480 << 30, Serial: "S2", WWN: "0x5000000000000000", WWNWithExtension: "0x5000000000000000"},
		{Name: "/dev/sdc", Size: 480 << 30, Serial: "S2", WWN: "0x5000000000000000", WWNWithExtension: "0x5000000000000000"},
	}
	d, err := Rules{}.Decide(disks, nil)
	if err != nil || len(d.Erased) != 2 || d.Erased[0].Serial != "S1" || d.Erased[1].Serial != "S2" {
		t.Errorf("erased %v, spared %v, %v", d.Erased, d.Spared, err)
	}
	kept, err := ParseKept([]any{map[string]any{"serial": "S1"}})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := (Rules{Kept: kept}).Decide(disks, nil); err != nil || len(d.Erased) != 0 {
		t.Errorf("one is kept: erased %v, %v", d.Erased, err)
	}
}
