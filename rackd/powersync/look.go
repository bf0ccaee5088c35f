package powersync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// look reads a node's power, if that is to be, and returns when to look again.
func (s *Sync) look(ctx context.Context, id string) (due time.Time) {
	usual := time.Now().Add(spread(s.cfg.Every))
	n, hw, err := s.cfg.Nodes.Idle(id)
	if err != nil || n == nil {
		return usual // what is wrong with its fields, the next piece of work says
	}
	faulted := n.Maintenance && n.Fault == node.PowerFailure
	if n.State.In(provision.PowerSyncExcluded) || n.Maintenance && !faulted {
		s.settle(id, false)
		return usual
	}
	account := id
	if shared, ok := hw.Power().(driver.Accounted); ok && shared.Account(n) != "" {
		account = shared.Account(n)
	}
	known, wait := s.begin(id, account, faulted)
	if !wait.IsZero() {
		if known != nil {
			s.fault(ctx, n, *known)
		}
		return wait
	}
	began := time.Now()
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	state, err := hw.Power().PowerState(reading, n)
	cancel()
	if err != nil && ctx.Err() != nil {
		s.end(account)
		return usual
	}
	if resting, ok := errors.AsType[driver.Resting](err); ok {
		s.end(account)
		return resting.Until().Add(spread(look))
	}
	s.cfg.Metrics.PowerRead(resultOf(err))
	if err != nil {
		t := s.failure(id, account, err)
		s.cfg.Log.Warn("power state not read", "node", id, "failures", t.failures, "again", t.until.Round(time.Second), "error", err)
		s.fault(ctx, n, t)
		return t.until
	}
	s.success(id, account)
	if state == "" && !faulted {
		return usual // nothing tells it
	}
	if now, _, err := s.cfg.Nodes.Idle(id); err != nil || now == nil {
		return usual // work has begun meanwhile and knows better
	}
	if faulted {
		err = s.recovered(ctx, n, state, began)
	} else {
		err = s.cfg.Nodes.SawPower(ctx, n, state, began)
	}
	if err == nil && !faulted {
		// The account answers, so there is no harm in asking it for the rest.
		_ = s.cfg.Nodes.SawHardware(ctx, n, hw)
	}
	// What is not reported is so at the next read; the nodes' keeper tells the log, of all of them together.
	return usual
}

// begin claims an account for a read. wait is set when it is not to be asked now;
// known then says what is wrong with it, if that is why.
func (s *Sync) begin(id, account string, faulted bool) (known *trouble, wait time.Time) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[id]
	if m == nil {
		m = &machine{}
	}
	if m.faulted && !faulted {
		// An operator has taken it out of maintenance: a new trial.
		delete(s.troubles, account)
		delete(s.troubles, id)
		m.told = 0
	}
	m.faulted = faulted
	for _, key := range []string{account, id} {
		if t := s.troubles[key]; t != nil && now.Before(t.until) {
			m.failing = true
			copied := *t
			return &copied, t.until.Add(spread(look))
		}
	}
	if s.asking[account] {
		return nil, now.Add(spread(2 * look))
	}
	s.asking[account] = true
	return nil, time.Time{}
}

func (s *Sync) end(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, account)
}

// failure notes a read that failed. A BMC that is silent or refuses the credentials
// does so for all nodes behind it; anything else concerns this one.
func (s *Sync) failure(id, account string, err error) trouble {
	key := id
	if errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrDenied) {
		key = account
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, account)
	t := s.troubles[key]
	if t == nil {
		t = &trouble{}
		s.troubles[key] = t
	}
	s.cfg.failed(t, err, time.Now())
	if m := s.machines[id]; m != nil {
		m.failing = true
	}
	return *t
}

func (s *Sync) success(id, account string) {
	s.mu.Lock()
	delete(s.asking, account)
	delete(s.troubles, account)
	delete(s.troubles, id)
	s.mu.Unlock()
	s.settle(id, true)
}

// settle forgets that a node was failing; well: because it answers.
func (s *Sync) settle(id string, well bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil {
		m.failing = false
		if well {
			m.told, m.faulted = 0, false
		}
	}
}

// toldFor is how long a reported fault may take to show in the node's document:
// central may be away for long, and every report is a line in the node's history.
const toldFor = time.Hour

// fault reports a node whose BMC has failed often enough, once.
func (s *Sync) fault(ctx context.Context, n *node.Document, t trouble) {
	if t.failures < s.cfg.Failures || n.Maintenance {
		return
	}
	s.mu.Lock()
	m := s.machines[n.UUID]
	skip := m == nil || m.told != 0 && s.micros(time.Now())-m.told < toldFor.Microseconds()
	s.mu.Unlock()
	if skip {
		return
	}
	why := fmt.Sprintf("The power state could not be read %d times in a row, so the node is in maintenance until it can be: %v", t.failures, t.why)
	if t.denied {
		why = fmt.Sprintf("The BMC refused the credentials %d times in a row, so the node is in maintenance until it takes them. They are tried again at growing intervals of up to %s, so that the account is not locked out, and at once when driver_info changes: %v",
			t.failures, maxPause, t.why)
	}
	err := s.cfg.Nodes.Report(ctx, work.Event{Kind: work.PowerObserved, Node: n.UUID, Group: n.Group, Rackd: s.cfg.Name, Time: time.Now().UTC(),
		Power: string(driver.PowerError), SetMaintenance: true, Fault: node.PowerFailure, Error: why})
	if err != nil { // again at the next look
		return
	}
	s.mu.Lock()
	m.told = s.micros(time.Now())
	s.mu.Unlock()
}

// recovered reports a node whose BMC answers again.
func (s *Sync) recovered(ctx context.Context, n *node.Document, state driver.PowerState, at time.Time) error {
	s.cfg.Log.Info("the BMC answers again", "node", n.UUID, "power", string(state))
	return s.cfg.Nodes.Report(ctx, work.Event{Kind: work.PowerObserved, Node: n.UUID, Group: n.Group, Rackd: s.cfg.Name, Time: at.UTC(),
		Power: string(state), Cleared: node.PowerFailure})
}
