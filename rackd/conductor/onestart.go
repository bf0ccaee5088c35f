package conductor

import (
	"time"

	"github.com/ironyard/ironyard/protocol/work"
)

// bootKnown is what this rackd knows of the boot device of a machine that it owns. Times count as those of told do.
type bootKnown struct {
	// set is when a request or a flow may have set the device last, and start when a request for power has started the machine since then.
	// 0: never, or not known.
	set, start int32
	// device is what a request has set then; empty: a flow may have set one, or the request has failed.
	device string
	// lasts: it was set for all starts.
	lasts bool
}

// BootAsked tells when a request has set a node's boot device last, which, and whether for all starts. device is empty where a flow may
// have set another since. at is zero where this rackd does not know.
func (c *Conductor) BootAsked(id string) (at time.Time, device string, lasts bool) {
	b := c.lastTold(id).device
	return c.timeOf(b.set), b.device, b.lasts
}

// StartAfter tells when a request for power has started a node's machine, with no request or flow since that may have set its boot device.
// It is zero where this rackd knows of none.
func (c *Conductor) StartAfter(id string) time.Time { return c.timeOf(c.lastTold(id).device.start) }

// timeOf is the moment at which the conductor had an age.
func (c *Conductor) timeOf(age int32) time.Time {
	if age == 0 {
		return time.Time{}
	}
	return c.made.Add(time.Duration(age) * time.Second)
}

// noteBootSet notes that a node's boot device was set, or may have been; device is that of a request.
func (c *Conductor) noteBootSet(id, device string, lasts bool) {
	c.note(id, func(t *told) { t.device = bootKnown{set: max(1, c.age()), device: device, lasts: lasts} })
}

// noteFlowEnded notes that a flow has ended, which may have set the boot device until then.
func (c *Conductor) noteFlowEnded(e work.Event) {
	if e.Verb != work.Power {
		c.noteBootSet(e.Node, "", false)
	}
}

// noteStart notes that a request for power has started a node's machine.
func (c *Conductor) noteStart(id string) {
	c.note(id, func(t *told) { t.device.start = max(1, c.age()) })
}
