package conductor

import (
	"hash/maphash"
	"time"
	"unique"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// told is what this rackd told last of a machine, idle or by work: it need not be said again. What is
// empty may be known to central otherwise, and has to be said.
type told struct {
	power driver.PowerState
	// forced is how often another state was reported since, for central to correct.
	forced uint8
	boot   bootSeen
	device bootKnown
	// kept is the sum of what the drivers keep of the node, and keptAt is when that was told, as at is.
	kept   uint64
	keptAt int32
	// since is when this rackd began to note what is told of the machine: soon after the node has become its own.
	since int32
	// at is when power was told, since the conductor was made. It is small: there is one for each
	// node.
	at int32
}

// powerAgain is how long a power state that was told counts as known. The event that told it may
// have been lost, and the row would stay wrong until the power changes. In this time an idle
// node costs the WAN one event, which is told in well under 1 KiB.
const powerAgain = 6 * time.Hour

// keptAgain is how long the node's document may take to show what the drivers keep, before it is told again.
const keptAgain = time.Minute

// keptSeed is of this process: sums are compared here alone.
var keptSeed = maphash.MakeSeed()

// age returns for how long the conductor has existed, by the monotonic clock, in seconds.
func (c *Conductor) age() int32 { return int32(time.Since(c.made) / time.Second) }

// bootSeen is what was read of how a machine boots and whether it is well, for comparison.
type bootSeen struct {
	mode, health unique.Handle[string] // which all nodes share
	secure       int8
}

func seenOf(o hardware.Observation) (s bootSeen) {
	if o.BootMode != nil {
		s.mode = unique.Make(*o.BootMode)
	}
	if o.Health != nil {
		s.health = unique.Make(*o.Health)
	}
	if o.SecureBoot != nil {
		s.secure = 1
		if *o.SecureBoot {
			s.secure = 2
		}
	}
	return s
}

func (c *Conductor) lastTold(node string) told {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told[node]
}

// note changes what is known to have been told of a node's machine. Of a node that is not ours nothing is: the rackd that
// has it tells of it too.
func (c *Conductor) note(node string, change func(*told)) {
	ours := c.owns(node) // asked without the lock: documents tell of changes under theirs
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ours {
		delete(c.told, node)
		return
	}
	t := c.told[node]
	if t.since == 0 {
		t.since = max(1, c.age())
	}
	change(&t)
	c.told[node] = t
}

// OursSince tells since when this rackd has known of the requests about a node: at the latest since it was first asked for that. It is zero
// where the node is another rackd's.
func (c *Conductor) OursSince(id string) time.Time {
	c.note(id, func(*told) {})
	return c.timeOf(c.lastTold(id).since)
}

// notePower remembers which power state e told, unless err leaves open whether it did.
func (c *Conductor) notePower(e work.Event, err error) {
	if started := c.cfg.Started; started != nil && e.Power == string(driver.PowerOn) && c.lastTold(e.Node).power != driver.PowerOn {
		started(e.Node)
	}
	c.note(e.Node, func(t *told) {
		if t.power, t.forced = "", 0; err == nil {
			t.power, t.at = driver.PowerState(e.Power), c.age()
		}
	})
}

// forgetPower forgets which power state was told last when e tells one that central may drop: then
// the rackd that looks next must be heard.
func (c *Conductor) forgetPower(e work.Event) {
	if e.Power != "" {
		c.note(e.Node, func(t *told) { t.power = "" })
	}
}

// noteHardware remembers what o told, unless err leaves open whether it did.
func (c *Conductor) noteHardware(node string, o *hardware.Observation, err error) {
	if o.Kept != nil {
		c.note(node, func(t *told) {
			if t.kept = 0; err == nil {
				t.kept, t.keptAt = maphash.Bytes(keptSeed, o.Kept), c.age()
			}
		})
	}
	seen := seenOf(*o)
	if seen == (bootSeen{}) {
		return
	}
	c.note(node, func(t *told) {
		if t.boot = (bootSeen{}); err == nil {
			t.boot = seen
		}
	})
}

// forgetOthers forgets, when the ring has changed, what this rackd told of the machines of nodes that are no longer
// its own: one that comes back may have been told of otherwise.
func (c *Conductor) forgetOthers() {
	var nodes []string
	c.mu.Lock()
	if c.newRing {
		for node := range c.told {
			nodes = append(nodes, node)
		}
	}
	c.newRing = false
	c.mu.Unlock()
	for _, node := range nodes {
		c.note(node, func(*told) {})
	}
}
