package view

import (
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A rackd that stands in for another group follows that group's works too, and who may
// write those could write one about a node of any group. So works are kept by their keys,
// and a node's is the one under the group that the node's document names, which only
// central writes.

// workOf returns a node's work; the lock is held. Of a node whose document is not there it
// is the only one that there is: nothing is done with it before the document comes.
func (v *View) workOf(id string) (found *Work) {
	if n := v.nodes[id]; n != nil {
		var room [128]byte // so that the key takes no memory of its own
		key := append(append(append(room[:0], n.kind.token...), '.'), id...)
		return v.works[string(key)]
	}
	for group := range v.shown {
		if w := v.works[group+"."+id]; w != nil {
			if found != nil {
				return nil
			}
			found = w
		}
	}
	return found
}

// dropWork is called with the lock held.
func (v *View) dropWork(key string) {
	delete(v.works, key)
	delete(v.liars, key)
	if id := bus.NodeOfKey(key); v.workOf(id) == nil {
		v.closeNode(id)
	}
}

// movedWithin is how long after a node has come to another group its works may be seen
// before its document: the two buckets are followed side by side.
const movedWithin = 5 * time.Second

// tellLiars tells, once each, of the works of a group whose node is of another.
func (v *View) tellLiars(group string) {
	told := map[string]error{}
	v.mu.Lock()
	for key, w := range v.works {
		if bus.GroupOfKey(key) != bus.GroupToken(group) || v.liars[key] || time.Since(w.Seen) < movedWithin {
			continue
		}
		if n := v.nodes[bus.NodeOfKey(key)]; n != nil && bus.GroupToken(n.kind.group) != bus.GroupOfKey(key) {
			v.liars[key] = true
			told[key] = fmt.Errorf("%w: the node is of conductor group %q; the work is not done", bus.ErrLie, n.kind.group)
		}
	}
	v.mu.Unlock()
	for key, err := range told {
		v.site.Refuse(v.log, bus.WorkBucket, key, err)
	}
}
