package conductor

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// What no interface of the node reads is said to who asks, and in the history of a deploy; the node is in order.
func TestWhatNoInterfaceReadsIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].DriverInfo = map[string]any{"x": "1", "redfish_adress": "slip"}
		s.nodes[nodeA].InstanceInfo = map[string]any{"image_https_proxy": "http://p", "root_gb": 3}
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, deploy: []driver.Step{switchOn()}}, nil)
		defer kill()
		said := map[string]string{
			"management": "kept, and no interface of this node reads it: driver_info redfish_adress",
			"deploy":     "kept, and no interface of this node reads it: instance_info image_https_proxy",
		}
		var found map[string]ask.Validation
		if err := json.Unmarshal(answersOf(c).Answer(t.Context(), ask.Request{Method: ask.Validate, Node: nodeA}).Body, &found); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"power", "management", "boot", "deploy"} {
			if v := found[kind]; v.Result == nil || !*v.Result || v.Reason != said[kind] {
				t.Errorf("of %s: %+v, want %q", kind, v, said[kind])
			}
		}
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		for kind, want := range said {
			if lines := s.linesOf(kind + " fields"); !slices.Equal(lines, []string{want}) {
				t.Errorf("the history says of %s %q, want %q", kind, lines, want)
			}
		}
	})
}
