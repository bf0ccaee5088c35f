package answer

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/agentrescue"
	"github.com/ironyard/ironyard/rackd/driver/fake"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// hasAll is a rack that has a ramdisk for each machine.
type hasAll struct{}

func (hasAll) Lacks(*node.Document, bool) error { return nil }
func (hasAll) Arch(*node.Document, bool) string { return "" }
func (hasAll) Identity() string                 { return "" }

func (hasAll) LacksProgram(*node.Document, bool) error { return nil }

// A rescue is judged with the password that its request brings; without one its interface is not in order. The
// node's document stays as it is.
func TestARescueIsJudgedWithItsPassword(t *testing.T) {
	kind := fake.New(fake.Options{}).Type()
	kind.Interfaces["rescue"] = []driver.Named{{Name: "agent", Impl: agentrescue.New(agentrescue.Settings{})}}
	kind.Interfaces["boot"] = []driver.Named{{Name: "ipxe", Impl: networkboot.IPXE().Of(hasAll{})}}
	reg, err := driver.NewRegistry(kind)
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: nodeA, Driver: kind.Name, Ports: []node.Port{{Address: "52:54:00:00:00:01", PXEEnabled: true}}}
	hw, err := reg.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, brings := range []bool{true, false} {
		found := validate(hw, withPassword(n, ask.Flow{RescuePassword: brings}))["rescue"]
		if found.Result == nil || *found.Result != brings {
			t.Errorf("a request with a password (%t): %+v", brings, found)
		}
	}
	if n.InstanceInfo != nil {
		t.Errorf("the node's document has instance_info %v", n.InstanceInfo)
	}
}
