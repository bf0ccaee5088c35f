package view

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// told tells of each document that is refused.
type told chan string

func (c told) Forged(bucket string) { c <- bucket }

// handedOut are groups with the ids of their keys.
type handedOut struct {
	groups
	ids []string
}

func (h handedOut) Keys(string) []string { return h.ids }

// Central seals with a new key before this rackd has it. What it refuses meanwhile it takes in
// when it has taken up the key, without a restart and without central writing it once more. Until then it
// says which key the node needs: the ring gives the node to a rackd that has it.
func TestDocumentsRefusedBeforeTheKeyCame(t *testing.T) {
	t.Parallel()
	s := bustest.Open(t)
	old, fresh := testKey("g"), testKey("another")
	ring := seal.NewKeyring("g", old.WithOlder())
	refused, changed := make(told, 10), make(chan string, 100)
	v := New(s, ring, handedOut{groups{"g"}, []string{fresh.ID(), old.ID()}}, refused, func(id string) { changed <- id }, slog.New(slog.DiscardHandler))
	follow(t, v)
	d := node.Document{UUID: "n1", Group: "g", Driver: "redfish", Generation: 1}
	put(t, s, d)
	within(t, changed)
	if need := v.Need("n1"); need.Key != old.ID() || v.Late() != 0 {
		t.Fatalf("with the key: it needs %+v, %d documents are late", need, v.Late())
	}
	d.Generation = 2
	write := func(id string) {
		t.Helper()
		d.UUID = id
		body, err := d.AppendSigned(nil, fresh)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Nodes.Put(t.Context(), bus.NodeKey("g", id), body); err != nil {
			t.Fatal(err)
		}
		within(t, changed)
	}
	write("n1")
	write("n2") // which it never knew
	if n := v.Node("n1"); n == nil || n.Generation != 1 || v.Node("n2") != nil {
		t.Fatalf("without the key: %+v and %+v", n, v.Node("n2"))
	}
	for _, id := range []string{"n1", "n2"} {
		driver, group, known := v.Kind(id)
		if need := v.Need(id); need.Key != fresh.ID() || need.Form != node.Format && id == "n1" || driver != "redfish" || group != "g" || !known {
			t.Errorf("without the key: node %s of %q in %q needs %+v", id, driver, group, need)
		}
	}
	if v.Late() != 2 || v.Newer() != 0 || len(refused) != 0 {
		t.Errorf("%d documents are late, %d of a newer form, %d forged", v.Late(), v.Newer(), len(refused))
	}
	if err := ring.Adopt(seal.NewKeyring("g", fresh.WithOlder(old))); err != nil {
		t.Fatal(err)
	}
	for v.Late() > 0 || v.Node("n1").Generation != 2 || v.Node("n2") == nil {
		within(t, changed)
	}
}

func within(t *testing.T, c <-chan string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came within 10 s")
	}
}
