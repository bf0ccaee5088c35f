package conductor

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/view"
)

// action is what a rackd does about the work of a node.
type action string

const (
	doNothing action = "nothing"
	doForget  action = "forget it"               // the work is gone: what runs for it stops
	doStop    action = "stop"                    // what runs here may not go on
	doRemind  action = "write it again"          // this rackd remembers where the work stood, and the bus does not
	doReport  action = "report its end"          // the rackd that ended the work may not have said so
	doGoOn    action = "go on"                   // its runner looks at what has changed
	doHandOn  action = "hand on"                 // its runner gives the work away between two steps
	doWait    action = "wait"                    // another event decides
	doTake    action = "take it and do the work" // begin, or go on where the work stopped
)

// decision is what is to be done, with the reason for people. again, if not 0, is when to decide once more, without an event.
type decision struct {
	do     action
	reason string
	again  time.Duration
}

// sight is all that decides over a node's work.
type sight struct {
	work   *view.Work     // nil: the bus has none
	node   *node.Document // nil: it is not known, or another rackd reads it
	runner *runs          // nil: nothing runs here for the node
	name   string         // of this rackd
	leased bool           // this rackd has a lease
	lease  string         // its id
	named  bool           // the ring gives the node to this rackd
	others string         // the rackd that the ring gives the node to, if that is another
	away   bool           // a living rackd of the same name, in another group, holds the work's lease
	ended  bool           // the lease of the work's owner is certainly over
	early  bool           // a rackd that remembers a lost work may still say so
}

// runs is what is known of the runner of a node's work.
type runs struct {
	id, lease string
	epoch     uint64
}

// decide says what this rackd does about a node's work, and why. It depends on s alone.
func decide(s sight) decision {
	switch w := s.work; {
	case w == nil:
		return decision{do: doForget, reason: "the bus has no work of this node"}
	case !w.Doc.Open():
		return s.overEnded()
	case s.runner != nil:
		return s.overRunning()
	case w.Remembered && w.Doc.Owner == "" && !s.named && s.leased:
		return decision{do: doRemind, reason: "the bus has lost where the work stood, this rackd remembers it, and the rackd that the ring names may not"}
	case s.node == nil:
		return decision{do: doWait, reason: "the node's document is not known here"}
	case s.node.Generation < w.Doc.Generation:
		return decision{do: doWait, reason: fmt.Sprintf("the node's document is of request %d, and the one for the work's request %d is on its way", s.node.Generation, w.Doc.Generation)}
	}
	return s.overOpen()
}

// overEnded decides over work that has ended.
func (s sight) overEnded() decision {
	w := s.work
	switch {
	case w.Lost && s.runner != nil:
		return decision{do: doStop, reason: "the work has ended, and the bus has lost it"}
	case w.Lost:
		return decision{do: doNothing, reason: "the work has ended, and the bus has lost it"}
	case s.runner != nil && s.runner.id != w.Doc.ID:
		return decision{do: doStop, reason: "another work has followed, and has ended"}
	case s.runner != nil:
		// The runner has ended the work and is about to say so, or had lost it and writes no more.
		return decision{do: doNothing, reason: "the runner that ended the work reports that"}
	case w.Remembered && w.Doc.Owner == "" && s.leased:
		// An end too is written before it is reported: what is only remembered may be what another rackd, which does not
		// remember it, is about to do again.
		return decision{do: doRemind, reason: "the bus has lost that the work has ended, and this rackd remembers it"}
	case s.named && !w.Remembered:
		return decision{do: doReport, reason: "the work has ended and is not cleared away: its end may not have been reported"}
	}
	return decision{do: doNothing, reason: "the work has ended"}
}

// overRunning decides over open work for which a runner runs here. When a runner that stops is out, the work is decided over again.
func (s sight) overRunning() decision {
	w, r := s.work, s.runner
	switch {
	case w.Lost:
		return decision{do: doStop, reason: "the bus has lost the work"}
	case r.id != w.Doc.ID:
		return decision{do: doStop, reason: "another work has followed"}
	case w.Doc.Epoch > r.epoch:
		return decision{do: doStop, reason: "another owner has taken the work"}
	case !s.leased:
		return decision{do: doStop, reason: "this rackd has no lease"}
	case r.lease != s.lease:
		return decision{do: doStop, reason: "the lease under which the work was taken has ended"}
	case s.others != "":
		return decision{do: doHandOn, reason: "the ring gives the node to rackd " + s.others}
	}
	return decision{do: doGoOn, reason: "this rackd holds the work"}
}

// overOpen decides over open work for which nothing runs here: this rackd goes on with its own, or with what the ring gives it
// and no living rackd holds.
func (s sight) overOpen() decision {
	d := &s.work.Doc
	switch {
	case !s.leased:
		return decision{do: doWait, reason: "this rackd has no lease"}
	case s.work.Lost && d.Owner == s.name && d.Lease == s.lease:
		// Only an owner whose lease has never ended is sure to remember the work's last document.
		return decision{do: doTake, reason: "the bus has lost the work, and this rackd is sure where it stood"}
	case s.work.Lost:
		return decision{do: doWait, reason: "the bus has lost the work: what is remembered may be older than what was done"}
	case d.Owner == s.name && !s.away:
		return decision{do: doTake, reason: "it is this rackd's, from before a restart or a moment without a lease"}
	case !s.named && s.others != "":
		return decision{do: doNothing, reason: "the ring gives the node to rackd " + s.others}
	case !s.named:
		return decision{do: doNothing, reason: "the ring gives the node to no rackd"}
	case d.Owner == "" && s.early:
		return decision{do: doWait, reason: "central has made the work anew, and a rackd may remember where it stood", again: remindWithin}
	case d.Owner == "":
		return decision{do: doTake, reason: "the ring gives the node to this rackd, and the work has no owner"}
	case s.ended:
		return decision{do: doTake, reason: "the lease of its owner, rackd " + d.Owner + ", has ended"}
	}
	return decision{do: doWait, reason: "its owner, rackd " + d.Owner + ", lives or may live"}
}

// remindWithin is how long a rackd waits with work that central had to make again. A rackd that remembers where it stood says so
// within that time.
const remindWithin = 2 * time.Second

// awaitWithin is how long it waits for one that was there and is not: it may be cut off, and the only one who remembers.
const awaitWithin = 20 * time.Second

// look gathers what decides over a node's work.
func (c *Conductor) look(id string) (s sight) {
	s = sight{work: c.cfg.Documents.Work(id), name: c.cfg.Name}
	if s.work == nil {
		return s // a node's document, which has to be opened, decides nothing then
	}
	s.node = c.cfg.Documents.Node(id)
	if r := c.runner(id); r != nil {
		s.runner = &runs{id: r.ID(), lease: r.Lease(), epoch: r.Epoch()}
	}
	members := c.cfg.Members
	s.leased, s.lease = members.Check() == nil, members.ID()
	if driver, group, known := c.cfg.Documents.Kind(id); known {
		switch owner := members.Owner(id, driver, group); owner {
		case c.cfg.Name:
			s.named = s.leased
		default:
			s.others = owner
		}
	}
	if s.work == nil || s.node == nil || s.runner != nil || !s.work.Doc.Open() {
		return s
	}
	switch d := &s.work.Doc; d.Owner {
	case "":
		s.early = s.named && d.Fresh() && d.Lost && (time.Since(s.work.Seen) < remindWithin || members.Incomplete(s.node.Group, awaitWithin, remindWithin))
	case c.cfg.Name:
		s.away = members.Elsewhere(d.Lease)
		fallthrough
	default:
		s.ended = members.Ended(d.Owner, d.Lease, s.node.Group, s.work.Seen)
	}
	return s
}
