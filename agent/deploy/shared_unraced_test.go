//go:build !race

package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// TestSharedDisks holds that what other machines may be using is not erased unless the operator says so, and
// that the machine's other disks are.
func TestSharedDisks(t *testing.T) {
	t.Parallel()
	const vmfsSecond = "label: gpt\nsize=2MiB\nsize=2MiB, type=AA31E02A-400F-11DB-9590-000C2911D1B8\n"
	sign := func(mark string, at int) func([]byte) { return func(b []byte) { copy(b[at:], mark) } }
	for _, c := range []struct {
		name, script string
		change       func([]byte)
		want         string // in the error; empty: it is erased
	}{
		{"VMFS by type, GPT", vmfsSecond, nil, "partition 2 holds VMware VMFS"},
		{"VMFS by type, MBR", "label: dos\nsize=2MiB, type=fb\n", nil, "partition 1 holds VMware VMFS"},
		{"GPFS", "label: gpt\nsize=2MiB, type=37AFFC90-EF7D-4E96-91C3-2D7AE055B174\n", nil, "partition 1 holds IBM GPFS"},
		{"GFS2 on the disk", "", sign("\x01\x16\x19\x70", 64<<10), "it holds GFS2"},
		{"GFS2 in a partition", "label: gpt\nstart=2048, size=2MiB\n", sign("\x01\x16\x19\x70", 1<<20+64<<10), "partition 1 holds GFS2"},
		{"a volume of VMFS", "", sign("\x0d\xd0\x01\xc0", 1<<20), "it holds VMware VMFS"},
		{"VMFS without a volume", "", sign("\x5e\xf1\xab\x2f", 2<<20), "it holds VMware VMFS"},
		{"VMFS by type, the first header of the GPT is damaged", vmfsSecond, func(b []byte) { b[512+20] ^= 1 }, "partition 2 holds VMware VMFS"},
		{"VMFS by type, the first entries of the GPT are damaged", vmfsSecond, func(b []byte) { clear(b[1024:2048]) }, "partition 2 holds VMware VMFS"},
		{"VMFS by type, its copy is damaged", vmfsSecond, func(b []byte) { clear(b[len(b)-20<<10:]) }, "partition 2 holds VMware VMFS"},
		{"GFS2 in a partition, the first header of the GPT is damaged", "label: gpt\nstart=2048, size=2MiB\n",
			func(b []byte) { b[512+20] ^= 1; copy(b[1<<20+64<<10:], "\x01\x16\x19\x70") }, "partition 1 holds GFS2"},
		{"VMFS in a logical partition", "label: dos\nstart=2048, size=2MiB\nstart=8192, size=3MiB, type=5\nstart=10240, size=1MiB, type=fb\n", nil, "partition 5 holds VMware VMFS"},
		{"a signature that lies elsewhere", "label: gpt\nsize=4MiB\n", sign("\x01\x16\x19\x70", 3<<20), ""},
		{"a disk that is too small for any", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			content := make([]byte, 8<<20)
			switch {
			case c.script != "":
				content = partitioned(t, c.script)
			case c.change == nil:
				content = content[:32<<10]
			}
			if c.change != nil {
				c.change(content)
			}
			content[300] = 1 // to see whether it is erased
			own := bytes.Repeat([]byte{0xd7}, 2<<20)
			dir := t.TempDir()
			disks := both{{Name: filepath.Join(dir, "shared"), Size: int64(len(content))}, {Name: filepath.Join(dir, "own"), Size: int64(len(own))}}
			fill := func() {
				for name, b := range map[string][]byte{disks[0].Name: content, disks[1].Name: own} {
					if err := os.WriteFile(name, b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			same := func(name string, want []byte) bool {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				return bytes.Equal(b, want)
			}
			d, _, _ := fixture(t, nil)
			d.Machine = disks
			for what, erase := range map[string]func() error{
				"metadata": func() error { return d.EraseMetadata(t.Context(), hints.Rules{}) },
				"all":      func() error { return d.Erase(t.Context(), hints.Rules{}, func(agentapi.Progress) {}) },
			} {
				for _, d.EraseShared = range []bool{false, true} {
					fill()
					err := erase()
					guarded := c.want != "" && !d.EraseShared
					if guarded && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), disks[0].Name)) || !guarded && err != nil {
						t.Errorf("%s, guard off %v: error %v, want %q", what, d.EraseShared, err, c.want)
					}
					if same(disks[0].Name, content) != guarded {
						t.Errorf("%s, guard off %v: erased %v", what, d.EraseShared, !guarded)
					}
					if same(disks[1].Name, own) {
						t.Errorf("%s, guard off %v: the other disk is as it was", what, d.EraseShared)
					}
				}
			}
		})
	}
}
