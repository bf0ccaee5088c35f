package relay

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

func TestDecide(t *testing.T) {
	row := func(generation int64, workID string) *store.Snapshot {
		s := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: generation}}
		if workID != "" {
			s.Work = &store.Work{ID: workID, Node: "n", Generation: generation, Verb: work.Deploy}
		}
		return s
	}
	doc := func(id string, generation int64, ended bool) *work.Document {
		d := &work.Document{ID: id, Generation: generation, Epoch: 4, Owner: "r"}
		d.Checkpoint.Agent = &work.Agent{URL: "https://agent"}
		if ended {
			d.Result = &work.Result{OK: true, At: time.Unix(1, 0)}
		}
		return d
	}
	for _, c := range []struct {
		name   string
		row    *store.Snapshot
		old    *work.Document
		writes bool
		purges bool
	}{
		{"new work", row(3, "w"), nil, true, false},
		{"the same work again", row(3, "w"), doc("w", 3, false), false, false},
		{"ended at the site, not yet here", row(3, "w"), doc("w", 3, true), false, false},
		{"in place of older work", row(3, "w"), doc("v", 2, false), true, false},
		{"in place of older work that ended", row(3, "w"), doc("v", 2, true), true, false},
		{"an old reading of the rows", row(3, "w"), doc("x", 4, false), false, false},
		{"ended on both sides", row(3, ""), doc("w", 3, true), false, true},
		{"an old reading of the key", row(3, ""), doc("w", 3, false), false, false},
		{"overtaken without a rack", row(4, ""), doc("w", 3, false), false, true},
		{"newer than the rows", row(3, ""), doc("w", 4, false), false, false},
		{"newer than the rows and ended", row(3, ""), doc("w", 4, true), false, false},
	} {
		got, purge := decide(c.row, c.old)
		if (got != nil) != c.writes || purge != c.purges {
			t.Errorf("%s: writes %v, purges %v, want %v, %v", c.name, got != nil, purge, c.writes, c.purges)
		}
		if got != nil && c.old != nil && (got.Epoch != c.old.Epoch+1 || got.Checkpoint.Agent == nil || got.Owner != "") {
			t.Errorf("%s: replaced by %+v", c.name, got)
		}
	}
}

func TestAbortSaysWhatItCutShort(t *testing.T) {
	row := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: 2}, Work: &store.Work{ID: "b", Node: "n", Generation: 2, Verb: work.Abort}}
	old := &work.Document{ID: "a", Generation: 1, Checkpoint: work.Checkpoint{Step: "deploy.write_image"}}
	if got, _ := decide(row, old); got == nil || got.Args.AbortedStep != "deploy.write_image" {
		t.Errorf("the abort is %+v", got)
	}
}

func TestSecretsAreSealedForTheGroup(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	n := &store.Node{UUID: "n", ConductorGroup: "rack1",
		DriverInfo:   key.SealFields("n", map[string]any{"redfish_password": "hunter2", "redfish_username": "root"}),
		InstanceInfo: key.SealFields("n", map[string]any{"rescue_password": "x", "image_source": "http://i"})}
	doc, err := render(key, &store.Snapshot{Node: n})
	if err != nil {
		t.Fatal(err)
	}
	password := doc.DriverString("redfish_password")
	if _, err := key.Open("n", password); err == nil || !seal.Sealed(password) {
		t.Errorf("the database's key opens, or nothing seals, %q", password)
	}
	group, err := key.ForGroup("rack1")
	if err != nil {
		t.Fatal(err)
	}
	if open, err := group.Open("n", password); err != nil || open != "hunter2" {
		t.Errorf("opened %q, error %v", open, err)
	}
	if doc.DriverString("redfish_username") != "root" || !seal.Sealed(doc.InstanceString("rescue_password")) {
		t.Errorf("document %+v", doc)
	}
}
