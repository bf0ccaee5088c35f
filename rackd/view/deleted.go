package view

import "time"

// deletedFor is for how long, at least, it is known that the bus has shown a node's deletion.
const deletedFor = time.Hour

// deletions are the nodes that the bus has shown to be deleted, each with its group's part of a key. A node that is not held may also be
// one of a group that is no longer followed, which other rackds serve.
type deletions struct {
	recent, older map[string]string
	begun         time.Time // of recent
}

func (d *deletions) note(id, group string) {
	if now := time.Now(); d.recent == nil || now.Sub(d.begun) > deletedFor {
		d.recent, d.older, d.begun = map[string]string{}, d.recent, now
	}
	d.recent[id] = group
}

func (d *deletions) drop(id string) {
	delete(d.recent, id)
	delete(d.older, id)
}

// forget drops those of a group: whether such a node is enrolled again is not seen any more.
func (d *deletions) forget(group string) {
	for _, list := range []map[string]string{d.recent, d.older} {
		for id, of := range list {
			if of == group {
				delete(list, id)
			}
		}
	}
}

// Deleted reports whether the bus has shown that a node was deleted, and nothing of it since. Its group is still followed. A deletion of
// long ago may be forgotten.
func (v *View) Deleted(id string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, recent := v.deleted.recent[id]
	_, older := v.deleted.older[id]
	return recent || older
}
