package view

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// followed returns a view of group g, and a way to wait for what its bus shows.
func followed(t *testing.T, s *bus.Site) (v *View, until func(what string, ok func() bool)) {
	t.Helper()
	changed := make(chan string, 100)
	v = New(s, keys{}, groups{"g"}, forged{}, func(id string) { changed <- id }, slog.New(slog.DiscardHandler))
	follow(t, v)
	return v, func(what string, ok func() bool) {
		t.Helper()
		limit := time.After(10 * time.Second)
		for !ok() {
			select {
			case <-changed:
			case <-limit:
				t.Fatalf("not within 10 s: %s", what)
			}
		}
	}
}

// follow runs v until the test ends, and returns when it holds what its bus shows.
func follow(t *testing.T, v *View) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-v.Synced()
}

// A rackd that takes over and rewrites the work of a newer program loses nothing of it.
func TestWorkOfANewerProgramIsRewrittenWhole(t *testing.T) {
	t.Parallel()
	s := bustest.Open(t)
	v, until := followed(t, s)
	key := bus.NodeKey("g", "n1")
	rev, err := s.Work.Create(t.Context(), key, []byte(`{"id":"w","node":"n1","group":"g","epoch":1,"fence":"f","checkpoint":{"index":0,"boot_nonce":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	until("the work came", func() bool { return v.Work("n1") != nil })
	d := v.Work("n1").Doc
	d.Owner, d.Epoch, d.Checkpoint.Index = "me", 2, 1
	if _, err := v.UpdateWork(t.Context(), d, rev); err != nil {
		t.Fatal(err)
	}
	e, err := s.Work.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		work.Document
		Fence      string `json:"fence"`
		Checkpoint struct {
			Index int    `json:"index"`
			Nonce string `json:"boot_nonce"`
		} `json:"checkpoint"`
	}
	if err := json.Unmarshal(e.Value(), &got); err != nil || got.Owner != "me" || got.Checkpoint.Index != 1 {
		t.Fatalf("written: %s, %v", e.Value(), err)
	}
	if got.Fence != "f" || got.Checkpoint.Nonce != "x" {
		t.Errorf("what this program does not know is gone: %s", e.Value())
	}
}

// A node whose document is of a newer form is unknown to this rackd, which knows of which form
// it is, and comes back with a document that it reads.
func TestDocumentsOfANewerForm(t *testing.T) {
	t.Parallel()
	s := bustest.Open(t)
	d := node.Document{UUID: "n1", Group: "g", Driver: "redfish", Ports: []node.Port{{Address: "52:54:00:00:00:01"}}}
	put(t, s, d)
	v, until := followed(t, s)
	if v.Node("n1") == nil || v.Need("n1").Form != node.Format {
		t.Fatalf("node %v of form %d", v.Node("n1"), v.Need("n1").Form)
	}
	for _, id := range []string{"n1", "n2"} { // n2 was never known
		if _, err := s.Nodes.Put(t.Context(), bus.NodeKey("g", id), fmt.Appendf(nil, `{"form":%d,"machine":{}}`, node.Format+1)); err != nil {
			t.Fatal(err)
		}
	}
	until("both are of the newer form", func() bool { return v.Newer() == 2 })
	if v.Node("n1") != nil || v.NodeByMAC("52:54:00:00:00:01") != nil || v.Node("n2") != nil || v.Need("n1").Form != node.Format+1 || v.Need("n2").Form != node.Format+1 {
		t.Errorf("it serves what it cannot read: %v %v, forms %d and %d", v.Node("n1"), v.Node("n2"), v.Need("n1").Form, v.Need("n2").Form)
	}
	if driver, group, known := v.Kind("n1"); !known || driver != "redfish" || group != "g" {
		t.Errorf("whose node it was is forgotten: %q %q", driver, group)
	}
	put(t, s, d)
	until("it can be read again", func() bool { return v.Node("n1") != nil && v.NodeByMAC("52:54:00:00:00:01") != nil })
	if v.Newer() != 1 {
		t.Errorf("%d documents of a newer form, want 1", v.Newer())
	}
}
