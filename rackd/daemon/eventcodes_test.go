package daemon

import (
	"bytes"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// An address of events is one node's. Rackds of its group know it; others, and who knows another node's, do not.
func TestEventCodes(t *testing.T) {
	key := func(b byte) *seal.Key {
		k, err := seal.NewKey(bytes.Repeat([]byte{b}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, other := eventCodes{seal.NewKeyring("a", key(1))}, eventCodes{seal.NewKeyring("b", key(2))}
	n := &node.Document{UUID: "n1", Group: "a"}
	code := a.Code(n, "account")
	if !a.Fits("n1", code) || code != a.Code(n, "account") {
		t.Errorf("the code %q is not its node's", code)
	}
	if next := a.Code(n, "another"); next == code || !a.Fits("n1", next) {
		t.Error("another account has the same code, or none")
	}
	for _, id := range []string{"n2", ""} {
		if a.Fits(id, code) {
			t.Errorf("a code of n1 is good for %q", id)
		}
	}
	for _, given := range []string{"", "AAAA", code[:8], code + "AAAA", "!"} {
		if a.Fits("n1", given) {
			t.Errorf("%q is good", given)
		}
	}
	if other.Fits("n1", code) || other.Code(n, "account") != "" {
		t.Error("a rackd of another group makes or takes codes of this one")
	}
}
