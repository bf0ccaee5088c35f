package periodic

// entry is a node in the queue of a task. There is one for each node of the group and task, so it is small.
type entry struct {
	id  string
	due int64 // in microseconds since Runner.began
	// place in the queue; -1: the task runs for it.
	place int32
	// failing: the task failed last, or was left out because the BMC is in trouble.
	failing bool
	// again: while the task ran something happened that is a reason to run it again, if it failed. surely: in any case.
	again, surely bool
	// listed is schedule.list as of when the node was last among the group's.
	listed bool
}

// queue is a heap of entries, the most due first.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.place = int32(len(*q))
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.place = -1
	return e
}
