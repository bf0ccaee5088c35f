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

// Central seals with a new key before this rackd has it: what it refuses meanwhile it takes in
// when it has taken up the key, without a restart and without central writing it once more.
func TestDocumentsRefusedBeforeTheKeyCame(t *testing.T) {
	s := bustest.Open(t)
	old, fresh := testKey("g"), testKey("another")
	ring := seal.NewKeyring("g", old.WithOlder())
	refused, changed := make(told, 10), make(chan string, 100)
	v := New(s, ring, groups{"g"}, refused, func(id string) { changed <- id }, slog.New(slog.DiscardHandler))
	follow(t, v)
	d := node.Document{UUID: "n1", Group: "g", Driver: "redfish", Generation: 1}
	put(t, s, d)
	within(t, changed)
	d.Generation = 2
	body, err := d.AppendSigned(nil, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Nodes.Put(t.Context(), bus.NodeKey("g", "n1"), body); err != nil {
		t.Fatal(err)
	}
	within(t, refused)
	within(t, changed)
	if n := v.Node("n1"); n == nil || n.Generation != 1 {
		t.Fatalf("without the key: %+v", n)
	}
	if err := ring.Adopt(seal.NewKeyring("g", fresh.WithOlder(old))); err != nil {
		t.Fatal(err)
	}
	for n := v.Node("n1"); n.Generation != 2; n = v.Node("n1") {
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
