package hints

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Ironic's grammar (oslo_utils.specs_matcher) wants no space behind an operator: "<in>vault" is "<in> vault". Taken for a text it fits no
// disk, and what it is to keep is erased.
func TestAnOperatorWithoutASpace(t *testing.T) {
	disks := []agentapi.Disk{
		{Name: "/dev/sda", Size: 4 << 40, Serial: "KEEP1", Model: "VAULT 4T"},
		{Name: "/dev/sdb", Size: 500 << 30, Serial: "SYSTEM", Model: "SSD"},
	}
	for _, hint := range []map[string]any{
		{"model": "<in>VAULT"},
		{"model": "<all-in>vault 4t"},
		{"serial": "<or>KEEP1<or>KEEP2"},
		{"serial": "<or>KEEP1 <or>KEEP2"},
		{"serial": "s==KEEP1"},
		{"serial": "s!=SYSTEM"},
	} {
		keep, err := ParseKept([]any{hint})
		if err != nil {
			continue // a refusal harms no disk
		}
		d, err := Rules{Kept: keep}.Decide(disks, nil)
		if err != nil {
			continue
		}
		for _, e := range d.Erased {
			if e.Name == "/dev/sda" {
				t.Errorf("skip_block_devices %v: the disk that it keeps is erased", hint)
			}
		}
	}
	for _, hint := range []map[string]any{{"size": ">=1000"}, {"size": ">= 1000"}, {"size": "<or>4096<or>8192"}, {"size": "<range-in>[ 4000 5000 ]"}} {
		h, err := Parse(hint)
		if err != nil {
			t.Errorf("%v: %v", hint, err)
			continue
		}
		if d, err := h.Choose(disks, 0); err != nil || d.Name != "/dev/sda" {
			t.Errorf("%v chooses %q, %v", hint, d.Name, err)
		}
	}
}
