// Package bootguard is the periodic task that reads back which device machines boot from. A BMC that has forgotten what was set for all
// starts is told again, and the node's history names it. A device for one start that the
// start has not used up is taken back.
//
// It may import protocol, rackd/driver, rackd/driver/volume and rackd/periodic; it declares what else it needs.
// Invariants:
//   - It touches nodes without work in states of provision.BootHeld, and only those of which a flow or a request has set a device for all
//     starts. Where firmware loads the instance from a rackd, rackd/mediaguard does.
//   - A device that is set for one start is left alone until that start has happened, and firmware had its time.
//   - Power is never touched. The fence is asked before the write, by the driver.
package bootguard

import (
	"cmp"
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
	"github.com/ironyard/ironyard/rackd/driver/volume"
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
	// BootAsked tells when a request has set a node's boot device last, which, and whether for all starts. device is empty where a flow may
	// have set another since. at is zero where that is not known.
	BootAsked(id string) (at time.Time, device string, lasts bool)
	// OursSince tells since when this rackd has known of the requests about a node. It is zero where the node is another rackd's.
	OursSince(id string) time.Time
	// StartAfter tells when a request for power has started the machine after that; zero: not known.
	StartAfter(id string) time.Time
}

const (
	// takenIn is how long a device that a request has set may take to come back in the node's document. Another rackd may have set it, or
	// this one before it was started again.
	takenIn = 3 * time.Minute
	// within bounds a look with its write.
	within = 2 * time.Minute
	// often is how often the history names a BMC that forgets each time. What comes in between is counted for the next line.
	often = time.Hour
	// again is how often the history says of a node what lasts: that its BMC refuses, or that its firmware shows no disk.
	again = 24 * time.Hour
	// phase of the lines in the history that are about no volume.
	phase = "boot order"
)

type guard struct {
	nodes Nodes

	mu   sync.Mutex
	told map[string]last // by node
	seen map[string]seen // by node: what the last look has found
}

// seen is what a look has found.
type seen struct {
	// once is the device that was set for one start, and at when that was seen first; empty: there was none.
	once string
	at   time.Time
	// right is when the device for all starts was the right one last, or was set again.
	right time.Time
}

// last is what the history was told of a node last, and when.
type last struct {
	found finding
	at    time.Time
	// unnamed is how often the BMC has forgotten since, and was set again without a line.
	unnamed int
}

// waits reports whether the history is told of the same finding at another look.
func (l last) waits(found finding) bool {
	pause := again
	switch found {
	case setAgain, replaced:
		pause = often
	case outlived:
		pause = 0
	}
	return l.found == found && time.Since(l.at) < pause
}

// counted says how often the BMC has forgotten without a line.
func (l last) counted() string {
	times := "once"
	if l.unnamed > 1 {
		times = fmt.Sprintf("%d times", l.unnamed)
	}
	return fmt.Sprintf("it had also forgotten %s since %s", times, l.at.UTC().Format(time.RFC3339))
}

// finding is what came of a look at a device that is not the one which was set.
type finding int

const (
	_        finding = iota
	setAgain         // it is so again, from the machine's next start on
	refused          // it could not be set
	replaced         // it is so again, and a device for one start may have taken its place
	notShown         // it is a volume, and the machine's firmware shows none
	outlived         // it was for one start, and that start has not used it up
	kept             // it was so, and cannot be taken back
)

// Task guards the boot order of nodes.
func Task(every time.Duration, nodes Nodes) periodic.Task {
	g := &guard{nodes: nodes, told: map[string]last{}, seen: map[string]seen{}}
	return periodic.Task{Name: Name, Every: every, Workers: 4, Wants: g.wants, Do: g.look, Gone: g.forget}
}

// right is told that a node's device is the right one. A volume that is not shown after this is news. What was counted gets its line, also
// where the BMC forgets no more.
func (g *guard) right(ctx context.Context, n *node.Document) {
	g.isRight(n.UUID)
	g.mu.Lock()
	was := g.told[n.UUID]
	if was.found == notShown {
		delete(g.told, n.UUID)
	}
	g.mu.Unlock()
	if was.unnamed == 0 || was.waits(setAgain) {
		return
	}
	line := work.Line{Time: time.Now().UTC(), Phase: phase, Detail: fmt.Sprintf("the BMC has %s now; %s", n.BootSet, was.counted())}
	if g.nodes.TellLog(ctx, n, &hardware.Observation{}, []work.Line{line}) == nil {
		g.note(n.UUID, last{found: setAgain, at: time.Now()})
	}
}

// note notes what the history has of a node.
func (g *guard) note(id string, is last) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[id] = is
}

// forget forgets a node that has left the group.
func (g *guard) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.told, id)
	delete(g.seen, id)
}

func (g *guard) wants(n *node.Document, hw *driver.Hardware) bool {
	_, fixed := hw.Management().(driver.FixedBootOrder)
	return (n.BootSet != "" || g.awaits(n.UUID)) && n.State.In(provision.BootHeld) && !n.Maintenance && !fixed && !elsewhere(n, hw)
}

// elsewhere reports whether the firmware loads the instance from a rackd, by a URL that rackd/mediaguard holds.
func elsewhere(n *node.Document, hw *driver.Hardware) bool {
	_, keeps := hw.KeepsMedia(n)
	return keeps && n.BootSet == string(driver.BootHTTP)
}

func (g *guard) look(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ours := g.nodes.OursSince(n.UUID)
	is, err := hw.Management().BootDevice(ctx, n)
	if err != nil {
		return err
	}
	if once(is) {
		return g.oneStart(ctx, n, hw, is.Device)
	}
	byOther := g.otherMaySet(n)
	g.sawNone(n.UUID)
	if n.BootSet == "" {
		return nil
	}
	if is.Device == n.BootSet {
		g.right(ctx, n)
		return nil
	}
	if is.Device != "" && time.Since(ours) < takenIn {
		return nil // a request may have set it by the rackd that had the node before
	}
	err = driver.Settle(func() error { return set(ctx, g.nodes.Fence(n), n, hw) })
	if errors.Is(err, driver.ErrFenced) {
		return nil // work has begun, or another rackd has the node: they know better
	}
	what, line := lineOf(n, is.Device, err)
	if what == setAgain {
		g.isRight(n.UUID)
		if byOther {
			what = replaced
			line.Detail = fmt.Sprintf("%s, which was set for all starts, is so no more, and the BMC shows %s: a device for one start has taken its place, or the BMC has forgotten it; %s was set again",
				n.BootSet, cmp.Or(is.Device, "no boot device"), n.BootSet)
		}
	}
	var o hardware.Observation
	hw.Remember(n, &o)
	g.tell(ctx, n, o, what, line)
	return err
}

// lineOf is what the history is to say. shown is the device that the BMC shows; err says why it does not take the right one.
func lineOf(n *node.Document, shown string, err error) (finding, work.Line) {
	volumes := n.BootSet == string(driver.BootISCSI)
	if volumes && errors.Is(err, driver.ErrUnsupported) {
		if look, unread := volume.Look(n); unread == nil {
			return notShown, work.Line{Phase: "volume", Detail: fmt.Sprintf("the machine's firmware shows no iSCSI disk, and so does not boot the node's volume: it did not log in at its last start. "+
				"%s. Restart the machine after that: once its firmware has logged in, the disk is made its boot device again: %v", look, err)}
		}
	}
	detail := fmt.Sprintf("the BMC has forgotten %s and shows no boot device", n.BootSet)
	if shown != "" {
		detail = fmt.Sprintf("the BMC has forgotten %s and shows the boot device %s", n.BootSet, shown)
	}
	switch {
	case err != nil:
		return refused, work.Line{Phase: phase, Detail: fmt.Sprintf("%s; it could not be set again: %v", detail, err)}
	case volumes:
		detail += "; " + n.BootSet + " was set again, and counts from the machine's next start. If it does not run its volume now, restart it"
	default:
		detail += "; " + n.BootSet + " was set again"
	}
	return setAgain, work.Line{Phase: phase, Detail: detail}
}

// set sets what was set for all starts: with the URL, where firmware loads the instance.
func set(ctx context.Context, f driver.Fence, n *node.Document, hw *driver.Hardware) error {
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

// tell writes a line of history, and what the drivers are to keep. A forgetting that gets no line is counted in the next one. What
// cannot be told now may be so at the next look.
func (g *guard) tell(ctx context.Context, n *node.Document, o hardware.Observation, found finding, line work.Line) {
	g.mu.Lock()
	before := g.told[n.UUID]
	wait := before.waits(found)
	if more := before; found == setAgain && !more.at.IsZero() {
		more.unnamed++
		g.told[n.UUID] = more
	}
	g.mu.Unlock()
	if wait {
		if !o.Empty() {
			_ = g.nodes.TellLog(ctx, n, &o, nil)
		}
		return
	}
	if line.Time = time.Now().UTC(); before.unnamed > 0 {
		line.Detail += "; " + before.counted()
	}
	if g.nodes.TellLog(ctx, n, &o, []work.Line{line}) == nil {
		g.note(n.UUID, last{found: found, at: time.Now()})
	}
}
