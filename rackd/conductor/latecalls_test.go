package conductor

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// lateCalls are all that the agents of a node have said, by the boot that they ran in.
type lateCalls struct {
	of         string
	lookup     ask.Lookup
	heartbeats []ask.Heartbeat
	inspected  ask.Inspected
}

// said has the agent of the newest boot call, and keeps its calls.
func (x *trial) said(of string) lateCalls {
	x.t.Helper()
	time.Sleep(time.Second)
	l := lateCalls{of: of, lookup: lookupOf(x.Conductor)}
	l.lookup.From = hers
	token := x.agent(x.Conductor)
	own := call(token, hers.String(), "PEM", "1")
	for _, hb := range []ask.Heartbeat{own, own, call(token, hers.String(), "PEM of another start", "2")} {
		hb.From = hers
		l.heartbeats = append(l.heartbeats, hb)
	}
	l.heartbeats[1].Command = &agentapi.Command{ID: x.doc().ID + "/write_image", Status: agentapi.CommandSucceeded,
		Progress: &agentapi.Progress{DoneBytes: 1 << 40}}
	l.inspected = ask.Inspected{Caller: l.lookup.Caller, Inventory: agentapi.Inventory{Sent: json.RawMessage(`{"from":"an earlier boot"}`)}}
	return l
}

// come delivers calls, twice and in another order than they were made, and fails the test where one of them is believed.
func (x *trial) come(when string, late []lateCalls) {
	x.t.Helper()
	before, events := *x.doc(), len(x.s.events)
	var agent *work.Agent
	if r := x.runner(nodeA); r != nil {
		agent = r.Agent()
	}
	for range 2 {
		for i := len(late) - 1; i >= 0; i-- {
			l := late[i]
			for k := len(l.heartbeats) - 1; k >= 0; k-- {
				if err := x.Heartbeat(nodeA, l.heartbeats[k]); err == nil {
					x.t.Errorf("%s: heartbeat %d of %s is believed", when, k, l.of)
				}
				if err := x.CheckToken(nodeA, l.heartbeats[k].AgentToken); err == nil {
					x.t.Errorf("%s: the token of %s counts", when, l.of)
				}
			}
			if reply, err := x.LookupAgent(l.lookup); err == nil || reply.Config.AgentToken != "" {
				x.t.Errorf("%s: the lookup of %s is answered %+v", when, l.of, reply)
			}
			if err := x.Inspected(nodeA, l.inspected); err == nil {
				x.t.Errorf("%s: the inventory of %s is taken in", when, l.of)
			}
			synctest.Wait()
		}
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	after := *x.doc()
	if r := x.runner(nodeA); r != nil && !reflect.DeepEqual(agent, r.Agent()) {
		x.t.Errorf("%s: the agent was %+v, and is %+v", when, agent, r.Agent())
	}
	if after.ID != before.ID || after.State != before.State || after.Checkpoint.Step != before.Checkpoint.Step || after.Open() != before.Open() ||
		!reflect.DeepEqual(after.Checkpoint.Agent, before.Checkpoint.Agent) {
		x.t.Errorf("%s: the work was %+v, and is %+v", when, before, after)
	}
	for _, e := range x.s.events[events:] {
		if e.Inventory != nil || e.Kind == work.WorkEnded {
			x.t.Errorf("%s: told %s", when, fmt.Sprintf("%+v", e))
		}
	}
}

// Calls of agents come late, twice and in another order: those of the boot before, of a deploy that was aborted, of one whose place an
// undeploy took. They come before the machine is booted again, while the next agent is waited for, and when that one has called. None ends
// a step, brings an inventory, changes the agent or revives what was aborted.
func TestCallsOfEarlierBootsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		x.m.deploy[1].Abortable = true
		var late []lateCalls
		deploy := x.said("the first deploy")
		late = append(late, deploy)
		x.s.abort(nodeA, provision.DeployFail)
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := x.doc(); d.Open() || d.State != provision.DeployFail {
			t.Fatalf("after the abort: %+v", d)
		}
		x.come("after the abort", late)
		for i, next := range []struct {
			verb  work.Verb
			entry provision.State
		}{{work.Deploy, provision.Deploying}, {work.Deploy, provision.Deploying}} {
			x.s.request(nodeA, next.verb, next.entry, work.Args{})
			synctest.Wait()
			x.come(fmt.Sprintf("while the agent of %s %d is waited for", next.verb, i), late)
			l := x.said(fmt.Sprintf("%s %d", next.verb, i))
			x.come(fmt.Sprintf("beside the agent of %s %d", next.verb, i), late)
			late = append(late, l)
			x.s.supersede(nodeA, work.Delete, provision.Deleting)
			synctest.Wait()
			x.come("while it is undeployed", late)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			x.come("after the undeploy", late)
		}
	})
}
