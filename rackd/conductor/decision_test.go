package conductor

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/view"
)

// Each line says what this rackd, "me", does about a work. Of what a line leaves out nothing speaks against taking the work.
func TestDecide(t *testing.T) {
	const open, over = provision.Deploying, provision.Active
	doc := func(owner, lease string, change ...func(*view.Work)) *view.Work {
		w := &view.Work{Doc: work.Document{ID: "w1", Generation: 2, Epoch: 3, State: open, Owner: owner, Lease: lease}}
		for _, f := range change {
			f(w)
		}
		return w
	}
	lost := func(w *view.Work) { w.Lost = true }
	remembered := func(w *view.Work) { w.Remembered = true }
	ended := func(w *view.Work) { w.Doc.Result = &work.Result{}; w.Doc.State = over }
	if doc("", "", ended).Doc.Open() || !doc("", "").Doc.Open() {
		t.Fatal("the test's works are not open or ended as it says")
	}
	n := func(generation int64) *node.Document { return &node.Document{UUID: "n", Generation: generation} }
	mine := &runs{id: "w1", lease: "l1", epoch: 3}
	for name, c := range map[string]struct {
		sight
		want action
	}{
		"no work":                                       {sight{}, doForget},
		"no work, and one runs":                         {sight{runner: mine}, doForget},
		"ended and lost":                                {sight{work: doc("", "", ended, lost)}, doNothing},
		"ended and lost, and it runs":                   {sight{work: doc("", "", ended, lost), runner: mine}, doStop},
		"another has ended":                             {sight{work: doc("", "", ended), runner: &runs{id: "w0"}}, doStop},
		"its runner reports the end":                    {sight{work: doc("me", "l1", ended), runner: mine}, doNothing},
		"an end that only this rackd remembers":         {sight{work: doc("", "", ended, remembered), named: true}, doRemind},
		"an end that it remembers, of an owner":         {sight{work: doc("a", "l", ended, remembered), named: true}, doNothing},
		"an end that it remembers, without a lease":     {sight{work: doc("", "", ended, remembered), lease: "none"}, doNothing},
		"an end that may not have been reported":        {sight{work: doc("a", "l", ended), named: true}, doReport},
		"an end that another rackd reports":             {sight{work: doc("a", "l", ended), others: "b"}, doNothing},
		"it runs, and the bus has lost it":              {sight{work: doc("me", "l1", lost), runner: mine}, doStop},
		"it runs, and another has followed":             {sight{work: doc("", ""), runner: &runs{id: "w0", lease: "l1"}}, doStop},
		"it runs, and another has taken it":             {sight{work: doc("a", "l"), runner: &runs{id: "w1", lease: "l1", epoch: 2}}, doStop},
		"it runs, and the lease is gone":                {sight{work: doc("me", "l1"), runner: mine, lease: "none"}, doStop},
		"it runs under an earlier lease":                {sight{work: doc("me", "l0"), runner: &runs{id: "w1", lease: "l0", epoch: 3}}, doStop},
		"it runs, and the ring names another":           {sight{work: doc("me", "l1"), runner: mine, others: "b"}, doHandOn},
		"it runs, and the ring names none":              {sight{work: doc("me", "l1"), runner: mine}, doGoOn},
		"it runs":                                       {sight{work: doc("me", "l1"), runner: mine, named: true}, doGoOn},
		"lost, and the one that the ring names":         {sight{work: doc("", "", remembered), node: n(2), others: "b"}, doRemind},
		"the node is not known":                         {sight{work: doc("", ""), named: true}, doWait},
		"the node's document is late":                   {sight{work: doc("", ""), node: n(1), named: true}, doWait},
		"without a lease":                               {sight{work: doc("", ""), node: n(2), lease: "none", named: true}, doWait},
		"lost, its own":                                 {sight{work: doc("me", "l1", lost), node: n(2)}, doTake},
		"lost, its own under an earlier lease":          {sight{work: doc("me", "l0", lost), node: n(2), named: true}, doWait},
		"lost, another's":                               {sight{work: doc("a", "l", lost), node: n(2), named: true, ended: true}, doWait},
		"its own, wherever the node belongs":            {sight{work: doc("me", "l0"), node: n(2), others: "b"}, doTake},
		"a namesake's":                                  {sight{work: doc("me", "l9"), node: n(2), named: true, away: true}, doWait},
		"a dead namesake's":                             {sight{work: doc("me", "l9"), node: n(2), named: true, away: true, ended: true}, doTake},
		"another rackd's node":                          {sight{work: doc("", ""), node: n(2), others: "b"}, doNothing},
		"a node of no rackd":                            {sight{work: doc("a", "l"), node: n(2), ended: true}, doNothing},
		"central made it anew, and one may remember it": {sight{work: doc("", ""), node: n(2), named: true, early: true}, doWait},
		"no owner":                     {sight{work: doc("", ""), node: n(2), named: true}, doTake},
		"a newer document of the node": {sight{work: doc("", ""), node: n(3), named: true}, doTake},
		"a dead owner":                 {sight{work: doc("a", "l"), node: n(2), named: true, ended: true}, doTake},
		"an owner that lives":          {sight{work: doc("a", "l"), node: n(2), named: true}, doWait},
	} {
		s := c.sight
		s.name, s.leased = "me", s.lease == ""
		if s.lease = ""; s.leased {
			s.lease = "l1"
		}
		got := decide(s)
		if got.do != c.want || got.reason == "" || (got.again > 0) != s.early {
			t.Errorf("%s: %q, because %q, again after %s; want %q", name, got.do, got.reason, got.again, c.want)
		}
	}
}
