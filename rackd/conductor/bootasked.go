package conductor

import (
	"slices"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// bootAsked are boot devices that requests have set at a machine, and that its node's document does not show yet.
type bootAsked struct {
	// was is the device in the document when the first of them was asked for.
	was string
	// devices are those for all starts, in turn; none: it was for one start.
	devices []string
	// writing counts requests that are under way.
	writing int
	until   time.Time
}

// How long a request stands against the writes of those that looked before it, and how long one waits for its document at most. A look
// lasts for two minutes (rackd/bootguard). Central may be away for long, but the map is to have an end.
const (
	lookedBefore = 3 * time.Minute
	documentIn   = 24 * time.Hour
)

// SettingBoot tells that a request sets a node's boot device: until its document shows that one, fences of writes that no request asked for
// fall. over is called with whether it was set, and reported where it lasts and is held.
func (c *Conductor) SettingBoot(n *node.Document, device string, lasts bool) (over func(set bool)) {
	held := lasts && n.State.In(provision.BootHeld)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for id, a := range c.boots {
		if a.writing == 0 && now.After(a.until) {
			delete(c.boots, id)
		}
	}
	a := c.boots[n.UUID]
	if a == nil {
		a = &bootAsked{was: n.BootSet}
		c.boots[n.UUID] = a
	}
	a.writing++
	return func(set bool) {
		if set {
			c.noteBootSet(n.UUID, device, lasts)
		} else {
			c.noteBootSet(n.UUID, "", false)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		a.writing--
		wait := lookedBefore
		if set && held {
			a.devices = append(a.devices, device)
			wait = documentIn
		}
		if end := time.Now().Add(wait); end.After(a.until) {
			a.until = end
		}
	}
}

// bootPending reports whether a request has set a boot device that the newest document does not show.
func (c *Conductor) bootPending(now *node.Document) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.boots[now.UUID]
	switch {
	case a == nil:
		return false
	case a.writing > 0:
		return true
	case time.Now().After(a.until):
	case len(a.devices) == 0:
		return true
	case now.BootSet == a.devices[len(a.devices)-1]: // it is known
	case now.BootSet != a.was && !slices.Contains(a.devices, now.BootSet): // a flow has set another one since
	default:
		return true
	}
	delete(c.boots, now.UUID)
	return false
}
