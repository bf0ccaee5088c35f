package daemon

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
)

// The bounds of central's questions to BMCs. A dead BMC holds each question about it until that
// is too old, so those of one machine have few turns, and all that wait or run together are
// more than one rack's dead machines can use up.
const (
	bmcQuestions     = 1024 // that wait or run
	machineQuestions = 2    // that run, about one machine
	machineWaiting   = 8    // that wait for them
	memoryQuestions  = 256  // that run: some wait a moment for a change of their node
	consoleQuestions = 512  // that run: those who read consoles wait for what is written
	heartbeats       = 1024 // that are handed on and wait for checkpoints
	questionsQueued  = 4096 // that were received and not looked at yet
)

// turns gives the questions about each machine their turns.
type turns struct {
	mu       sync.Mutex
	machines map[string]*turn
	all      int
}

// turn is that of one machine; there is one while questions about it wait or run.
type turn struct {
	running chan struct{}
	there   int
}

func newTurns() *turns { return &turns{machines: map[string]*turn{}} }

// come notes a question about a machine; ok is false where too many are there.
func (t *turns) come(machine string) (mine *turn, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine = t.machines[machine]
	if mine == nil {
		mine = &turn{running: make(chan struct{}, machineQuestions)}
	}
	if t.all >= bmcQuestions || mine.there >= machineQuestions+machineWaiting {
		return nil, false
	}
	t.machines[machine] = mine
	mine.there++
	t.all++
	return mine, true
}

// leave forgets a question that has come.
func (t *turns) leave(machine string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if mine.there--; mine.there == 0 {
		delete(t.machines, machine)
	}
}

// do calls f when the machine has a turn for it and reports whether it did: not once ctx has
// ended.
func (m *turn) do(ctx context.Context, f func()) bool {
	select {
	case m.running <- struct{}{}:
		defer func() { <-m.running }()
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil { // both were ready
		return false
	}
	f()
	return true
}

// clock is the one by which questions say until when they may be carried out.
type clock struct {
	id    string
	began time.Time // with its monotonic reading
}

func newClock() clock {
	now := time.Now()
	return clock{strconv.FormatInt(now.UnixNano(), 36), now}
}

func (c clock) now() ask.Clock {
	return ask.Clock{ID: c.id, At: time.Since(c.began).Milliseconds()}
}

// end returns when a question that was received at a moment must have been carried out, or
// why it must not be.
func (c clock) end(q ask.Request, received time.Time) (time.Time, *ask.Error) {
	end := received.Add(ask.Timeout)
	switch {
	case q.Until == ask.Clock{}: // of a central that has not heard of this rackd's clock yet
	case q.Until.ID != c.id:
		return end, ask.Late(q.Method, "this rackd has started again since the asker heard of its clock")
	default:
		if until := c.began.Add(time.Duration(q.Until.At) * time.Millisecond); until.Before(end) {
			end = until
		}
	}
	if !time.Now().Before(end) {
		return end, ask.Late(q.Method, "it is older than its asker waits for an answer")
	}
	return end, nil
}
