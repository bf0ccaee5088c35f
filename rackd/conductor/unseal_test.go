package conductor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// alarms count forged documents.
type alarms struct {
	noMetrics
	forged map[string]int
}

func (a alarms) Forged(bucket string) { a.forged[bucket]++ }

// withSecret is a step of a request with a password, sealed for a work of nodeA.
func withSecret(t *testing.T, id string) work.Step {
	t.Helper()
	args, err := testKey.SealArgs(work.StepLabel(nodeA, id, "deploy", "a"), map[string]any{"password": "hunter2", "level": "1"})
	if err != nil {
		t.Fatal(err)
	}
	return work.Step{Interface: "deploy", Step: "a", Args: args}
}

// taking is a step that takes a password and notes with which arguments it ran.
func taking(got *[]map[string]any) driver.Step {
	return driver.Step{Interface: "deploy", Name: "a", Kind: driver.Repeatable, NoRamdisk: true, In: driver.InClean,
		Takes: map[string]driver.Argument{"password": {}, "level": {}},
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			*got = append(*got, t.Args)
			return driver.Done(), t.Record.SaveHandle(ctx, "begun")
		}}
}

// The secrets of a step's arguments are open for the step that runs, and nowhere else: not in the work
// document with its checkpoint, and in no event.
func TestSecretsOfAStepAreOpenForTheStepAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		var got []map[string]any
		var written []string
		s.onPublish = func(e work.Event) {
			body, _ := json.Marshal(e)
			work, _ := json.Marshal(s.works[nodeA])
			written = append(written, string(body), string(work))
		}
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{clean: []driver.Step{taking(&got)}}, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{withSecret(t, "work-1")}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK {
			t.Fatalf("the cleaning ended as %+v", d.Result)
		}
		if len(got) != 1 || got[0]["password"] != "hunter2" || got[0]["level"] != "1" {
			t.Errorf("the step ran with %v", got)
		}
		for _, text := range written {
			if strings.Contains(text, "hunter2") {
				t.Errorf("the bus holds %s", text)
			}
		}
	})
}

// A server of the site's bus may write any work document. It cannot have a secret of one work opened
// for another: not by another id, by a flow to go on with, in another step, or with an older document.
func TestSecretsOfAnotherWorkStayClosed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*work.Document)
		alarm  bool
	}{
		"another id":      {func(d *work.Document) { d.ID = "work-0" }, true},
		"goes on with it": {func(d *work.Document) { d.Args.Continues = "work-0" }, true},
		"another step": {func(d *work.Document) {
			d.Args.Steps[0].Args = map[string]any{"password": testKey.Seal(seal.Label{Kind: seal.StepArgument, Of: nodeA, Field: "deploy.b/password", Work: "work-1"}, `"hunter2"`)}
		}, false},
		"a later generation": {func(d *work.Document) { d.Generation++ }, false}, // not begun before the node's document says so
		"no code":            {func(d *work.Document) { d.Code = nil }, true},
		"an older work": {func(d *work.Document) {
			d.Generation--
			d.Sign(testKey)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				var got []map[string]any
				count := alarms{forged: map[string]int{}}
				owner := owned("")
				co, _, kill := conductorOn(t, s, "a", owner, &machine{clean: []driver.Step{taking(&got)}}, func(c *Config) { c.Metrics = count })
				defer kill()
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{withSecret(t, "work-1")}})
				synctest.Wait()
				s.mu.Lock()
				d := s.works[nodeA].Doc
				if d.ID != "work-1" || d.Owner != "" {
					t.Fatalf("the work is %+v", d)
				}
				c.change(&d)
				if root := d.Root(); root == "work-0" {
					d.Args.Steps = []work.Step{withSecret(t, root)}
				}
				s.rev++
				s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev}
				s.mu.Unlock()
				owner.Store("a")
				co.RingChanged()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if len(got) != 0 {
					t.Errorf("the step ran with %v", got)
				}
				if d := s.Work(nodeA).Doc; !d.Open() && d.Result.OK {
					t.Error("the work ended well")
				}
				if (count.forged[bus.WorkBucket] > 0) != c.alarm {
					t.Errorf("%v forged documents were counted", count.forged)
				}
			})
		})
	}
}
