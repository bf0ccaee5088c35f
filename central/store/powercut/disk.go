package powercut

import (
	"math/rand/v2"
	"slices"
)

const sector = 512

// Disk follows a record and builds what may be left of it. It is for one goroutine.
type Disk struct {
	record *Record
	at     int
	files  map[string]*file
}

// file is what is sure to be on the disk, and what was done to it since.
type file struct {
	there   bool
	data    []byte
	pending []done
}

// done is an event that may be on the disk or not.
type done struct {
	event
	at int
}

// NewDisk returns the empty disk that a record begins with.
func NewDisk(r *Record) *Disk {
	return &Disk{record: r, files: map[string]*file{Database: {}, Log: {}, Journal: {}}}
}

// Advance goes on to the first n events of the record. It does not go back.
func (d *Disk) Advance(n int) {
	d.record.mu.Lock()
	events := d.record.events[d.at:n]
	d.record.mu.Unlock()
	for _, e := range events {
		d.take(e)
		d.at++
	}
}

func (d *Disk) take(e event) {
	f := d.files[e.file]
	switch e.kind {
	case created, wrote, truncated, deleted:
		f.pending = append(f.pending, done{e, d.at})
	case syncEnded:
		if e.file != Database {
			d.name(e.began)
		}
		f.settle(func(p done) bool { return p.at < e.began && p.kind != created && p.kind != deleted })
	case named:
		d.name(e.began)
	case syncBegan:
	}
}

// name has the names of the files on the disk as they were before an event.
func (d *Disk) name(before int) {
	for _, f := range d.files {
		// What was done to a file that is deleted later is of no use to it.
		last := -1
		for _, p := range f.pending {
			if p.at < before && p.kind == deleted {
				last = p.at
			}
		}
		f.settle(func(p done) bool { return p.at <= last || p.at < before && p.kind == created })
	}
}

// settle makes sure of what is sure.
func (f *file) settle(sure func(done) bool) {
	f.pending = slices.DeleteFunc(f.pending, func(p done) bool {
		if !sure(p) {
			return false
		}
		f.apply(p.event, nil)
		return true
	})
}

// apply carries out an event, of a write those sectors that keep takes (nil: all).
func (f *file) apply(e event, keep func() bool) {
	switch e.kind {
	case created:
		f.there = true
	case deleted:
		f.there, f.data = false, nil
	case truncated:
		if int64(len(f.data)) > e.offset {
			f.data = f.data[:e.offset:e.offset]
		}
	case wrote:
		for at := int64(0); at < int64(len(e.data)); {
			end := min((e.offset+at)/sector*sector+sector-e.offset, int64(len(e.data)))
			if keep == nil || keep() {
				f.extend(e.offset + end)
				copy(f.data[e.offset+at:], e.data[at:end])
			}
			at = end
		}
	case syncBegan, syncEnded, named:
	}
}

func (f *file) extend(size int64) {
	if missing := size - int64(len(f.data)); missing > 0 {
		f.data = append(f.data, make([]byte, missing)...)
	}
}

// Cut returns the files that the disk may hold when the power is cut now, by what their names add to
// the database's: what is sure, and of the rest what rng says.
func (d *Disk) Cut(rng *rand.Rand) map[string][]byte {
	left := map[string][]byte{}
	for _, suffix := range []string{Database, Log, Journal} {
		f := d.files[suffix]
		after := &file{there: f.there, data: slices.Clone(f.data)}
		after.lose(f.pending, rng)
		if after.there {
			left[suffix] = after.data
		}
	}
	return left
}

// lose applies what a power cut leaves of what was done.
func (f *file) lose(pending []done, rng *rand.Rand) {
	if len(pending) == 0 {
		return
	}
	const nothing, everything, events, sectors, start, ways = 0, 1, 2, 3, 4, 5
	way, share, until := rng.IntN(ways), rng.Float64(), rng.IntN(len(pending)+1)
	chance := func() bool { return rng.Float64() < share }
	for i, p := range pending {
		keep := true
		var torn func() bool
		switch way {
		case nothing:
			keep = false
		case everything:
		case events:
			keep = chance()
		case sectors:
			keep = p.kind == wrote || chance()
			torn = chance
		case start:
			keep = i <= until
			if i == until {
				torn = chance
			}
		}
		if keep {
			f.apply(p.event, torn)
		} else if p.kind == created || p.kind == deleted {
			return // a folder's changes are there in their order; what follows is another file's
		}
		// A file may have its new size before it has the bytes.
		if p.kind == wrote && f.there && way != nothing && rng.IntN(4) == 0 {
			f.extend(p.offset + int64(len(p.data)))
		}
	}
}
