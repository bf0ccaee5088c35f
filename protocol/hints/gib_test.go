package hints

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Ironic compares a size as a fraction of GiB: a disk of 1 TB has 931.51 of them, which is more than 931.
func TestADiskThatIsLargerByLessThanAGiB(t *testing.T) {
	tb := agentapi.Disk{Name: "/dev/sda", Size: 1000204886016, Serial: "A"}
	small := agentapi.Disk{Name: "/dev/sdb", Size: 240 << 30, Serial: "B"}
	keep, err := ParseKept([]any{map[string]any{"size": "> 931"}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Rules{Kept: keep}.Decide([]agentapi.Disk{tb, small}, nil)
	if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != small.Name {
		t.Errorf("kept by size > 931: erased %+v (%v), want %s alone", d.Erased, err, small.Name)
	}
	root, err := Parse(map[string]any{"size": "<= 931", "serial": "<or> A <or> C"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := root.Choose([]agentapi.Disk{tb, small}, 0); err == nil {
		t.Errorf("an image for at most 931 GiB goes to %s of %d bytes", got.Name, got.Size)
	}
}
