package conductor

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// loseWork makes the shelf lose the node's work document; everybody notices and
// remembers what it was.
func (s *shelf) loseWork() {
	s.mu.Lock()
	s.works[nodeA] = &view.Work{Doc: s.works[nodeA].Doc, Lost: true}
	s.mu.Unlock()
	s.tell(nodeA)
}

// The bus loses the work document in the middle of work: its owner writes it anew,
// under a new epoch, and goes on where it stood.
func TestLostDocumentIsWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOff}
		m.deploy = []driver.Step{waitForAgent(m)}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		s.loseWork()
		synctest.Wait()
		if w := s.Work(nodeA); w.Lost || w.Doc.Epoch != 2+work.LostEpochs || w.Doc.Checkpoint.Step != "deploy.deploy" || w.Doc.State != provision.DeployWait || !w.Doc.Lost {
			t.Fatalf("after the loss: %+v", w)
		}
		beat(t, c)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.Active || len(m.writes) != 1 {
			t.Errorf("state %q, writes %v, want one", d.State, m.writes)
		}
	})
}

// Whoever is not sure to remember the last document that there was does not write lost
// work anew: not an owner that was without a lease in between, and nobody else.
func TestLostDocumentIsLeftToCentral(t *testing.T) {
	for name, change := range map[string]func(a *members, owner func(string)){
		"the owner's lease has ended": func(a *members, _ func(string)) { a.lease.Add(1) },
		"the owner is dead":           func(a *members, owner func(string)) { a.held.Store(false); owner("b") },
		"the owner is cut off":        func(a *members, _ func(string)) { a.held.Store(false) },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{power: driver.PowerOff}
			m.deploy = []driver.Step{waitForAgent(m)}
			s := newShelf()
			oneNode(s)
			owner := owned("a")
			_, a, killA := conductorOn(t, s, "a", owner, m, nil)
			defer killA()
			_, _, killB := conductorOn(t, s, "b", owner, m, nil)
			defer killB()
			s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
			synctest.Wait()
			before := s.Work(nodeA).Doc
			change(a, func(name string) { owner.Store(name) })
			s.loseWork()
			time.Sleep(time.Minute)
			synctest.Wait()
			if w := s.Work(nodeA); !w.Lost || w.Doc.Owner != "a" || w.Doc.Epoch != before.Epoch {
				t.Errorf("%s: written anew by %q under epoch %d", name, w.Doc.Owner, w.Doc.Epoch)
			}
		})
	}
}

// Once, in work whose document was lost, a step that can be neither repeated nor
// re-attached may have run although the document does not say so: it fails. What is
// known to have ended does not.
func TestNeitherDoesNotBeginInLostWork(t *testing.T) {
	for _, c := range []struct {
		name  string
		ended bool // the step is known to have ended
		want  provision.State
		ran   string
	}{
		{"it may have run", false, provision.DeployFail, ""},
		{"it has ended", true, provision.Active, "boot"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			once := did("flash", &log)
			once.Kind = driver.Neither
			m := &machine{power: driver.PowerOff, deploy: []driver.Step{once, did("boot", &log)}}
			s := newShelf()
			oneNode(s)
			n := *s.nodes[nodeA]
			n.Generation, n.State = 1, provision.Deploying
			s.nodes[nodeA] = &n
			d := work.Document{ID: "work-1", Node: nodeA, Generation: 1, Verb: work.Deploy, Requested: time.Now(), Entry: provision.Deploying,
				EntryTarget: provision.Active, State: provision.Deploying, Target: provision.Active, Epoch: work.LostEpochs, Seq: 3, Lost: true}
			if d.Checkpoint = (work.Checkpoint{Step: "conductor.validate", Phase: work.Ended}); c.ended {
				d.Checkpoint = work.Checkpoint{Step: "deploy.flash", Index: 1, Phase: work.Ended}
			}
			s.rev++
			s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev}
			_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
			defer kill()
			time.Sleep(time.Minute)
			synctest.Wait()
			got := s.Work(nodeA).Doc
			if got.Open() || got.State != c.want || strings.Join(log, " ") != c.ran {
				t.Errorf("%s: state %q, result %+v, steps %v", c.name, got.State, got.Result, log)
			}
			if !c.ended && got.Result != nil && !strings.Contains(got.Result.Error, "deploy.flash may have run") {
				t.Errorf("%s: the operator is told %q", c.name, got.Result.Error)
			}
		})
	}
}

// An end that only a rackd's memory knows of is written before it is reported: else
// another rackd might do the work again which is reported as ended.
func TestRememberedEndIsWrittenBeforeItIsReported(t *testing.T) {
	for _, named := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			oneNode(s)
			n := *s.nodes[nodeA]
			n.Generation, n.State = 1, provision.Deploying
			s.nodes[nodeA] = &n
			anew := work.Document{ID: "work-1", Node: nodeA, Generation: 1, Verb: work.Deploy, Requested: time.Now(), Entry: provision.Deploying,
				EntryTarget: provision.Active, Epoch: 7 * work.LostEpochs, Lost: true}
			known := anew
			known.State, known.Seq, known.Result = provision.Active, 9, &work.Result{OK: true, At: time.Now()}
			s.rev++
			s.works[nodeA] = &view.Work{Doc: anew, Revision: s.rev, Seen: time.Now()}
			s.memory = map[string]*view.Work{"a": {Doc: known, Revision: s.rev, Remembered: true, Seen: time.Now()}}
			s.onPublish = func(e work.Event) {
				if w := s.works[nodeA]; w.Doc.Open() {
					t.Errorf("the end was reported while the bus says that the work is open: %+v", e)
				}
			}
			_, _, killA := conductorOn(t, s, "a", owned(named), &machine{}, nil)
			defer killA()
			_, _, killB := conductorOn(t, s, "b", owned(named), &machine{}, nil)
			defer killB()
			synctest.Wait()
			if w := s.Work(nodeA); w.Doc.Open() || w.Doc.Epoch != anew.Epoch {
				t.Errorf("the ring names %s: the bus says %+v", named, w.Doc)
			}
			if !slices.Equal(s.states(), []string{string(provision.Active)}) {
				t.Errorf("the ring names %s: reported %v", named, s.states())
			}
		})
	}
}

// The bus loses work that nobody held at that moment, and central makes it anew. The
// rackd that the ring names remembers nothing; another one does, and says so, at once or when it is no longer cut off.
func TestWhoRemembersRemindsTheOthers(t *testing.T) {
	const cut = 12 * time.Second
	for _, c := range []struct {
		remembers bool
		away      time.Duration // for how long a is cut off
		want      string
	}{{true, 0, "boot"}, {false, 0, "write boot"}, {true, cut, "boot"}, {false, cut, "write boot"}} {
		synctest.Test(t, func(t *testing.T) {
			var log []string
			m := &machine{power: driver.PowerOff, deploy: []driver.Step{did("write", &log), did("boot", &log)}}
			s := newShelf()
			oneNode(s)
			s.alive.Store("a")
			owner := owned("b")
			_, cutOff, killA := conductorOn(t, s, "a", owner, m, nil)
			defer killA()
			_, members, killB := conductorOn(t, s, "b", owner, m, nil)
			defer killB()
			cutOff.held.Store(c.away == 0)
			members.incomplete.Store(time.Now().Add(c.away))
			n := *s.nodes[nodeA]
			n.Generation, n.State = 1, provision.Deploying
			d := work.Document{ID: "work-1", Node: nodeA, Generation: 1, Verb: work.Deploy, Requested: time.Now(), Entry: provision.Deploying,
				EntryTarget: provision.Active, Epoch: work.LostEpochs, Lost: true}
			told := d
			told.State, told.Target, told.Seq = provision.Deploying, provision.Active, 9
			told.Checkpoint = work.Checkpoint{Step: "deploy.write", Index: 1, Phase: work.Ended}
			s.mu.Lock()
			s.nodes[nodeA] = &n
			s.rev++
			// What b sees, and what only a knows besides.
			s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev, Seen: time.Now()}
			if c.remembers {
				s.memory = map[string]*view.Work{"a": {Doc: told, Revision: s.rev, Remembered: true, Seen: time.Now()}}
			}
			s.mu.Unlock()
			s.tell(nodeA)
			synctest.Wait()
			if !c.remembers || c.away > 0 {
				time.Sleep(max(c.away, remindWithin) - time.Millisecond)
				synctest.Wait()
				if w := s.Work(nodeA); w.Doc.Owner != "" {
					t.Errorf("taken before anybody could say where it stood, by %q", w.Doc.Owner)
				}
				cutOff.held.Store(true)
				s.tell(nodeA)
				synctest.Wait()
				time.Sleep(remindWithin)
				synctest.Wait()
			}
			if d := s.Work(nodeA).Doc; d.State != provision.Active || strings.Join(log, " ") != c.want {
				t.Errorf("remembered %t, away %s: state %q, owner %q, steps %v, want %s", c.remembers, c.away, d.State, d.Owner, log, c.want)
			}
		})
	}
}

// The bus comes back from an older copy while its owner's work is held: the owner writes where it stands, at
// once, for nothing else may ever wake it.
func TestOlderCopyIsReplacedByItsOwnerWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		erase := did("erase_devices", &log)
		erase.NoRamdisk = true
		s := newShelf()
		oneNode(s)
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{clean: []driver.Step{erase}}, nil)
		defer kill()
		inHold(t, s)
		stands := s.Work(nodeA).Doc
		older, known := stands, stands
		older.Checkpoint, older.State, older.Epoch = work.Checkpoint{}, provision.Cleaning, stands.Epoch-1
		known.Epoch, known.Lost = stands.Epoch+2*work.LostEpochs, true
		s.mu.Lock()
		s.rev++
		s.works[nodeA] = &view.Work{Doc: older, Revision: s.rev}
		s.memory = map[string]*view.Work{"a": {Doc: known, Revision: s.rev, Remembered: true, Seen: time.Now()}}
		s.mu.Unlock()
		s.tell(nodeA)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Epoch <= known.Epoch || d.State != provision.CleanHold || d.Checkpoint.Step != stands.Checkpoint.Step || d.Owner != "a" {
			t.Errorf("a minute later the bus holds state %q, step %q, epoch %d of %q", d.State, d.Checkpoint.Step, d.Epoch, d.Owner)
		}
	})
}
