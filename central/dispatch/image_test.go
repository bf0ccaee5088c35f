package dispatch

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A deploy, and an adoption, says that its image holds a whole disk where nobody else has said what it holds.
func TestDeploysNameTheTypeOfTheirImage(t *testing.T) {
	for what, tt := range map[string]struct {
		info map[string]any
		want any
	}{
		"a URL":         {map[string]any{"image_source": "http://h/i.raw"}, "whole-disk"},
		"a container":   {map[string]any{"image_source": "oci://h/i:1"}, "whole-disk"},
		"said already":  {map[string]any{"image_source": "http://h/i.raw", "image_type": "partition"}, "partition"},
		"with a kernel": {map[string]any{"image_source": "http://h/i.raw", "kernel": "http://h/k"}, nil},
		"a folder":      {map[string]any{"image_source": "http://h/tree/"}, nil},
		"a service's":   {map[string]any{"image_source": node}, nil},
		"no image":      {map[string]any{"boot_iso": "http://h/i.iso"}, nil},
	} {
		for _, verb := range []string{"active", "rebuild", "adopt"} {
			b := newBench(t)
			from := map[string]provision.State{"active": provision.Available, "rebuild": provision.Active, "adopt": provision.Manageable}[verb]
			b.put(from, provision.NoState, func(n *store.Node) { n.InstanceInfo = tt.info })
			if err := b.verb(verb, nil); err != nil {
				t.Fatal(err)
			}
			if got := b.node().InstanceInfo["image_type"]; got != tt.want {
				t.Errorf("%s: after %s the image's type is %v, want %v", what, verb, got, tt.want)
			}
		}
	}
}
