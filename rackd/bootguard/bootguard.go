// Package bootguard is the periodic task that reads back which device machines boot from. A BMC that has forgotten what was set for all
// starts is told again, and the node's history names it.
//
// It may import protocol, rackd/driver and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It touches active nodes without work, and only those of which a flow or a request has set a device for all starts. Where firmware
//     loads the instance from a rackd, rackd/mediaguard does.
//   - A device that is set for one start is left alone until that start has happened.
//   - Power is never touched. The fence is asked before the write, by the driver.
package bootguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/periodic"
)

// Name of the task.
const Name = "boot-order"

// AfterStart is how long after its start a machine is looked at: its firmware has used the boot device by then.
const AfterStart = 3 * time.Minute

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Fence returns the fence of a write to an idle node's machine.
	Fence(n *node.Document) driver.Fence
	// TellLog reports lines about a node that has no work.
	TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error
}

const (
	// within bounds a look with its write.
	within = 2 * time.Minute
	// again is how often a BMC that forgets each time is told of.
	again = 24 * time.Hour
)

type guard struct {
	nodes Nodes

	mu   sync.Mutex
	told map[string]time.Time // by node: when its BMC was told of last
}

// Task guards the boot order of nodes.
func Task(every time.Duration, nodes Nodes) periodic.Task {
	g := &guard{nodes: nodes, told: map[string]time.Time{}}
	return periodic.Task{Name: Name, Every: every, Workers: 4, Wants: wants, Do: g.look, Gone: g.forget}
}

// forget forgets a node that has left the group.
func (g *guard) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.told, id)
}

func wants(n *node.Document, hw *driver.Hardware) bool {
	_, fixed := hw.Management().(driver.FixedBootOrder)
	return n.BootSet != "" && n.State == provision.Active && !n.Maintenance && !fixed && !elsewhere(n, hw)
}

// elsewhere reports whether the firmware loads the instance from a rackd, by a URL that rackd/mediaguard holds.
func elsewhere(n *node.Document, hw *driver.Hardware) bool {
	_, keeps := hw.KeepsMedia(n)
	return keeps && n.BootSet == string(driver.BootHTTP)
}

func (g *guard) look(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	is, err := hw.Management().BootDevice(ctx, n)
	if err != nil {
		return err
	}
	if is.Device == n.BootSet && (is.Persistent == nil || *is.Persistent) || once(is) {
		return nil
	}
	err = driver.Settle(func() error { return setAgain(ctx, g.nodes.Fence(n), n, hw) })
	if errors.Is(err, driver.ErrFenced) {
		return nil // work has begun, or another rackd has the node: they know better
	}
	found := "no boot device"
	if is.Device != "" {
		found = "the boot device " + is.Device
	}
	detail := fmt.Sprintf("the BMC has forgotten %s and shows %s; %s was set again", n.BootSet, found, n.BootSet)
	if err != nil {
		detail = fmt.Sprintf("the BMC has forgotten %s and shows %s; it could not be set again: %v", n.BootSet, found, err)
	}
	var o hardware.Observation
	hw.Remember(n, &o)
	g.tell(ctx, n, o, detail)
	return err
}

// setAgain sets what was set for all starts: with the URL, where firmware loads the instance.
func setAgain(ctx context.Context, f driver.Fence, n *node.Document, hw *driver.Hardware) error {
	m := hw.Management()
	if loader, loads := hw.Boot().(driver.InstanceLoader); loads && n.BootSet == string(driver.BootHTTP) {
		if h, can := m.(driver.HTTPBooter); can && loader.InstanceURL(n) != "" {
			return h.SetHTTPBoot(ctx, f, n, loader.InstanceURL(n), true)
		}
	}
	return m.SetBootDevice(ctx, f, n, driver.BootDevice(n.BootSet), true)
}

// once reports whether a device is set for the next start only.
func once(d ask.BootDevice) bool { return d.Device != "" && d.Persistent != nil && !*d.Persistent }

// tell writes a line of history, at most one in the time again, and what the drivers are to keep. What cannot be told now may
// be so at the next look.
func (g *guard) tell(ctx context.Context, n *node.Document, o hardware.Observation, detail string) {
	g.mu.Lock()
	last, before := g.told[n.UUID]
	g.mu.Unlock()
	lines := []work.Line{{Time: time.Now().UTC(), Phase: "boot order", Detail: detail}}
	if before && time.Since(last) < again {
		if lines = nil; o.Empty() {
			return
		}
	}
	if g.nodes.TellLog(ctx, n, &o, lines) != nil || lines == nil {
		return
	}
	g.mu.Lock()
	g.told[n.UUID] = time.Now()
	g.mu.Unlock()
}
