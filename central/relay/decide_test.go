package relay

import (
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/smbios"
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
	replaces := func(s *store.Snapshot, id string) *store.Snapshot {
		s.Work.Args.Supersedes = id
		return s
	}
	for _, c := range []struct {
		name    string
		row     *store.Snapshot
		old     *work.Document
		why     reason
		verdict verdict
		epoch   uint64
	}{
		{"new work, sent by its entry", row(3, "w"), nil, sending, write, 0},
		{"new work, before its entry", row(3, "w"), nil, told, leave, 0},
		{"work that the site lost before anybody reported", row(3, "w"), nil, repairing, lostIt, 0},
		{"work that the site lost", reported(row(3, "w"), 3, 7), nil, repairing, lostIt, 0},
		{"work that the site lost, found by chance", reported(row(3, "w"), 3, 7), nil, told, lostIt, 0},
		{"work that the site lost, sent again by its entry", reported(row(3, "w"), 3, 7), nil, sending, lostIt, 0},
		{"new work after reports of older work", reported(row(3, "w"), 2, 7), nil, sending, write, 0},
		{"an older copy of the work", reported(row(3, "w"), 3, 7), doc("w", 3, false), repairing, lostIt, 0},
		{"the same work again", row(3, "w"), doc("w", 3, false), sending, leave, 0},
		{"the same work, as far as reported", reported(row(3, "w"), 3, 4), doc("w", 3, false), repairing, leave, 0},
		{"ended at the site, not yet here", row(3, "w"), doc("w", 3, true), told, leave, 0},
		{"in place of older work", row(3, "w"), doc("v", 2, false), sending, write, 5},
		{"in place of older work, before its entry", row(3, "w"), doc("v", 2, false), told, leave, 0},
		{"in place of older work that ended", row(3, "w"), doc("v", 2, true), sending, write, 5},
		{"in place of older work that the site lost", replaces(row(3, "w"), "v"), nil, sending, lostIt, 0},
		{"in place of older work that was never sent", replaces(row(3, "w"), "unsent"), nil, sending, write, 0},
		{"lost, and older work came back", row(3, "w"), doc("v", 2, false), repairing, lostIt, 0},
		{"an old reading of the rows", row(3, "w"), doc("x", 4, false), sending, leave, 0},
		{"ended on both sides", row(3, ""), doc("w", 3, true), told, purge, 0},
		{"ended, and an older copy of it came back", row(3, ""), doc("w", 3, false), repairing, purge, 0},
		{"overtaken without a rack", row(4, ""), doc("w", 3, false), told, purge, 0},
		{"newer than the rows", row(3, ""), doc("w", 4, false), told, leave, 0},
		{"newer than the rows and ended", row(3, ""), doc("w", 4, true), told, leave, 0},
	} {
		got, v := decide(c.row, c.old, c.why, c.row.Work != nil && c.row.Work.Args.Supersedes == "unsent")
		if v != c.verdict || (got != nil) != (v == write) {
			t.Errorf("%s: verdict %v, document %+v, want %v", c.name, v, got, c.verdict)
			continue
		}
		if got == nil {
			continue
		}
		owner, lease := "", "" // of older work that is still open: he alone goes on, or gives it away
		if c.old != nil && c.old.Open() {
			owner, lease = c.old.Owner, c.old.Lease
		}
		if got.Epoch != c.epoch || got.Owner != owner || got.Lease != lease || got.Seq != 0 || got.Lost {
			t.Errorf("%s: writes %+v, want a document of epoch %d that nobody but %q has begun", c.name, got, c.epoch, owner)
		}
		if got.Checkpoint.Agent != nil { // none of these goes on with the flow
			t.Errorf("%s: the agent of another flow is handed on", c.name)
		}
	}
}

// What is restored is an older copy as it was, or else new; whoever owned the work that
// is there keeps it until its lease has ended.
func TestRestored(t *testing.T) {
	row := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: 3}, Work: &store.Work{ID: "w", Node: "n", Generation: 3, Verb: work.Deploy}}
	older := &work.Document{ID: "w", Generation: 3, Epoch: 4, Seq: 2, Owner: "r", Lease: "l", Checkpoint: work.Checkpoint{Step: "s"}}
	before := &work.Document{ID: "v", Generation: 2, Epoch: 4, Seq: 2, Owner: "r", Lease: "l", Checkpoint: work.Checkpoint{Step: "s"}}
	for name, c := range map[string]struct {
		old         *work.Document
		owner, step string
		seq         uint64
	}{
		"nothing is left":          {nil, "", "", 0},
		"an older copy is left":    {older, "r", "s", 2},
		"work of before came back": {before, "r", "", 0},
	} {
		d := restored(row, c.old, 9*lostEpochs)
		if d.ID != "w" || d.Epoch != 9*lostEpochs || !d.Lost || d.Owner != c.owner || (d.Lease != "") != (c.owner != "") || d.Checkpoint.Step != c.step || d.Seq != c.seq {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if older.Lost || older.Epoch != 4 {
		t.Error("the copy itself was changed")
	}
}

// Of a document that is lost again, and of which nobody has reported anything, the
// epoch is above what it can have become the time before.
func TestLostAgain(t *testing.T) {
	asked := time.Unix(1000, 0)
	w := &store.Work{RequestedAt: asked}
	last := uint64(lostEpochs) // as an owner has restored it that was sure of it
	for _, after := range []time.Duration{-time.Minute, time.Second, 20 * time.Second, time.Hour} {
		if got := far(w, asked.Add(after)); got < last+lostEpochs {
			t.Errorf("after %v: epoch %d, want one far above %d", after, got, last)
		} else {
			last = got
		}
	}
}

// A key counts from when it was first found like that; when it has changed, or the
// bucket has lost something again, anew.
func TestLostSettles(t *testing.T) {
	l, at := lost{}, time.Unix(1000, 0)
	o := &order{target: target{"n", "="}, work: held{revision: 7}}
	l.see(o, at)
	l.see(o, at.Add(5*time.Second))
	if due, next := l.due(16*time.Second, at.Add(15*time.Second)); len(due) != 0 || next != time.Second {
		t.Errorf("due %v, the next in %v", due, next)
	}
	if due, _ := l.due(16*time.Second, at.Add(16*time.Second)); len(due) != 1 {
		t.Error("not due in time")
	}
	o.work.revision = 9
	l.see(o, at.Add(16*time.Second))
	if due, _ := l.due(16*time.Second, at.Add(17*time.Second)); len(due) != 0 {
		t.Error("somebody wrote it, and it was lost again just now")
	}
	l.restart(at.Add(30 * time.Second))
	if due, _ := l.due(16*time.Second, at.Add(40*time.Second)); len(due) != 0 {
		t.Error("the bucket has lost something again just now")
	}
}

func TestAbortSaysWhatItCutShort(t *testing.T) {
	row := &store.Snapshot{Node: &store.Node{UUID: "n", Generation: 2}, Work: &store.Work{ID: "b", Node: "n", Generation: 2, Verb: work.Abort}}
	old := &work.Document{ID: "a", Generation: 1, Checkpoint: work.Checkpoint{Step: "deploy.write_image"}}
	if got, _ := decide(row, old, sending, false); got == nil || got.Args.AbortedStep != "deploy.write_image" {
		t.Errorf("the abort is %+v", got)
	}
}

func TestSecretsAreSealedForTheGroup(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	group, err := key.ForGroup("rack1")
	if err != nil {
		t.Fatal(err)
	}
	n := &store.Node{UUID: "n", ConductorGroup: "rack1",
		DriverInfo:         key.SealFields(seal.Label{Kind: seal.DriverInfo, Of: "n"}, map[string]any{"redfish_password": "hunter2", "redfish_username": "root"}),
		InstanceInfo:       key.SealFields(seal.Label{Kind: seal.InstanceInfo, Of: "n"}, map[string]any{"rescue_password": "x", "image_source": "http://i"}),
		DriverInternalInfo: map[string]any{node.MachineKey: map[string]any{"uuid": "U", "serial": "S"}}}
	doc, err := render(key, group, &store.Snapshot{Node: n})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Machine != (smbios.System{UUID: "U", Serial: "S"}) {
		t.Errorf("the rack is told of the machine %v", doc.Machine)
	}
	password := doc.DriverString("redfish_password")
	if _, err := key.Open(seal.Label{Kind: seal.DriverInfo, Of: "n", Field: "redfish_password"}, password); err == nil || !seal.Sealed(password) {
		t.Errorf("the database's key opens, or nothing seals, %q", password)
	}
	if open, err := group.Open(seal.Label{Kind: seal.DriverInfo, Of: "n", Field: "redfish_password"}, password); err != nil || open != "hunter2" {
		t.Errorf("opened %q, error %v", open, err)
	}
	if doc.DriverString("redfish_username") != "root" || !seal.Sealed(doc.InstanceString("rescue_password")) {
		t.Errorf("document %+v", doc)
	}
}
