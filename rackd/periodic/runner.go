package periodic

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Nodes are this rackd's (rackd/conductor).
type Nodes interface {
	// Nodes lists all nodes of the group, those of other rackds too.
	Nodes() []string
	// Idle returns a node with its secrets open, and its hardware; a nil node when another rackd owns it or it has work in
	// flight.
	Idle(id string) (*node.Document, *driver.Hardware, error)
}

// Metrics counts runs of tasks by result (Result). Safe for concurrent use.
type Metrics interface{ TaskRan(task, result string) }

// Runner runs tasks.
type Runner struct {
	nodes   Nodes
	metrics Metrics
	log     *slog.Logger
	// began is the moment from which entries count, by the monotonic clock.
	began time.Time

	mu    sync.Mutex
	tasks []*schedule
	// asking are the accounts that are being used, by whichever task.
	asking map[string]bool
}

// New returns a runner without tasks, idle until Run.
func New(nodes Nodes, m Metrics, log *slog.Logger) *Runner {
	// A moment ago: 0 says that there is no time.
	return &Runner{nodes: nodes, metrics: m, log: log, began: time.Now().Add(-time.Second), asking: map[string]bool{}}
}

// Add adds a task, unless it has no interval. It is called before Run.
func (r *Runner) Add(t Task) {
	if t.Every <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, &schedule{r: r, task: t.withDefaults(), entries: map[string]*entry{}, troubles: map[string]*Trouble{}})
}

// Run runs the tasks until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, s := range r.tasks {
		g.Go(func() error { s.run(ctx); return nil })
	}
	return g.Wait()
}

// NodeChanged tells that a node's documents changed: a task that fails for it runs soon, because an operator may have corrected the node.
// It does not block.
func (r *Runner) NodeChanged(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.tasks {
		s.hasten(id, false)
	}
}

// Hasten has a task run for a node within a time, if it is this rackd's and the task knows it. 0 is before all others. It does not block.
func (r *Runner) Hasten(task, id string, within time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.tasks {
		if s.task.Name == task {
			if within > 0 {
				s.bring(id, r.micros(time.Now().Add(within)))
				continue
			}
			s.hasten(id, true)
		}
	}
}

// Forget forgets which trouble a task had with a node and its account: there is reason to try again.
func (r *Runner) Forget(task string, n *node.Document, hw *driver.Hardware) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.tasks {
		if s.task.Name == task {
			delete(s.troubles, accountOf(n, hw))
			delete(s.troubles, n.UUID)
		}
	}
}

// accountOf is the account that a node is reached with; its UUID where it shares none.
func accountOf(n *node.Document, hw *driver.Hardware) string {
	if shared, ok := hw.Power().(driver.Accounted); ok {
		if account := shared.Account(n); account != "" {
			return account
		}
	}
	return n.UUID
}

// begin claims an account for a run. wait is set when it is not to be asked now; known then says what is wrong with it,
// if the task itself has found that out.
func (s *schedule) begin(id, account string) (known *Trouble, wait time.Time) {
	r, now := s.r, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, by := range r.tasks {
		if by != s && (!by.task.Leads || s.task.Leads) {
			continue
		}
		for _, key := range []string{account, id} {
			t := by.troubles[key]
			if t == nil || !now.Before(t.Until) {
				continue
			}
			if e := s.entries[id]; e != nil {
				e.failing = true
			}
			if by != s {
				return nil, t.Until.Add(spread(look))
			}
			copied := *t
			return &copied, t.Until.Add(spread(look))
		}
	}
	if r.asking[account] {
		return nil, now.Add(spread(2 * look))
	}
	r.asking[account] = true
	return nil, time.Time{}
}

// ended notes how a run has gone. A BMC that is silent or refuses the credentials does so for all nodes behind it; anything else
// concerns this one. counts: err is a failure.
func (s *schedule) ended(id, account string, err error, counts bool) Trouble {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asking, account)
	e := s.entries[id]
	if !counts {
		if err == nil {
			delete(s.troubles, account)
			delete(s.troubles, id)
			if e != nil {
				e.failing = false
			}
		}
		return Trouble{}
	}
	key := id
	if errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrDenied) {
		key = account
	}
	t := s.troubles[key]
	if t == nil {
		t = &Trouble{}
		s.troubles[key] = t
	}
	t.failed(&s.task, err, time.Now())
	if e != nil {
		e.failing = true
	}
	return *t
}
