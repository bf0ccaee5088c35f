package periodic

import (
	"context"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// History takes lines about nodes that have no work (rackd/conductor).
type History interface {
	TellLog(ctx context.Context, n *node.Document, o *hardware.Observation, lines []work.Line) error
}

// again is how often the history says the same of a node.
const again = 24 * time.Hour

// AddOf adds the tasks that the enabled hardware types declare, each for the nodes of its type.
func (r *Runner) AddOf(types *driver.Registry, h History) {
	types.Periodics(func(hardware string, p driver.Periodic) {
		wants := p.Wants
		if wants == nil {
			wants = func(n *node.Document) bool { return !n.Maintenance }
		}
		t := &teller{Periodic: p, history: h, told: map[string]said{}}
		r.Add(Task{Name: hardware + "." + p.Name, Every: p.Every, Do: t.do, Gone: t.forget,
			Wants: func(n *node.Document, hw *driver.Hardware) bool { return hw.Type == hardware && wants(n) }})
	})
}

// teller tells the history what a driver's task has to say.
type teller struct {
	driver.Periodic
	history History

	mu   sync.Mutex
	told map[string]said // by node
}

// said is what the history was told of a node last, and when.
type said struct {
	text string
	at   time.Time
}

// do runs the task. What cannot be told now may be so at the next turn. What is over and comes again is news.
func (t *teller) do(ctx context.Context, n *node.Document, hw *driver.Hardware) error {
	text, err := t.Do(ctx, n, hw)
	if err != nil {
		return err
	}
	t.mu.Lock()
	before := t.told[n.UUID]
	if text == "" {
		delete(t.told, n.UUID)
	}
	t.mu.Unlock()
	if text == "" || before.text == text && time.Since(before.at) < again {
		return nil
	}
	line := work.Line{Time: time.Now().UTC(), Phase: t.Name, Detail: text}
	if t.history.TellLog(ctx, n, &hardware.Observation{}, []work.Line{line}) == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.told[n.UUID] = said{text, time.Now()}
	}
	return nil
}

// forget forgets a node that has left the group.
func (t *teller) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, id)
}
