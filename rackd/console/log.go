package console

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// record is the log of one console: the last LogBytes of what its machine wrote. It is safe for concurrent use.
type record struct {
	mu      sync.Mutex
	id      string
	tenancy string
	data    []byte // the newest bytes; it grows as the machine writes
	end     int64  // bytes that were ever written
	state   string
	news    chan struct{} // closed when anything changes
	// before is the log that this one goes on with, up to its byte beforeEnd: another rackd's, of which a copy was there.
	before    string
	beforeEnd int64
	copied    copied
	// copying is held while the copy is read or written.
	copying sync.Mutex
}

func newRecord(tenancy, state string) *record {
	return &record{id: rand.Text(), tenancy: tenancy, state: state, news: make(chan struct{})}
}

// changed wakes those who wait. mu is held.
func (r *record) changed() {
	close(r.news)
	r.news = make(chan struct{})
}

// add keeps what a machine wrote.
func (r *record) add(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end += int64(len(p))
	if r.data = append(r.data, p...); len(r.data) > LogBytes+LogBytes/4 { // else each byte would move all others
		r.data = r.data[:copy(r.data, r.data[len(r.data)-LogBytes:])]
	}
	r.copied.wrote(time.Now())
	r.changed()
}

// become empties the log for another tenancy.
func (r *record) become(tenancy string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenancy == tenancy {
		return
	}
	r.id, r.tenancy, r.data, r.end, r.before = rand.Text(), tenancy, nil, 0, ""
	r.copied.since = time.Time{} // what lies there goes at once
	r.changed()
}

func (r *record) say(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != state {
		r.state = state
		r.changed()
	}
}

// place is where a reader has come to.
type place struct {
	log   string
	from  int64
	state string
}

// piece is what a reader gets.
type piece struct {
	place
	lost int64
	data []byte
}

// read returns what follows a place, at most most bytes of it, or waits until ctx ends for something to follow. ok is false
// where the log is of another tenancy.
func (r *record) read(ctx context.Context, tenancy string, at place, most int) (p piece, ok bool) {
	for {
		p, ok, news := r.after(tenancy, at, most)
		if !ok || len(p.data) > 0 || p.state != at.state || p.log != at.log {
			return p, ok
		}
		select {
		case <-news:
		case <-ctx.Done():
			return p, ok
		}
	}
}

func (r *record) after(tenancy string, at place, most int) (p piece, ok bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tenancy != r.tenancy {
		return p, false, r.news
	}
	kept := r.data[max(0, len(r.data)-LogBytes):]
	first := r.end - int64(len(kept))
	from := at.from
	if at.log == r.before && at.log != "" { // who has read more of it than its copy had misses nothing of what is kept
		at.log, from = r.id, min(from, r.beforeEnd)
	}
	if at.log != r.id || from > r.end || from < 0 {
		from = first
	}
	p.lost = max(0, first-from)
	from += p.lost
	p.data = append([]byte(nil), kept[from-first:min(int64(len(kept)), from-first+int64(most))]...)
	p.place = place{log: r.id, from: from + int64(len(p.data)), state: r.state}
	return p, true, r.news
}
