package conductor

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A rackd of the version before, or one without a node's drivers, is asked by the machine of an active node. It sends the machine to
// its disk only where that is the instance.
func TestARackdWithoutTheDriversSendsNoInstanceToADisk(t *testing.T) {
	volume := []node.Target{{UUID: "v", Type: "iscsi", BootIndex: 0}}
	for name, c := range map[string]struct {
		change func(n *node.Document)
		disk   bool
	}{
		"a disk": {func(*node.Document) {}, true},
		"a disk, and a volume of data": {func(n *node.Document) {
			n.Targets, n.InstanceInfo = volume, map[string]any{"image_source": "http://i/os.img"}
		}, true},
		"a volume": {func(n *node.Document) { n.Targets = volume }, false},
		"a ramdisk": {func(n *node.Document) {
			n.InstanceFiles = map[string]string{"kernel": "sha256-k", "ramdisk": "sha256-r"}
		}, false},
		"an image of TFTP": {func(n *node.Document) { n.InstanceFiles = map[string]string{"boot_iso": ""} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				n := s.nodes[nodeA]
				n.Driver, n.State, n.Interfaces = "of a later version", provision.Active, map[string]string{"storage": "external"}
				c.change(n)
				conductor, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, nil)
				defer kill()
				o, ok := conductor.BootByMAC("52:54:00:00:00:01")
				if !ok || o.Order.Disk != c.disk || o.Order.Again == c.disk || !c.disk && !strings.Contains(o.Order.Reason, "has not its drivers") {
					t.Errorf("%+v", o.Order)
				}
			})
		})
	}
}
