package places

import (
	"net/http"
	"testing"
	"time"
)

// An operator deletes a node in maintenance whose flow holds in a ramdisk. The medium of that goes with the node, and the machine's power
// stays as it is: the operator has the machine in hand.
func TestANodeThatIsDeletedInAHold(t *testing.T) {
	r := newRig(t)
	r.addMachines(t, 2, true)
	r.start(t, spareName, spare, "")
	f := by("by a medium", flow{name: "clean until its hold", way: []request{manage}, ask: heldClean, end: "clean hold"}, "boot", byMedium)
	id, m := r.begins(t, lane(0), f)
	r.start(t, "owner", lane(0), "")
	r.request(t, id, f.ask)
	if n := r.ends(t, id); n.ProvisionState != f.end || m.BMC.Inserted() == "" {
		t.Fatalf("it does not hold in its medium, which is %q: %s", m.BMC.Inserted(), n)
	}
	s := subject{id: id, m: m}
	r.try(t, "PUT", s, "/maintenance", `{"reason":"the machine goes to another rack"}`, http.StatusAccepted)
	r.try(t, "DELETE", s, "", "", http.StatusNoContent)
	r.until(t, 30*time.Second, "the medium is taken out", func() (bool, string) { return m.BMC.Inserted() == "", m.BMC.Inserted() })
	if !m.Machine.On() {
		t.Error("the machine was switched off")
	}
}
