package iscsideploy

import "time"

// Times of the queue.
const (
	// asksEvery is how often a work that waits asks for a place.
	asksEvery = 2 * time.Second
	// present is how long a work that has asked counts for those behind it. One that does not ask again holds up none.
	present = 10 * time.Second
	// remembered is how long it keeps its number. So a node whose agent is slow, or whose session broke, does not begin at the end.
	remembered = 5 * time.Minute
)

// queue is the order in which works have asked for a place first. Not safe for concurrent use.
type queue struct {
	next  uint64
	works map[string]*queued
}

// queued is a work in the queue. It stays there while it has a place.
type queued struct {
	number uint64
	asked  time.Time // last, for a place
	heard  time.Time // when its agent was asked last
}

// ask notes that a work asks, and forgets those that have not for long.
func (q *queue) ask(work string, now time.Time) *queued {
	for name, one := range q.works {
		if now.Sub(one.asked) > remembered {
			delete(q.works, name)
		}
	}
	mine := q.works[work]
	if mine == nil {
		mine = &queued{number: q.next}
		q.next++
		q.works[work] = mine
	}
	mine.asked = now
	return mine
}

// before counts the works that come before one and wait, too.
func (q *queue) before(mine *queued, now time.Time, placed func(work string) bool) (n int) {
	for name, one := range q.works {
		if one.number < mine.number && now.Sub(one.asked) <= present && !placed(name) {
			n++
		}
	}
	return n
}

// forget takes a work out that asks no more.
func (q *queue) forget(work string) { delete(q.works, work) }
