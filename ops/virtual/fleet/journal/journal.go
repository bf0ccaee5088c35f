// Package journal is what a fleet of simulated machines remembers of itself: one
// list over all of them, in the order in which things happened, for a checker that
// asks afterwards whether anything happened twice or by somebody who had no right to.
//
// It may import nothing of the project. Invariants: a record is noted before its
// effect; Seq has no gaps; memory is bounded, the oldest records go first and
// their number is told.
package journal

import (
	"context"
	"sort"
	"sync"
	"time"
)

// DefaultKeep is how many records are remembered when New is not told otherwise.
const DefaultKeep = 500_000

// Journal is safe for concurrent use.
type Journal struct {
	keep  int
	began time.Time

	mu      sync.Mutex
	records []*Record
	last    uint64
	counts  map[place]uint64
	changed chan struct{} // closed and replaced with each record
}

type place struct {
	machine string
	kind    Kind
}

// New returns an empty journal that remembers keep records; 0: DefaultKeep.
func New(keep int) *Journal {
	if keep <= 0 {
		keep = DefaultKeep
	}
	return &Journal{keep: keep, began: time.Now(), counts: map[place]uint64{}, changed: make(chan struct{})}
}

// Note adds a record; Seq, At and Time are filled in. The returned function adds to
// the record what was answered; it may be called later, once, or never.
func (j *Journal) Note(r Record) (answered func(status int)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	r.Seq, r.Time = j.last, time.Now()
	r.At = r.Time.Sub(j.began)
	noted := &r
	j.records = append(j.records, noted)
	if len(j.records) > j.keep+j.keep/4 { // now and then, not each time
		j.records = append([]*Record(nil), j.records[len(j.records)-j.keep:]...)
	}
	j.counts[place{r.Machine, r.Kind}]++
	close(j.changed)
	j.changed = make(chan struct{})
	return func(status int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		noted.Status = status
	}
}

// After returns up to limit records that follow seq, oldest first; limit 0 means all.
func (j *Journal) After(seq uint64, limit int) []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.after(seq, limit)
}

func (j *Journal) after(seq uint64, limit int) []Record {
	from := sort.Search(len(j.records), func(i int) bool { return j.records[i].Seq > seq })
	rest := j.records[from:]
	if limit > 0 && len(rest) > limit {
		rest = rest[:limit]
	}
	out := make([]Record, len(rest))
	for i, r := range rest {
		out[i] = *r
	}
	return out
}

// Await is After, but waits until there is at least one record or ctx ends; then
// there may be none.
func (j *Journal) Await(ctx context.Context, seq uint64, limit int) []Record {
	for {
		j.mu.Lock()
		found, changed := j.after(seq, limit), j.changed
		j.mu.Unlock()
		if len(found) > 0 {
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Last is the newest record's Seq.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// Forgotten is how many records are no longer remembered.
func (j *Journal) Forgotten() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last - uint64(len(j.records))
}

// Counts returns how often each kind was noted of a machine; of all when it is empty.
func (j *Journal) Counts(machine string) map[Kind]uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[Kind]uint64{}
	for p, n := range j.counts {
		if machine == "" || p.machine == machine {
			out[p.kind] += n
		}
	}
	return out
}
