package conductor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

func TestIdleNodesAreThoseThatAreOursAndWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		owner := owned("a")
		c, _, kill := conductorOn(t, s, "a", owner, &machine{power: driver.PowerOff}, nil)
		defer kill()
		synctest.Wait()
		idle := func() bool {
			n, hw, err := c.Idle(nodeA)
			if err != nil || (n == nil) != (hw == nil) {
				t.Fatalf("%v, %v, %v", n, hw, err)
			}
			return n != nil
		}
		if !idle() {
			t.Error("a node that is ours and has no work is not idle")
		}
		owner.Store("b")
		if idle() {
			t.Error("another rackd's node is idle here")
		}
		owner.Store("a")
		s.mu.Lock()
		n := s.nodes[nodeA]
		s.mu.Unlock()
		for range 3 {
			if err := c.SawPower(t.Context(), n, driver.PowerOn, time.Now(), false); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.SawPower(t.Context(), n, driver.PowerOff, time.Now(), false); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, e := range s.events {
			if e.Kind == work.PowerObserved {
				told = append(told, e.Power)
			}
		}
		if len(told) != 2 || told[0] != "power on" || told[1] != "power off" {
			t.Errorf("reported %q, want each change once", told)
		}
		// What work told on its way may have been dropped.
		c.forgetPower(work.Event{Node: nodeA, Power: string(driver.PowerOff)})
		if err := c.SawPower(t.Context(), n, driver.PowerOff, time.Now(), false); err != nil {
			t.Fatal(err)
		}
		if e := s.events[len(s.events)-1]; len(s.events) != 3 || e.Kind != work.PowerObserved || e.Power != string(driver.PowerOff) {
			t.Errorf("after work has told: %+v", s.events)
		}
		// Another rackd had the node meanwhile and told of it.
		for _, has := range []string{"b", "a"} {
			owner.Store(has)
			c.RingChanged()
			synctest.Wait()
		}
		for range 2 {
			if err := c.SawPower(t.Context(), n, driver.PowerOff, time.Now(), false); err != nil {
				t.Fatal(err)
			}
		}
		if e := s.events[len(s.events)-1]; len(s.events) != 4 || e.Kind != work.PowerObserved || e.Power != string(driver.PowerOff) {
			t.Errorf("after another rackd had the node: %+v", s.events)
		}
	})
}

// What the boot guard has read is out of date once a request has set something else, also when that work has ended since.
func TestTheIdleFenceFallsWithARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff}, nil)
		defer kill()
		synctest.Wait()
		seen, _, err := c.Idle(nodeA)
		if err != nil || seen == nil {
			t.Fatalf("%v, %v", seen, err)
		}
		before := c.Fence(seen)
		if err := before.Check(); err != nil {
			t.Fatal(err)
		}
		s.request(nodeA, work.Power, provision.Available, work.Args{PowerTarget: string(driver.PowerOn)})
		time.Sleep(time.Hour)
		synctest.Wait()
		now, _, err := c.Idle(nodeA)
		if err != nil || now == nil {
			t.Fatalf("the work has not ended: %v, %v", now, err)
		}
		for name, f := range map[string]driver.Fence{"that was there before": before, "that is made afterwards": c.Fence(seen)} {
			if err := f.Check(); !errors.Is(err, driver.ErrFenced) {
				t.Errorf("a fence %s, for what was seen before a request: %v", name, err)
			}
		}
		if err := c.Fence(now).Check(); err != nil {
			t.Errorf("of what is seen now: %v", err)
		}
		changed := *now
		changed.BootSet = "pxe"
		s.put(&changed)
		if err := c.Fence(now).Check(); !errors.Is(err, driver.ErrFenced) {
			t.Errorf("after another boot device was set: %v", err)
		}
	})
}

// What was the BMC of a node that was deleted may be written to while the node is not there again, and with a lease.
func TestTheFenceOfANodeThatWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff}, nil)
		defer kill()
		synctest.Wait()
		s.mu.Lock()
		n := s.nodes[nodeA]
		s.mu.Unlock()
		f := c.LeftFence(n)
		if err := f.Check(); !errors.Is(err, driver.ErrFenced) || !c.Knows(nodeA) {
			t.Errorf("a node that is there: %v", err)
		}
		s.mu.Lock()
		delete(s.nodes, nodeA)
		s.mu.Unlock()
		if err := f.Check(); err != nil || c.Knows(nodeA) {
			t.Errorf("a node that is gone: %v", err)
		}
		if err := c.Fence(n).Check(); !errors.Is(err, driver.ErrFenced) {
			t.Errorf("the fence of an idle node holds for one that is gone: %v", err)
		}
	})
}
