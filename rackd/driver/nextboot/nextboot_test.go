package nextboot

import (
	"encoding/json"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

func TestTheNewerCopyCounts(t *testing.T) {
	var here, there Devices
	n := &node.Document{UUID: "b3d1"}
	if here.Kept(n) != nil || here.Of(n).Device != "" {
		t.Error("it keeps what was never set")
	}
	here.Keep(n, "pxe", true)
	here.Keep(n, "pxe", true)
	if b := here.Of(n); b.Changes != 1 || b.Device != "pxe" || !b.Once {
		t.Errorf("%+v", b)
	}
	n.Kept = here.Kept(n)
	if here.Kept(n) != nil || here.Of(n).Device != "pxe" {
		t.Errorf("the document has %s, and it keeps %s", n.Kept, here.Kept(n))
	}
	there.Keep(n, "cdrom", false)
	before := &node.Document{UUID: "b3d1", Kept: n.Kept}
	n.Kept = there.Kept(n)
	if b := here.Of(n); b.Device != "cdrom" || b.Changes != 2 {
		t.Errorf("%+v, want the other rackd's", b)
	}
	if b := there.Of(before); b.Device != "cdrom" {
		t.Errorf("%+v, want what was set here, which the document has not yet", b)
	}
	var fresh Devices
	if b := fresh.Of(&node.Document{UUID: "b3d1", Kept: json.RawMessage(`"of another driver"`)}); b.Changes != 0 {
		t.Errorf("%+v", b)
	}
}
