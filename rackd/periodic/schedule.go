package periodic

import (
	"container/heap"
	"context"
	"errors"
	"hash/fnv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

const (
	// look is how often what is due is looked for.
	look = time.Second
	// perLook bounds the runs of a task that are begun in that time. All 10,000 nodes that are the share of a rackd have their turn in 40 s,
	// where there is reason to hasten them. With more of them on one rackd the rounds take longer, instead of filling bus and database
	// with news of all at once.
	perLook = 250
)

// schedule is a task with its nodes. Runner.mu guards all but what never changes.
type schedule struct {
	r    *Runner
	task Task

	entries map[string]*entry
	queue   queue // of those for which the task does not run
	// troubles are the task's own, by account or node.
	troubles map[string]*Trouble
	listed   time.Time // when entries was last compared with the group
	list     bool      // changes with each comparison
}

// micros places a moment of this process on the clock that no step moves: with the time of day, a clock set back by
// hours would keep every node from its turn for hours.
func (r *Runner) micros(t time.Time) int64 { return t.Sub(r.began).Microseconds() }

// hasten puts a node before all others, if the task fails for it or, with well, in any case. mu is held.
func (s *schedule) hasten(id string, well bool) {
	switch e := s.entries[id]; {
	case e == nil:
	case e.place < 0: // what runs may be out of date
		e.again, e.surely = true, e.surely || well
	case e.failing || well:
		e.due = 0
		heap.Fix(&s.queue, int(e.place))
	}
}

// bring brings a node's turn forward to a moment. mu is held.
func (s *schedule) bring(id string, due int64) {
	if e := s.entries[id]; e != nil && e.place >= 0 && e.due > due {
		e.due = due
		heap.Fix(&s.queue, int(e.place))
	}
}

// run runs the task until ctx ends.
func (s *schedule) run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var g errgroup.Group
	g.SetLimit(s.task.Workers)
	defer g.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.take()
		for range perLook {
			id, ok := s.next()
			if !ok {
				break
			}
			g.Go(func() error { // waits while all workers wait for BMCs
				s.done(id, s.visit(ctx, id))
				return nil
			})
		}
	}
}

// take takes up the group's new nodes, each at its own moment of the interval, and forgets those that have gone, from time
// to time.
func (s *schedule) take() {
	now := time.Now()
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if now.Sub(s.listed) < min(s.task.Every/4, time.Minute) {
		return
	}
	s.listed, s.list = now, !s.list
	for _, id := range s.r.nodes.Nodes() {
		e := s.entries[id]
		if e == nil {
			e = &entry{id: id, due: s.r.micros(now.Add(phase(s.task.Name, id, s.task.Every)))}
			s.entries[id] = e
			heap.Push(&s.queue, e)
		}
		e.listed = s.list
	}
	for id, e := range s.entries {
		if e.listed == s.list {
			continue
		}
		if e.place < 0 { // the task runs for it, and would note something after it has forgotten the node: the next comparison finds it
			e.listed = s.list
			continue
		}
		delete(s.entries, id)
		if s.task.Gone != nil {
			s.task.Gone(id)
		}
		heap.Remove(&s.queue, int(e.place))
	}
	for key, t := range s.troubles {
		if now.Sub(t.Until) > max(MaxPause, 2*s.task.Every) { // not asked again since: it was an old password
			delete(s.troubles, key)
		}
	}
}

// phase is a node's moment in the interval of a task, spread evenly over nodes and tasks.
func phase(task, id string, every time.Duration) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(task))
	h.Write([]byte{0})
	h.Write([]byte(id))
	x := h.Sum64()
	// FNV's last bytes move few bits; the finalizer of splitmix64 moves all.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return time.Duration(x % uint64(every))
}

// next takes the node that is most due out of the queue, if one is due.
func (s *schedule) next() (id string, ok bool) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if len(s.queue) == 0 || s.queue[0].due > s.r.micros(time.Now()) {
		return "", false
	}
	e := heap.Pop(&s.queue).(*entry)
	e.again, e.surely = false, false
	return e.id, true
}

// done puts a node back into the queue: at once if it failed, or was to be hastened, and has changed since the run began.
func (s *schedule) done(id string, due time.Time) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if e := s.entries[id]; e != nil && e.place < 0 {
		if e.due = s.r.micros(due); e.surely || e.again && e.failing {
			e.due = 0
		}
		heap.Push(&s.queue, e)
	}
}

// visit runs the task for a node, if that is to be, and returns when its next turn is.
func (s *schedule) visit(ctx context.Context, id string) (due time.Time) {
	usual := time.Now().Add(spread(s.task.Every))
	n, hw, err := s.r.nodes.Idle(id)
	if err != nil || n == nil {
		return usual // what is wrong with its fields, the next piece of work says
	}
	if !s.task.Wants(n, hw) {
		s.r.mu.Lock()
		if e := s.entries[id]; e != nil {
			e.failing = false
		}
		s.r.mu.Unlock()
		return usual
	}
	account := accountOf(n, hw)
	known, wait := s.begin(id, account)
	if !wait.IsZero() {
		if known != nil && s.task.Troubled != nil {
			s.task.Troubled(ctx, n, *known)
		}
		return wait
	}
	err = s.task.Do(ctx, n, hw)
	if err != nil && ctx.Err() != nil {
		s.ended(id, account, err, false)
		return usual
	}
	if resting, ok := errors.AsType[driver.Resting](err); ok {
		s.ended(id, account, err, false)
		return resting.Until().Add(spread(look))
	}
	if held, ok := errors.AsType[driver.Withheld](err); ok && !held.Tried() {
		return s.heldBack(ctx, n, account, err, held, usual)
	}
	s.r.metrics.TaskRan(s.task.Name, Result(err))
	if err == nil || errors.Is(err, driver.ErrUnsupported) && !s.task.Leads {
		s.ended(id, account, err, false)
		return usual
	}
	t := s.ended(id, account, err, true)
	s.r.log.Warn("a periodic task has failed for a node", "task", s.task.Name, "node", id, "failures", t.Failures, "again", t.Until.Round(time.Second), "error", err)
	if s.task.Troubled != nil {
		s.task.Troubled(ctx, n, t)
	}
	return t.Until
}

// heldBack is the end of a run that has sent nothing, because the BMC had refused the credentials before. No failure is counted. It
// returns when the next turn is: usual, or when rackd logs in again by itself.
func (s *schedule) heldBack(ctx context.Context, n *node.Document, account string, err error, held driver.Withheld, usual time.Time) time.Time {
	s.ended(n.UUID, account, err, false)
	s.r.mu.Lock()
	t := Trouble{Denied: true, Held: true, Until: usual, Why: err}
	if known := s.troubles[account]; known != nil {
		t.Failures = known.Failures
	}
	if e := s.entries[n.UUID]; e != nil {
		e.failing = true
	}
	s.r.mu.Unlock()
	if again := held.Again(); !again.IsZero() {
		return again.Add(spread(look))
	}
	if s.task.Troubled != nil {
		s.task.Troubled(ctx, n, t)
	}
	return usual
}
