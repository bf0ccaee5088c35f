package places

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ironyard/ironyard/protocol/failpoint"
	_ "github.com/ironyard/ironyard/rackd/conductor" // its points
)

var passed = regexp.MustCompile(`(?m)^failpoint (\S+)@(.*)$`)

// place is where a flow passes a point.
type place struct {
	flow   flow
	point  string
	detail string
}

func (p place) String() string {
	return fmt.Sprintf("%s/%s@%s", p.flow.name, strings.TrimPrefix(p.point, "conductor."), strings.ReplaceAll(p.detail, "/", "·"))
}

// TestMain lets all lanes run side by side: they mostly wait for leases to end.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", strconv.Itoa(lanes))
	os.Exit(m.Run())
}

// TestEveryPlace kills the owner at every place of every flow. The work ends as it
// does without that.
func TestEveryPlace(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("NOT RUN: kills some hundred rackds, for minutes; set IRONYARD_E2E=1, as make e2e does")
	}
	r := newRig(t)
	r.start(t, "spare-1", spare, "")
	list := r.undisturbed(t)
	t.Logf("%d flows pass %d places", len(flows), len(list))
	if len(list) < 10*len(flows) {
		t.Fatalf("only %d places: %v", len(list), list)
	}
	var next atomic.Int64
	var died atomic.Int64
	t.Run("killed", func(t *testing.T) {
		for i := range lanes {
			t.Run(lane(i), func(t *testing.T) {
				t.Parallel()
				for {
					n := int(next.Add(1)) - 1
					if n >= len(list) {
						return
					}
					t.Run(list[n].String(), func(t *testing.T) {
						r.kill(t, lane(i), fmt.Sprintf("victim-%d", n), list[n])
						died.Add(1)
					})
				}
			})
		}
	})
	t.Logf("%d rackds were killed", died.Load())
}

// undisturbed runs each flow without a kill and returns the places that it passed.
func (r *rig) undisturbed(t *testing.T) (list []place) {
	t.Helper()
	var all []string
	for _, name := range failpoint.Names() {
		if strings.HasPrefix(name, "conductor.") {
			all = append(all, name+"=print")
		}
	}
	for i, f := range flows {
		group := lane(i % lanes)
		id := r.enrol(t, group, f.way)
		c := r.start(t, "witness-"+f.name, group, strings.Join(all, ";"))
		r.request(t, id, f.ask)
		n := r.rest(t, id)
		if n.ProvisionState != f.end || n.LastError != nil {
			t.Fatalf("%s, undisturbed: %s", f.name, n)
		}
		c.cmd.Process.Kill()
		c.cmd.Wait()
		text, err := os.ReadFile(c.log)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range passed.FindAllStringSubmatch(string(text), -1) {
			p := place{f, m[1], m[2]}
			if !slices.ContainsFunc(list, func(o place) bool { return o.String() == p.String() }) {
				list = append(list, p)
			}
		}
	}
	return list
}

// kill runs the flow with an owner that dies at the place.
func (r *rig) kill(t *testing.T, group, name string, p place) {
	id := r.enrol(t, group, p.flow.way)
	c := r.start(t, name, group, p.point+"@"+p.detail+"=kill")
	r.request(t, id, p.flow.ask)
	n := r.rest(t, id)
	if n.ProvisionState != p.flow.end || n.LastError != nil || n.Maintenance {
		t.Errorf("ended otherwise than without the kill: %s", n)
	}
	if !c.killed() {
		t.Errorf("%s did not die there: %s", name, c.cmd.ProcessState)
	}
	var history struct {
		History []struct{ Event string }
	}
	if err := r.get("/v1/nodes/"+id+"/history?detail=true", &history); err != nil {
		t.Fatal(err)
	}
	if p.point == "conductor.take" || p.point == "conductor.result" {
		return // the victim's name never came into the document, or the work was over
	}
	if !slices.ContainsFunc(history.History, func(h struct{ Event string }) bool { return strings.Contains(h.Event, "takeover: from "+name) }) {
		t.Errorf("history does not tell of the takeover: %v", history)
	}
}
