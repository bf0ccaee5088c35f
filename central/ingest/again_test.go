package ingest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// A rack says every five minutes in which state its work is. The node has entered nothing then: the history gets no line,
// why an errand had failed stays, and no rack is told of the node. Power and the step are taken in; what differs is too.
func TestAStateThatIsSaidAgain(t *testing.T) {
	f := newFixture(t)
	n, w := f.deploy("n")
	told := make(chan struct{}, 100)
	defer f.store.WatchOutbox(func([]*store.Outbox) { told <- struct{}{} })()
	f.follow()
	list := func(at string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"deploy_steps": json.RawMessage(`[{"step":"hold"}]`), "deploy_step_index": json.RawMessage(at)}
	}
	held := func(seq uint64, at string) work.Event {
		e := about(w, work.StateChanged, seq)
		e.State, e.Target, e.Step, e.Internal = provision.DeployHold, provision.Active, "deploy.hold", list(at)
		return e
	}
	f.publish(held(1, "0"))
	errand := about(w, work.ErrandEnded, 2)
	errand.State, errand.Target, errand.Error = provision.DeployHold, provision.Active, "the vendor's method failed"
	f.publish(errand)
	f.drained()
	before := f.node(n.UUID)
	for len(told) > 0 {
		<-told
	}
	for seq := range uint64(3) {
		e := held(3+seq, "0")
		e.Time, e.Power = e.Time.Add(time.Duration(seq+1)*5*time.Minute), "power on"
		f.publish(e)
	}
	f.drained()
	got := f.node(n.UUID)
	if got.LastError != "the vendor's method failed" || !got.ProvisionUpdatedAt.Equal(before.ProvisionUpdatedAt) || got.ObservedSeq != 5 || got.PowerState != "power on" {
		t.Errorf("last_error %q, since %s (%s before), event %d, %q", got.LastError, got.ProvisionUpdatedAt, before.ProvisionUpdatedAt, got.ObservedSeq, got.PowerState)
	}
	lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	if err != nil || len(lines) != 2 {
		t.Errorf("%d lines of history, want 2 (%v)", len(lines), err)
	}
	if len(told) != 0 {
		t.Errorf("the rack was told %d times of what it said", len(told))
	}
	f.publish(held(6, "1"))
	next := held(7, "1")
	next.State = provision.DeployWait
	f.publish(next)
	f.drained()
	if got := f.node(n.UUID); got.DriverInternalInfo["deploy_step_index"] != 1.0 || got.ProvisionState != provision.DeployWait || got.LastError != "" {
		t.Errorf("index %v, state %q, last_error %q", got.DriverInternalInfo["deploy_step_index"], got.ProvisionState, got.LastError)
	}
}
