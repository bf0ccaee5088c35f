package console

import (
	"crypto/rand"
	"time"

	"github.com/ironyard/ironyard/protocol/consolecopy"
)

// copied is what a record knows of its copy. The record's mu guards it.
type copied struct {
	at       Place
	revision uint64    // of what lies at that place; 0: nothing
	log      string    // the record's id when it was copied last
	end      int64     // the record's end then
	key      string    // that the copy was sealed with
	since    time.Time // when the machine first wrote something that the copy has not
	last     time.Time // when the machine wrote last
	next     time.Time // before that the copy is not written again
	loaded   bool      // the copy that was there was looked for
	own      bool      // the machine has written since then
}

// wrote notes that the machine has written.
func (c *copied) wrote(now time.Time) {
	c.last, c.own = now, true
	if c.since.IsZero() {
		c.since = now
	}
}

// begin readies a record for a node that this rackd owns now. Another rackd may have written a copy.
func (r *record) begin(at Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copied.at != at {
		r.copied = copied{at: at}
	}
	r.copied.loaded, r.copied.own = false, false
}

// late reports whether the copy is not what the record is. mu is held.
func (r *record) late(key string) bool {
	c := &r.copied
	if len(r.data) == 0 {
		return c.revision != 0
	}
	return c.revision == 0 || c.log != r.id || c.end != r.end || c.key != key
}

// due reports whether the copy is to be written now, and since when it is late.
func (r *record) due(now time.Time, key func(group string) string) (since time.Time, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.copied
	if !c.loaded || now.Before(c.next) || !r.late(key(c.at.Group)) {
		return since, false
	}
	return c.since, c.since.IsZero() || now.Sub(c.last) >= settles || now.Sub(c.since) >= copyWithin
}

// snapshot is the record as a copy, and the revision of the one that lies there.
func (r *record) snapshot(rackd string) (c consolecopy.Copy, at Place, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := append([]byte(nil), r.data[max(0, len(r.data)-LogBytes):]...)
	return consolecopy.Copy{Log: r.id, Tenancy: r.tenancy, End: r.end, Rackd: rackd, At: time.Now().UTC(), Text: text}, r.copied.at, r.copied.revision
}

// saved notes that the copy is c now, or that none lies there. The next one waits until next.
func (r *record) saved(c consolecopy.Copy, revision uint64, key string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.copied
	k.revision, k.log, k.end, k.key, k.next, k.since = revision, c.Log, c.End, key, next, time.Time{}
	if r.id == c.Log && r.end != c.End {
		k.since = k.last
	}
}

// pause puts the next copy off.
func (r *record) pause(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.copied.next = until
}

// lost notes that the copy of that revision no longer lies there.
func (r *record) lost(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copied.revision == revision {
		r.copied.revision = 0
	}
}

// adopt goes on with the copy that lies there; nil: there is none to go on with. Where the machine has written already, that stays
// and the copy is not taken.
func (r *record) adopt(c *consolecopy.Copy, revision uint64, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.copied
	if !k.loaded {
		k.loaded = true
		r.changed() // who waits for that reads
	}
	if revision != 0 && revision <= k.revision || revision == k.revision {
		return // it is known: this rackd has written or read it, or a server has answered that is behind
	}
	k.revision, k.log, k.end, k.key = revision, "", 0, ""
	switch {
	case c == nil || c.Tenancy != r.tenancy:
		return // the copier removes or replaces it
	case c.Log == r.id:
		k.log, k.end = c.Log, c.End
	case k.own:
		return
	default:
		if c.Log != r.before {
			r.id, r.before = rand.Text(), c.Log
		}
		r.data, r.end, r.beforeEnd = append([]byte(nil), c.Text...), c.End, c.End
		k.log, k.end, k.since = r.id, c.End, time.Time{}
		r.changed()
	}
	if !c.Late {
		k.key = key
	}
}

// isLoaded reports whether the copy that was there was looked for. News end the wait for that.
func (r *record) isLoaded() (is bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copied.loaded, r.news
}
