package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// runner carries one piece of work to its end. doc, revision and task belong to
// the goroutine of run; mu guards what others bring to it.
type runner struct {
	c      *Conductor
	id     string // of the work
	root   string // of the work whose flow it is; agents know that one
	node   *node.Document
	log    *slog.Logger
	cancel context.CancelFunc
	woken  chan struct{}
	leave  atomic.Bool // the ring names another rackd: give the work away at the next boundary

	doc      work.Document
	revision uint64
	task     *driver.Task
	boot     string    // the FactBoot that the machine was last told of
	lease    string    // under which this runner owns the work
	found    view.Work // the document as it was when this rackd took it
	saved    time.Time
	inBand   bool      // the step that runs, or is to begin, is the agent's
	meets    time.Time // until when an address that is not in the last checkpoint has the runner woken
	told     time.Time // when the state was last reported
	shown    shown     // what the fields of the node tell of the flow
	// toldBoot is the boot, by marked, after which the machine's power was told in a wait.
	toldBoot *time.Time

	// turn is held by run, except while its flow does nothing but wait: then others may write
	// to the machine (beside). parked says that it does.
	turn   sync.Mutex
	parked bool

	mu      sync.Mutex
	epoch   uint64
	touched bool // the flow may have sent something to the machine
	lost    error
	agent   *work.Agent
	count   work.Boot               // the newest boot into the ramdisk
	again   bool                    // the ramdisk is about to be booted again
	doomed  error                   // why the work is to fail, whatever its step does
	cut     context.CancelCauseFunc // ends the attempt that runs
	asking  bool                    // the agent is being asked whether it is still there
	// askingBMC: the BMC is being asked which machine it belongs to; asked is the boot in which that was begun.
	// answeredBMC: it has answered, if only that it does not know.
	askingBMC, answeredBMC bool
	asked                  uint64
	answered               time.Time // when the agent last answered, or its command had got on
	far                    struct {  // how far a command was when it was last looked at
		id   string
		done int64
	}
	there     time.Time // when it last was
	clock     time.Time // the newest time that an agent's call or a step was given
	marked    time.Time // the newest that a step was given
	beat      bool      // a heartbeat came since the step ran
	heard     bool      // the agent answered since the last flush
	progress  *agentapi.Progress
	inventory *agentapi.Inventory
	observed  hardware.Observation
	busy      *work.Busy          // what the BMC may be at work on for the step
	inspected *agentapi.Inventory // what the ramdisk has sent of its own accord
	phases    []work.Line
	seen      map[string]bool // phases of this boot
	phaseAt   time.Time
	ctx       context.Context // of run, nil before it
	asks      sync.WaitGroup  // of what runs beside run
}

func newRunner(c *Conductor, n *node.Document, w view.Work, cancel context.CancelFunc) *runner {
	r := &runner{c: c, id: w.Doc.ID, root: w.Doc.Root(), node: n, doc: w.Doc, revision: w.Revision, found: w, epoch: w.Doc.Epoch, lease: c.cfg.Members.ID(), cancel: cancel,
		woken: make(chan struct{}, 1), phaseAt: time.Now(), seen: map[string]bool{}}
	// The document in the view is shared; what this runner changes in it is its own.
	r.doc.Checkpoint.Facts = maps.Clone(w.Doc.Checkpoint.Facts)
	r.log = c.log.With("node", n.UUID, "name", n.Name, "work", w.Doc.ID, "verb", string(w.Doc.Verb), "request", w.Doc.RequestID)
	r.count, r.boot = w.Doc.Checkpoint.Boot, w.Doc.Checkpoint.Facts[driver.FactBoot]
	r.busy = w.Doc.Checkpoint.BMC
	r.marked, r.clock = w.Doc.Checkpoint.Mark, w.Doc.Checkpoint.Mark
	if w.Doc.Checkpoint.Agent != nil && c.secrets.Pinned(n, &w.Doc) {
		a := *w.Doc.Checkpoint.Agent
		r.agent = &a
		if a.LastSeen.After(r.clock) {
			r.clock = a.LastSeen
		}
	}
	return r
}

func (r *runner) stop() { r.lose(errors.New("the node's work has moved on")); r.cancel() }

func (r *runner) nudge() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Check is the fence: the lease is held and nobody has taken the work.
func (r *runner) Check() error {
	r.mu.Lock()
	lost := r.lost
	r.mu.Unlock()
	if lost == nil {
		lost = r.c.cfg.Members.Check()
	}
	if lost == nil && r.lease != r.c.cfg.Members.ID() {
		// The lease is held again, but in between others may have taken the work, and
		// this rackd's view may not show that yet.
		lost = errors.New("the lease under which the work was taken has ended")
	}
	if lost == nil {
		switch w := r.c.cfg.Documents.Work(r.node.UUID); {
		case w == nil || w.Doc.ID != r.id:
			lost = errors.New("the node's work has moved on")
		case w.Lost:
			lost = errors.New("the bus has lost the work document")
		case w.Doc.Epoch != r.Epoch():
			lost = fmt.Errorf("rackd %q has taken the work under epoch %d", w.Doc.Owner, w.Doc.Epoch)
		}
	}
	if lost != nil {
		r.c.cfg.Metrics.Fenced()
		return fmt.Errorf("node %s: %w: %w", r.node.Label(), driver.ErrFenced, lost)
	}
	return nil
}

// Work is the id of the work.
func (r *runner) Work() string { return r.id }

// Epoch is the epoch under which this runner holds the work.
func (r *runner) Epoch() uint64 { r.mu.Lock(); defer r.mu.Unlock(); return r.epoch }

func (r *runner) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = err
	}
}

// run takes the work, runs its flow and ends it. It returns early, leaving the
// document as it is, when the node is lost or the context ends.
func (r *runner) run(ctx context.Context) {
	r.turn.Lock()
	defer r.turn.Unlock()
	ctx, end := context.WithCancel(ctx)
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	defer r.asks.Wait()
	defer end()
	from := r.doc.Owner
	if err := r.take(ctx); err != nil {
		r.log.Info("work not taken", "error", err)
		return
	}
	steps, err := r.prepare()
	if err := r.tellTaken(ctx, from, steps); err != nil {
		r.log.Info("work taken and not told of", "error", err)
		return
	}
	if r.doc.Checkpoint.Leaving != nil && r.doc.Checkpoint.Over == nil {
		r.goOnLeaving(ctx, err)
		return
	}
	if err == nil && r.doc.Checkpoint.Step == "" && r.doc.Checkpoint.Over == nil {
		err = flow.Bootable(r.task, steps)
	}
	if err == nil {
		err = r.errand(ctx)
	}
	over := r.doc.Checkpoint.Over
	if err == nil && over == nil {
		err = r.proveBMC(ctx)
	}
	if err == nil && over == nil {
		err = r.runSteps(ctx, steps)
	}
	switch {
	case errors.Is(err, errReleased):
		r.c.cfg.Metrics.Released()
		r.log.Info("work given away: the ring names another rackd", "step", r.doc.Checkpoint.Step)
	case errors.Is(err, driver.ErrFenced) || errors.Is(err, view.ErrConflict) || ctx.Err() != nil:
		r.log.Info("work left to its next owner", "step", r.doc.Checkpoint.Step, "error", err)
	case err != nil:
		r.fail(ctx, err)
	default:
		if over != nil {
			err = r.end(ctx, r.tooLate(*over))
		} else {
			err = r.finish(ctx)
		}
		if err != nil {
			r.log.Warn("the end of the work was not written or not reported; both are tried again", "error", err)
		}
	}
}

// prepare resolves the node's hardware and lists the work's steps.
func (r *runner) prepare() ([]flow.Step, error) {
	n, err := r.c.Open(r.node)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w; check that central and this rackd have the same key for conductor group %q", r.node.Label(), err, r.node.Group)
	}
	hw, err := r.c.cfg.Hardware.Resolve(n)
	if err != nil {
		return nil, err
	}
	// The key may be replaced while this runs. Keys of a group never go.
	tokens := func() []string { return r.c.cfg.Keys.Of(n.Group).Tokens(n.UUID, r.root, r.c.bootOf(n.UUID).Number) }
	r.task = &driver.Task{Node: n, Hardware: hw, Fence: flowFence{r}, WorkID: r.root, LetGo: r.doc.Args.LetGo, Images: r.c.cfg.Images, Record: r,
		Agent: listened{r.c.cfg.NewAgent(n.UUID, tokens, r.agentState), r}, ConfigDrive: r.configDrive, Inspected: r.sent, Facts: r.doc.Checkpoint.Facts,
		Attended: r.parks}
	steps, err := r.c.flows.Fixed(&r.doc, r.task)
	r.inheritTouch(steps)
	return steps, err
}

func (r *runner) runSteps(ctx context.Context, steps []flow.Step) error {
	i := r.doc.Checkpoint.Index
	if name := r.doc.Checkpoint.Step; name != "" && (i >= len(steps) || steps[i].ID() != name) {
		return fmt.Errorf("node %s: step %d of %s was %q when the work began and is a different one now: send the request again", r.node.Label(), i, r.doc.Verb, name)
	}
	var err error
	var ended *flow.Step // the step before, whose end the next checkpoint tells
	for ; i < len(steps); i++ {
		s := steps[i]
		r.show(steps, i)
		if err := r.abortsNow(s); err != nil {
			return err
		}
		cp := &r.doc.Checkpoint
		r.inBand = s.InBand
		if cp.Step != s.ID() && !s.Pure {
			if err := r.handsOff(ctx, steps, i); err != nil {
				return err
			}
		}
		switch {
		case cp.Step != s.ID() && s.Kind == driver.Neither && r.doc.Lost:
			return fmt.Errorf("node %s: the bus had lost the checkpoint of this %s, so step %s may have run; it can be neither repeated nor re-attached, so the %[2]s fails here: check the machine, then send the request again",
				r.node.Label(), r.doc.Verb, s.ID())
		case cp.Step != s.ID():
			pointBegin.Hit(r.at(s))
			r.Idle()
			cp.Step, cp.Index, cp.Phase, cp.Handle, cp.Progress, cp.Entered = s.ID(), i, work.Begun, nil, nil, time.Now().UTC()
			r.setDeadline()
			if s.Pure {
				break
			}
			if err := r.save(ctx); err != nil {
				return err
			}
		case cp.Phase == work.Ended:
			if r.doc.Args.AbortAfter && !s.Own { // who ended it died before it could say so
				return fmt.Errorf("%w after step %s", flow.ErrAborted, s.ID())
			}
			continue
		case s.Kind == driver.Neither:
			return fmt.Errorf("node %s: step %s was running when its rackd was lost, or when another request came; it can be neither repeated nor re-attached, so the %s fails here: check the machine, then send the request again",
				r.node.Label(), s.ID(), r.doc.Verb)
		}
		if ended != nil {
			pointEnded.Hit(r.at(*ended))
		}
		pointBegun.Hit(r.at(s))
		if err := r.runStep(ctx, s); err != nil {
			return err
		}
		pointEnd.Hit(r.at(s))
		if r.follows(steps, i) {
			ended = &s
			continue
		}
		ended = nil
		cp.Phase, cp.Progress = work.Ended, nil
		if r.concludes(steps, i) {
			return nil
		}
		if s.Discovers {
			if steps, err = r.c.flows.Grow(&r.doc, r.task, i); err != nil {
				return err
			}
		}
		if err := r.leaveStep(ctx, s); err != nil {
			return err
		}
		pointEnded.Hit(r.at(s))
		if r.doc.Args.AbortAfter && !s.Own {
			return fmt.Errorf("%w after step %s", flow.ErrAborted, s.ID())
		}
		if r.leave.Load() && i+1 < len(steps) {
			return r.release(ctx)
		}
	}
	return nil
}

// follows reports whether the step after i begins as soon as that one has ended: then
// one checkpoint says both.
func (r *runner) follows(steps []flow.Step, i int) bool {
	s := steps[i]
	if s.Then != "" || s.Discovers || i+1 == len(steps) || r.doc.Args.AbortAfter || r.leave.Load() {
		return false
	}
	next := steps[i+1]
	return !next.Pure && !(next.Kind == driver.Neither && r.doc.Lost)
}

// concludes reports whether the work ends well as soon as step i has ended: then the
// result says both. A step that cannot be repeated has its end written at once.
func (r *runner) concludes(steps []flow.Step, i int) bool {
	s := steps[i]
	return i+1 == len(steps) && s.Then == "" && !s.Discovers && !r.doc.Args.AbortAfter && s.Kind != driver.Neither
}

// runStep runs s until it is done, waiting in between as it asks.
func (r *runner) runStep(ctx context.Context, s flow.Step) error {
	var err error
	if r.task.Args, err = r.openArgs(ctx, s); err != nil {
		return fmt.Errorf("step %s: its arguments: %w", s.ID(), err)
	}
	r.task.Entered = r.doc.Checkpoint.Entered
	retries, wait := s.Retries, awaited{}
	for {
		began := time.Now()
		r.mu.Lock()
		r.beat = false
		r.mu.Unlock()
		out, err := r.attempt(ctx, s)
		pointRan.Hit(r.at(s))
		r.c.cfg.Metrics.StepRan(s.ID(), time.Since(began), err)
		save := r.flush
		if _, waiting := out.Waiting(); err == nil && !waiting && !out.Held() {
			save = r.takeIn // the checkpoint that it has ended comes next
		}
		if lost := errors.Join(save(ctx), r.Check()); errors.Is(lost, bus.ErrTooLarge) && err != nil {
			return fmt.Errorf("step %s: %w; in addition: %w", s.ID(), err, lost)
		} else if lost != nil {
			return lost
		}
		poll, waiting := out.Waiting()
		switch {
		case wait.goesOn(r, s, err):
			poll = awaitEvery
		case err != nil && retries > 0 && flow.MayPass(err):
			retries--
			r.log.Warn("step failed, trying again", "step", s.ID(), "left", retries, "error", err)
			poll = s.Pause
		case err != nil:
			return fmt.Errorf("step %s: %w", s.ID(), err)
		case out.Held():
			if err := r.move(ctx, provision.EventHold, ""); err != nil {
				return err
			}
		case !waiting:
			return r.move(ctx, provision.EventResume, "")
		default:
			if err := r.move(ctx, provision.EventWait, ""); err != nil {
				return err
			}
		}
		if err := r.sleep(ctx, s, poll); err != nil {
			return wait.also(err)
		}
	}
}

// sleep waits for a heartbeat, for poll, or for the deadline, which is an error.
func (r *runner) sleep(ctx context.Context, s flow.Step, poll time.Duration) error {
	var timer <-chan time.Time
	if poll > 0 {
		t := time.NewTimer(poll)
		defer t.Stop()
		timer = t.C
	}
	for {
		if err := errors.Join(r.keepTime(ctx), r.tellAgain(ctx)); err != nil {
			return err
		}
		left := time.Until(r.doc.Checkpoint.Deadline)
		if r.doc.Checkpoint.Deadline.IsZero() || r.doc.Checkpoint.Parked.Is() {
			left = tellEvery // a hold has no end of its own, and neither has a flow in maintenance
		}
		if left <= 0 {
			return fmt.Errorf("step %s: %w", s.ID(), r.late(s))
		}
		switch r.park(ctx, timer, left) {
		case byEnd:
			return ctx.Err()
		case byPoll:
			return nil
		case byNudge:
			if err := errors.Join(r.flush(ctx), r.fate()); err != nil {
				return err
			}
			r.mu.Lock()
			beat := r.beat
			r.mu.Unlock()
			if beat {
				return nil
			}
		}
	}
}

// What ends a pause of a runner.
type waker int

const (
	byEnd   waker = iota // the context's
	byPoll               // it is time to look again
	byLimit              // the time that was given is over
	byNudge
)

// park waits without holding the turn.
func (r *runner) park(ctx context.Context, poll <-chan time.Time, limit time.Duration) waker {
	end := time.NewTimer(limit)
	defer end.Stop()
	r.parked = true
	r.turn.Unlock()
	defer func() {
		r.turn.Lock()
		r.parked = false
	}()
	select {
	case <-ctx.Done():
		return byEnd
	case <-poll:
		return byPoll
	case <-end.C:
		return byLimit
	case <-r.woken:
		return byNudge
	}
}

func (r *runner) late(s flow.Step) error {
	limit := r.limit().Round(time.Second)
	if r.doc.Checkpoint.Agent == nil && r.task != nil && r.task.Facts[driver.FactBoot] == driver.BootRamdisk {
		return fmt.Errorf("timed out: the agent in the ramdisk did not call within %s (state %q). Look at the machine's console: does the machine get a DHCP offer, does it boot the ramdisk, does it reach this rackd?", limit, r.doc.State)
	}
	r.mu.Lock()
	agent, answered := r.agent, r.answered
	r.mu.Unlock()
	if agent == nil || agent.URL == "" {
		return fmt.Errorf("timed out: step %s was not done within %s (state %q)", s.ID(), limit, r.doc.State)
	}
	last := "has not answered this rackd"
	if !answered.IsZero() {
		last = fmt.Sprintf("last answered this rackd, or made progress, %s ago", time.Since(answered).Round(time.Second))
	}
	return fmt.Errorf("timed out: step %s: the agent at %s %s. The deadline of %s (state %q) counts from its last answer, not from its last heartbeat, which came %s ago. Check that this rackd reaches that address. If it does, the command hangs: look at the machine's console",
		s.ID(), agent.URL, last, limit, r.doc.State, time.Since(agent.LastSeen).Round(time.Second))
}

// agentState is the newest that is known of the agent.
func (r *runner) agentState() *work.Agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agent == nil {
		return nil
	}
	a := *r.agent
	return &a
}

func (r *runner) configDrive(ctx context.Context) (string, error) {
	if r.doc.Args.ConfigDrive == "" {
		return "", nil
	}
	sealed, err := r.c.cfg.Documents.ConfigDrive(ctx, r.doc.Args.ConfigDrive)
	if errors.Is(err, view.ErrDriveLost) {
		return "", fmt.Errorf("%w: %w", driver.ErrAwaited, err)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", driver.ErrUnreachable, err) // the step tries again: the bus may be away
	}
	input, err := r.c.secrets.Unseal(&r.doc, seal.Label{Kind: seal.SentDrive, Of: r.node.UUID, Work: r.root}, sealed)
	if err != nil {
		return "", fmt.Errorf("config drive: %w", err)
	}
	id := r.node.InstanceUUID
	if id == "" {
		id = r.node.UUID
	}
	return r.c.cfg.BuildDrive(ctx, input, id, r.node.Name)
}

// SaveHandle implements driver.Recorder.
func (r *runner) SaveHandle(ctx context.Context, handle any) error {
	body, err := json.Marshal(handle)
	if err != nil {
		return err
	}
	r.doc.Checkpoint.Handle, r.doc.Checkpoint.Phase = body, work.Started
	pointHandle.Hit(string(r.doc.Verb) + "/" + r.doc.Checkpoint.Step)
	if err := r.save(ctx); err != nil {
		if errors.Is(err, view.ErrConflict) {
			return fmt.Errorf("%w: %w", driver.ErrFenced, err)
		}
		return err
	}
	return nil
}

// Now implements driver.Recorder.
func (r *runner) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marked = r.tick()
	return r.marked
}

// tick is the wall clock's time, or a little more than the last tick if the clock has
// been set back since, here or by going from one rackd to another. r.mu is held.
func (r *runner) tick() time.Time {
	now := time.Now().UTC().Round(0) // what is read back from a document has no monotonic part
	if !now.After(r.clock) {
		now = r.clock.Add(1)
	}
	r.clock = now
	return now
}

// AgentGone implements driver.Recorder.
func (r *runner) AgentGone() {
	r.mu.Lock()
	r.agent, r.again = nil, true
	r.mu.Unlock()
}

// bootFact is the FactBoot as the running step has it, saved or not.
func (r *runner) bootFact() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boot
}
