package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/trouble"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
)

// awaitEvery is how often a step is run again that waits for what another program is to bring.
const awaitEvery = 10 * time.Second

// awaited is the wait of one step for what another program is to bring.
type awaited struct {
	looked time.Time     // when the step last said so; zero: it does not wait
	waited time.Duration // without the time in maintenance, which stands still
	err    error         // what the step said last
	spell  trouble.Spell
}

// goesOn reports whether the step that ended with err is run again because of what it waits for. The agent's
// answers do not move the end of that wait, or it would have none.
func (a *awaited) goesOn(r *Runner, s flow.Step, err error) bool {
	if !errors.Is(err, driver.ErrAwaited) {
		a.spell.Over(r.log, "step", s.ID())
		a.looked, a.waited, a.err = time.Time{}, 0, nil
		return false
	}
	if !a.looked.IsZero() && !r.doc.Checkpoint.Parked.Is() {
		a.waited += time.Since(a.looked)
	}
	a.looked, a.err = time.Now(), err
	a.spell.Failed(r.log, "getting what a step waits for", err, "step", s.ID())
	return a.waited < r.limit()
}

// also adds what the step waits for to why it ends.
func (a *awaited) also(err error) error {
	if a.err == nil {
		return err
	}
	return fmt.Errorf("%w; it waits: %w", err, a.err)
}
