package powersync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

func faulted(n *node.Document) bool { return n.Maintenance && n.Fault == node.PowerFailure }

// wants says whether a node's power is read.
func (s *Sync) wants(n *node.Document, hw *driver.Hardware) bool {
	if n.State.In(provision.PowerSyncExcluded) || n.Maintenance && !faulted(n) {
		return false
	}
	s.mu.Lock()
	f := s.faults[n.UUID]
	ended := f != nil && f.shown && !faulted(n)
	switch {
	case ended:
		s.faults[n.UUID] = &fault{asked: true}
	case f != nil:
		f.shown = faulted(n)
	case faulted(n):
		s.faults[n.UUID] = &fault{shown: true}
	}
	s.mu.Unlock()
	if ended { // an operator has taken it out of maintenance: a new trial, with a login of its own
		s.cfg.Tasks.Forget(Name, n, hw)
	}
	return true
}

// read reads a node's power and reports it. What is not reported is so at the next read; the nodes' keeper tells the log,
// of all of them together.
func (s *Sync) read(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	began := time.Now()
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	if s.asked(n.UUID) {
		reading = driver.WithTry(reading)
	}
	state, err := hw.Power().PowerState(reading, n)
	cancel()
	if err != nil {
		if driver.TryOf(reading).Spent() {
			s.answered(n.UUID)
		}
		if sent(err) && ctx.Err() == nil {
			s.cfg.Metrics.PowerRead(resultOf(err))
		}
		return err
	}
	s.cfg.Metrics.PowerRead(resultOf(nil))
	s.sight(n, hw)
	s.mu.Lock()
	delete(s.faults, n.UUID)
	s.mu.Unlock()
	if state == "" && !faulted(n) {
		return nil // nothing tells it
	}
	if now, _, err := s.cfg.Nodes.Idle(n.UUID); err != nil || now == nil {
		return nil // work has begun meanwhile and knows better
	}
	if faulted(n) {
		s.recovered(ctx, n, state, began)
		return nil
	}
	if s.cfg.Nodes.SawPower(ctx, n, state, began, s.cfg.Force && switchable(hw)) == nil {
		// The account answers, so there is no harm in asking it for the rest.
		_ = s.cfg.Nodes.SawHardware(ctx, n, hw)
	}
	return nil
}

// asked reports whether an operator has ended the node's fault, and no read since has found out whether the BMC is well again. One that
// was held back, or not answered, has not.
func (s *Sync) asked(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.faults[id]
	return f != nil && f.asked
}

// answered notes that the BMC has refused the login that the operator had asked for.
func (s *Sync) answered(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.faults[id]; f != nil {
		f.asked = false
	}
}

// sent reports whether a read that failed has sent something to the BMC. One that rests, or has refused the credentials before, is sent
// nothing.
func sent(err error) bool {
	if _, resting := errors.AsType[driver.Resting](err); resting {
		return false
	}
	held, is := errors.AsType[driver.Withheld](err)
	return !is || held.Tried()
}

// switchable reports whether a machine can be brought into either state.
func switchable(hw *driver.Hardware) bool {
	targets := hw.Power().PowerTargets()
	return slices.Contains(targets, driver.PowerOn) && slices.Contains(targets, driver.PowerOff)
}

// resultOf names an outcome in the metrics.
func resultOf(err error) string {
	if r := periodic.Result(err); r != "unsupported" {
		return r
	}
	return "failed"
}

// toldFor is how long a reported fault may take to show in the node's document:
// central may be away for long, and every report is a line in the node's history.
const toldFor = time.Hour

// troubled reports a node whose BMC has failed often enough, once.
func (s *Sync) troubled(ctx context.Context, n *node.Document, t periodic.Trouble) {
	enough := s.cfg.Failures
	if enough <= 0 {
		enough = 3
	}
	if t.Failures < enough && !t.Held || n.Maintenance { // what is held back fails no more
		return
	}
	s.mu.Lock()
	f := s.faults[n.UUID]
	skip := f != nil && f.told != 0 && time.Since(s.began)-f.told < toldFor
	s.mu.Unlock()
	if skip {
		return
	}
	why := fmt.Sprintf("The power state could not be read %d times in a row, so the node is in maintenance until it can be: %v", t.Failures, t.Why)
	switch {
	case t.Held:
		why = fmt.Sprintf("The BMC refuses the credentials, so the node is in maintenance until it takes them: %v", t.Why)
	case t.Denied:
		why = fmt.Sprintf("The BMC refused the credentials %d times in a row, so the node is in maintenance until it takes them. They are tried again at growing intervals of up to %s, so that the account is not locked out, and at once when driver_info changes: %v",
			t.Failures, periodic.MaxPause, t.Why)
	}
	err := s.cfg.Nodes.Report(ctx, work.Event{Kind: work.PowerObserved, Node: n.UUID, Group: n.Group, Rackd: s.cfg.Name, Time: time.Now().UTC(),
		Power: string(driver.PowerError), SetMaintenance: true, Fault: node.PowerFailure, Error: why})
	if err != nil { // again at the next look
		return
	}
	s.mu.Lock()
	if s.faults[n.UUID] == nil {
		s.faults[n.UUID] = &fault{}
	}
	s.faults[n.UUID].told = time.Since(s.began)
	s.mu.Unlock()
}

// recovered reports a node whose BMC answers again.
func (s *Sync) recovered(ctx context.Context, n *node.Document, state driver.PowerState, at time.Time) {
	s.cfg.Log.Info("the BMC answers again", "node", n.UUID, "power", string(state))
	// What cannot be told is told with the next read.
	_ = s.cfg.Nodes.Report(ctx, work.Event{Kind: work.PowerObserved, Node: n.UUID, Group: n.Group, Rackd: s.cfg.Name, Time: at.UTC(),
		Power: string(state), Cleared: node.PowerFailure})
}
