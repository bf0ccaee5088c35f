package powersync

import "time"

// machine is what is known of a node. There is one for each node of the group, so it is
// small.
type machine struct {
	id  string
	due int64 // in microseconds since Sync.began
	// told is when its fault was reported, like due; 0 when it has none.
	told  int64
	place int32 // in the queue; -1: it is being looked at
	// failing: its last read failed, or was left out because its BMC is in trouble.
	failing bool
	// faulted: its document has shown the fault.
	faulted bool
	// listed is Sync.list as of when the node was last among the group's.
	listed bool
}

// micros places a moment of this process on the clock that no step moves: with the time of
// day, a clock set back by hours would keep every machine from being looked at for hours.
func (s *Sync) micros(t time.Time) int64 { return t.Sub(s.began).Microseconds() }

// queue is a heap of machines, the most due first.
type queue []*machine

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	m := x.(*machine)
	m.place = int32(len(*q))
	*q = append(*q, m)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	m := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	m.place = -1
	return m
}
