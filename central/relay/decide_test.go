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
			s.Work = &store.Work{ID: workID, Node: "n", Generation: generation, Verb: work.Deploy, RequestedAt: time.Unix(1000, 0)}
		}
		return s
	}
	reported := func(s *store.Snapshot, generation int64, epoch uint64) *store.Snapshot {
		s.Node.ObservedGeneration, s.Node.ObservedEpoch = generation, epoch
		return s
	}
	doc := func(id string, generation int64, ended bool) *work.Document {
		d := &work.Document{ID: id, Generation: generation, Epoch: 4, Owner: "r", Lease: "l"}
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
		why    reason
		writes bool
		epoch  uint64
		purges bool
	}{
		{"new work, sent by its entry", row(3, "w"), nil, sending, true, 0, false},
		{"new work, before its entry", row(3, "w"), nil, told, false, 0, false},
		{"work that the site lost before anybody reported", row(3, "w"), nil, repairing, true, lostEpochs, false},
		{"work that the site lost", reported(row(3, "w"), 3, 7), nil, repairing, true, 7 + lostEpochs, false},
		{"work that the site lost, found by chance", reported(row(3, "w"), 3, 7), nil, told, true, 7 + lostEpochs, false},
		{"new work after reports of older work", reported(row(3, "w"), 2, 7), nil, sending, true, 0, false},
		{"an older copy of the work", reported(row(3, "w"), 3, 7), doc("w", 3, false), repairing, true, 7 + lostEpochs, false},
		{"the same work again", row(3, "w"), doc("w", 3, false), sending, false, 0, false},
		{"the same work, as far as reported", reported(row(3, "w"), 3, 4), doc("w", 3, false), repairing, false, 0, false},
		{"ended at the site, not yet here", row(3, "w"), doc("w", 3, true), told, false, 0, false},
		{"in place of older work", row(3, "w"), doc("v", 2, false), sending, true, 5, false},
		{"in place of older work, before its entry", row(3, "w"), doc("v", 2, false), told, false, 0, false},
		{"in place of older work that ended", row(3, "w"), doc("v", 2, true), sending, true, 5, false},
		{"lost, and older work came back", row(3, "w"), doc("v", 2, false), repairing, true, 5 + lostEpochs, false},
		{"an old reading of the rows", row(3, "w"), doc("x", 4, false), sending, false, 0, false},
		{"ended on both sides", row(3, ""), doc("w", 3, true), told, false, 0, true},
		{"ended, and an older copy of it came back", row(3, ""), doc("w", 3, false), repairing, false, 0, true},
		{"overtaken without a rack", row(4, ""), doc("w", 3, false), told, false, 0, true},
		{"newer than the rows", row(3, ""), doc("w", 4, false), told, false, 0, false},
		{"newer than the rows and ended", row(3, ""), doc("w", 4, true), told, false, 0, false},
	} {
		got, purge := decide(c.row, c.old, c.why, time.Unix(1000, 0))
		if (got != nil) != c.writes || purge != c.purges {
			t.Errorf("%s: writes %v, purges %v, want %v, %v", c.name, got != nil, purge, c.writes, c.purges)
			continue
		}
		owner := "" // of older work that is still open: he alone goes on, or gives it away
		if c.old != nil && c.old.Open() && got != nil && c.old.ID != got.ID {
			owner = c.old.Owner
		}
		if got != nil && (got.Epoch != c.epoch || got.Owner != owner || (got.Lease != "") != (owner != "") || got.Seq != 0) {
			t.Errorf("%s: writes %+v, want a document of epoch %d that nobody but %q has begun", c.name, got, c.epoch, owner)
		}
		if got != nil && c.old != nil && got.Checkpoint.Agent == nil {
			t.Errorf("%s: the agent is forgotten", c.name)
		}
	}
}

// A document that is lost again, and of which nobody has reported anything, comes back
// above what it had become the time before.
func TestLostAgain(t *testing.T) {
	asked := time.Unix(1000, 0)
	row := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: 1}, Work: &store.Work{ID: "w", Node: "n", Generation: 1, RequestedAt: asked}}
	var last uint64
	for _, after := range []time.Duration{-time.Minute, time.Second, 20 * time.Second, time.Hour} {
		got, _ := decide(row, nil, repairing, asked.Add(after))
		if got == nil || got.Epoch < last+lostEpochs {
			t.Fatalf("after %v: %+v, want an epoch far above %d", after, got, last)
		}
		last = got.Epoch
	}
}

func TestAbortSaysWhatItCutShort(t *testing.T) {
	row := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: 2}, Work: &store.Work{ID: "b", Node: "n", Generation: 2, Verb: work.Abort}}
	old := &work.Document{ID: "a", Generation: 1, Checkpoint: work.Checkpoint{Step: "deploy.write_image"}}
	if got, _ := decide(row, old, sending, time.Now()); got == nil || got.Args.AbortedStep != "deploy.write_image" {
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
