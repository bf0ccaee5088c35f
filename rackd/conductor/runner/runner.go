package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/conductor/flow"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// Runner carries one piece of work to its end. Its exported methods are safe for concurrent use, except Run, Handle and
// SaveHandle: those belong to the goroutine of the flow.
type Runner struct {
	// These do not change.

	// deps is what this runner shares with the other runners of the rackd.
	deps *Deps
	// id is that of the work.
	id string
	// root is the id of the work whose flow it is. It stays the same when another request goes on with the flow; agents know it.
	root string
	// node is the node's document as it was when the runner began, with its secrets sealed.
	node *node.Document
	// taken is the work's document as this rackd found it, before the runner took it.
	taken view.Work
	// lease is the id of the lease under which the runner took the work.
	lease string
	// log names the node and the work in each line.
	log *slog.Logger
	// cancel ends the context of Run.
	cancel context.CancelFunc
	// woken has one place: a message in it wakes a flow that waits.
	woken chan struct{}

	// leave says that the ring names another rackd: the runner gives the work away between two steps.
	leave atomic.Bool
	// forgotten says that the bus has no such work any more.
	forgotten atomic.Bool

	// These belong to the goroutine of Run, or to the holder of turn.

	// doc is the work's document as the runner is about to write it.
	doc work.Document
	// revision is that of the document on the bus, which the next write replaces.
	revision uint64
	// saved is when the document was last written.
	saved time.Time
	// task is what a step gets of the work; nil: the node's hardware cannot be resolved.
	task *driver.Task
	// renewed is the node's document that task was last brought up to.
	renewed *node.Document
	// inBand says that the step that runs, or is to begin, is the agent's.
	inBand bool
	// unseen says that a step ran under an owner before, and this runner has not looked yet how far it is.
	unseen bool
	// failed is the step that has failed and is about to be tried again; empty: none.
	failed string
	// display is what the fields of the node tell of the flow.
	display shown
	// lastReport is when the state was last reported, lastSecret when a secret that was replaced was.
	lastReport, lastSecret time.Time
	// reportedBoot is the boot, by its clockMark, after which a wait last reported the machine's power; nil: none.
	reportedBoot *time.Time
	// unkept are the reports of an installer that the next checkpoint has.
	unkept []report
	// wakesAt is when a timer wakes the runner to write addresses that are not in the last checkpoint.
	wakesAt time.Time

	// turn is held by Run, except while its flow does nothing but wait: then others may write to the machine (Aside).
	turn sync.Mutex
	// parked says that Run has let the turn go because its flow does nothing but wait. turn guards it.
	parked bool

	// mu guards what follows: others bring it to the flow, or ask for it.
	mu sync.Mutex

	// ctx is that of Run; nil before it.
	ctx context.Context
	// besides are the goroutines that ask an agent or a BMC beside the flow. Run waits for them.
	besides sync.WaitGroup
	// epoch is the one under which the runner holds the work.
	epoch uint64
	// lost is why the work is no longer this runner's; nil: it is.
	lost error
	// doomed is why the work is to fail, whatever its step does; nil: for nothing.
	doomed error
	// cutShort ends the attempt of a step that runs.
	cutShort context.CancelCauseFunc
	// touched says that the flow may have sent something to the machine.
	touched bool

	// boots counts the boots into the ramdisk, with what is known of the machine in the newest one.
	boots work.Boot
	// bootFact is the FactBoot that the machine was last told of.
	bootFact string
	// bootsAgain says that the ramdisk is about to be booted once more.
	bootsAgain bool
	// installs says that the ramdisk is an installer; reports are what that has said, until a checkpoint takes them in.
	installs bool
	reports  []report
	// medium is the ramdisk's medium that was published last; nil: none.
	medium *medium
	// instance are the facts of which the media of the instance were published last; empty: they were ended, nil: neither.
	instance map[string]string
	// bootPhases counts what the history has of this boot: lines by their name, and by name and detail.
	bootPhases map[string]int
	// phases are those that no checkpoint has taken in yet.
	phases []work.Line
	// lastPhase is when the last of the phases began.
	lastPhase time.Time

	// agent is the newest that is known of the boot's agent; nil: no agent has called.
	agent *work.Agent
	// kept is the agent that the newest checkpoint has; each checkpoint closes keeping and makes another.
	kept    *work.Agent
	keeping chan struct{}
	// heartbeat says that an agent's call came since the step last ran.
	heartbeat bool
	// replied says that the agent or the BMC has shown, since the last flush, that it gets on. That moves the deadline.
	replied bool
	// answered is when the agent last answered, or its command had got on.
	answered time.Time
	// commandAt is how far a command of the agent was when the runner last looked at it.
	commandAt struct {
		id   string // the command's
		done int64  // bytes
	}
	// askingAgent says that the agent is being asked whether it is still there, since another wants its place.
	askingAgent bool
	// livedAt is when the agent last said so.
	livedAt time.Time
	// askingBMC says that the BMC is being asked which machine it belongs to.
	askingBMC bool
	// askedInBoot is the boot in which that question was begun.
	askedInBoot uint64
	// answeredBMC says that the BMC has answered, if only that it does not know.
	answeredBMC bool
	// strayed says that driver_info leads to another BMC than when the flow began, which has not told that it is of the same machine.
	strayed bool
	// busy is what the BMC may be at work on for the step; nil: nothing.
	busy *work.Busy

	// clock is the newest time that an agent's call or a step was given.
	clock time.Time
	// clockMark is the newest time that a step was given.
	clockMark time.Time

	// foreign is when this rackd took the work from another, zero if it did not.
	foreign time.Time
	// progress is what the step or the agent last said of its progress.
	progress *agentapi.Progress
	// inventory is what a step found of the machine, until it is published.
	inventory *agentapi.Inventory
	// inspected is the inventory that the ramdisk has sent of its own accord.
	inspected *agentapi.Inventory
	// observed is what steps saw of the hardware, until it is published.
	observed hardware.Observation
}

// New returns the runner of a piece of work that is open; Run lets it run. cancel ends the context of Run.
func New(deps *Deps, n *node.Document, w view.Work, cancel context.CancelFunc) *Runner {
	r := &Runner{deps: deps, id: w.Doc.ID, root: w.Doc.Root(), node: n, doc: w.Doc, revision: w.Revision, taken: w, epoch: w.Doc.Epoch, lease: deps.Members.ID(), cancel: cancel,
		woken: make(chan struct{}, 1), keeping: make(chan struct{}), lastPhase: time.Now(), bootPhases: map[string]int{}}
	// The document in the view is shared; what this runner changes in it is its own.
	r.doc.Checkpoint.Facts = maps.Clone(w.Doc.Checkpoint.Facts)
	r.doc.Checkpoint.Secrets = slices.Clone(w.Doc.Checkpoint.Secrets)
	r.log = deps.Log.With("node", n.UUID, "name", n.Name, "work", w.Doc.ID, "verb", string(w.Doc.Verb), "request", w.Doc.RequestID)
	r.boots, r.bootFact = w.Doc.Checkpoint.Boot, w.Doc.Checkpoint.Facts[driver.FactBoot]
	r.installs = r.bootFact == driver.BootRamdisk && w.Doc.Checkpoint.Facts[driver.FactInstaller] != ""
	if r.bootFact == driver.BootRamdisk { // what its last owner has published
		r.medium = &medium{boot: r.boots.Number, facts: maps.Clone(w.Doc.Checkpoint.Facts)}
	}
	own := w.Doc.Owner == deps.Name
	if !own {
		r.foreign = time.Now()
	}
	r.busy = inherited(w.Doc.Checkpoint.BMC, own)
	r.clockMark, r.clock = w.Doc.Checkpoint.Mark, w.Doc.Checkpoint.Mark
	if w.Doc.Checkpoint.Agent != nil && deps.Secrets.Pinned(n, &w.Doc) {
		a := *w.Doc.Checkpoint.Agent
		r.agent, r.kept = &a, w.Doc.Checkpoint.Agent
		if a.LastSeen.After(r.clock) {
			r.clock = a.LastSeen
		}
	}
	return r
}

// Stop ends Run, which writes nothing more.
func (r *Runner) Stop() { r.lose(errors.New("the node's work has moved on")); r.cancel() }

// Nudge wakes a flow that waits: there is something to look at.
func (r *Runner) Nudge() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// ID is the id of the work.
func (r *Runner) ID() string { return r.id }

// Root is the id of the work whose flow it is. Agents know that one.
func (r *Runner) Root() string { return r.root }

// Lease is the id of the lease under which this runner holds the work.
func (r *Runner) Lease() string { return r.lease }

// Boot is the newest boot into the ramdisk that the work has caused.
func (r *Runner) Boot() work.Boot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.boots
}

// HandOn says whether the ring names another rackd. If it does, the runner gives the work away between two steps.
func (r *Runner) HandOn(away bool) { r.leave.Store(away) }

// lose notes why the work is no longer this runner's. The first reason stays.
func (r *Runner) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost == nil {
		r.lost = err
	}
}

// Run takes the work, runs its flow and ends it. It returns early, leaving the
// document as it is, when the node is lost or the context ends.
func (r *Runner) Run(ctx context.Context) {
	r.turn.Lock()
	defer r.turn.Unlock()
	ctx, end := context.WithCancel(ctx)
	if r.doc.RequestID != "" { // a person may have corrected the account at the BMC
		ctx = driver.WithTry(ctx)
	}
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	defer r.besides.Wait()
	defer end()
	from := r.doc.Owner
	if err := r.take(ctx); err != nil {
		r.log.Info("work not taken", "error", err)
		return
	}
	r.unseen = r.doc.Checkpoint.Step != "" && r.doc.Checkpoint.Phase != work.Ended
	steps, err := r.prepare()
	if err := r.tellTaken(ctx, from, steps); err != nil {
		r.log.Info("work taken and not told of", "error", err)
		return
	}
	if err := r.tellSecrets(ctx); err != nil {
		r.log.Info("work taken, and the secrets that it has replaced are not told of", "error", err)
		return
	}
	if r.doc.Checkpoint.Leaving != nil && r.doc.Checkpoint.Over == nil {
		if at := r.doc.Checkpoint.Index; at < len(steps) {
			r.inBand = steps[at].InBand // of the step that has failed
		}
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
		r.deps.Metrics.Released()
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
func (r *Runner) prepare() ([]flow.Step, error) {
	r.inheritReadied()
	n, err := r.deps.Secrets.Open(r.node)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w; check that central and this rackd have the same key for conductor group %q", r.node.Label(), err, r.node.Group)
	}
	r.showSecrets(n)
	n = driver.WithBootMode(n, r.doc.Checkpoint.Facts)
	hw, err := r.deps.Hardware.Resolve(n)
	if err != nil {
		return nil, err
	}
	// The key may be replaced while this runs. Keys of a group never go.
	tokens := func() []string { return r.deps.Keys.Of(n.Group).Tokens(n.UUID, r.root, r.Boot().Number) }
	r.task = &driver.Task{Node: n, Hardware: hw, Fence: flowFence{r}, WorkID: r.root, LetGo: r.doc.Args.LetGo, Deploys: r.doc.Flow() == work.Deploy, Images: r.deps.Images, Media: r.media(), Reach: r.deps.Reach, Record: r, Secrets: replacing{r},
		Agent: listened{r.deps.NewAgent(n.UUID, tokens, r.Agent), r}, ConfigDrive: r.configDrive, Inspected: r.Sent, Facts: r.doc.Checkpoint.Facts,
		Attended: r.parks, Taken: r.foreign}
	r.renewed = r.node
	r.seeWay()
	steps, err := r.deps.Flows.Fixed(&r.doc, r.task)
	r.inheritTouch(steps)
	return steps, err
}

// renew takes up what a request has changed of how the node's machine is reached and may be switched: driver_info, which
// key of its BMC is trusted, and disable_power_off. Central takes such changes while an inspection waits, and in a hold. The rest was fixed
// when the flow began.
func (r *Runner) renew() {
	n := r.deps.Documents.Node(r.node.UUID)
	if r.task == nil || n == nil || n == r.renewed || n.Revision < r.renewed.Revision || n.Group != r.node.Group || n.Driver != r.node.Driver {
		return
	}
	open, err := r.deps.Secrets.Open(n)
	if err != nil {
		r.log.Error("the node's changed document is not taken up", "error", err)
		return
	}
	now := *r.task.Node
	now.DriverInfo, now.DisablePowerOff = maps.Clone(open.DriverInfo), open.DisablePowerOff
	now.PinnedSince, now.Kept = open.PinnedSince, open.Kept // a BMC with another key, which an operator has let in
	r.showSecrets(&now)
	r.task.Node, r.renewed = &now, n
	r.seeWay()
}
