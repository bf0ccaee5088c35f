package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

const (
	nodeID = "11111111-2222-4333-8444-555555555555"
	grace  = 15 * time.Minute
)

// rack is a store with one node, and all that a watchdog asks, with a clock that
// stands still.
type rack struct {
	t        *testing.T
	store    *store.Store
	now      time.Time
	outdated []bus.Member
	late     []bus.Member
	lives    bool
	away     error
	ended    int
}

func newRack(t *testing.T) *rack {
	r := &rack{t: t, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	st, err := store.Open(t.Context(), storetest.SQLite(t), store.Options{Now: func() time.Time { return r.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.store = st
	r.update(func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertNode(ctx, &store.Node{UUID: nodeID, Driver: "fake-hardware", ConductorGroup: "rack-a", AcceptedState: provision.Enroll})
	})
	return r
}

func (r *rack) Outdated(string, string) []bus.Member { return r.outdated }
func (r *rack) Late(string, string) []bus.Member     { return r.late }

func (r *rack) Owner(_, driver, group string) (bus.Member, bool) {
	if driver != "fake-hardware" || group != "rack-a" {
		r.t.Errorf("asked for the owner of a node of driver %q in group %q", driver, group)
	}
	return bus.Member{Name: "r1"}, r.lives
}

func (r *rack) watchdog() *Watchdog {
	return New(Config{Store: r.store, Roster: r, Away: func(string) error { return r.away }, Failover: func(string) []string { return []string{"rack-b"} },
		Ended: func(string) { r.ended++ }, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler)})
}

func (r *rack) update(f func(ctx context.Context, tx *store.Tx) error) {
	r.t.Helper()
	if err := r.store.Update(r.t.Context(), f); err != nil {
		r.t.Fatal(err)
	}
}

// begin puts the node into a state with open work.
func (r *rack) begin(verb work.Verb, state, target provision.State, args ...work.Args) {
	r.t.Helper()
	r.update(func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		if verb == work.Power {
			n.ProvisionState = state
			n.AcceptPower("power on", r.now)
		} else {
			n.Accept(state, target, r.now)
		}
		if n.WorkID != "" {
			if err := tx.EndWork(ctx, n.WorkID, store.WorkSuperseded, ""); err != nil {
				return err
			}
		}
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.InsertWork(ctx, &store.Work{ID: string(verb) + r.now.String(), Node: nodeID, Group: n.ConductorGroup, Generation: n.Generation, Verb: verb,
			Entry: state, EntryTarget: target, Owner: "r1", Args: append(args, work.Args{})[0]})
	})
}

func (r *rack) node() *store.Node {
	r.t.Helper()
	n, err := r.store.Node(r.t.Context(), nodeID)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// pass lets time pass, with looks in between.
func (r *rack) pass(w *Watchdog, d time.Duration) {
	r.t.Helper()
	for end := r.now.Add(d); r.now.Before(end); r.now = r.now.Add(time.Minute) {
		if err := w.look(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := w.look(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// The watchdog ends no flow whose node is in maintenance, and begins to count when that ends. What does not park
// ends as before.
func TestMaintenanceParksAFlow(t *testing.T) {
	for _, c := range []struct {
		verb  work.Verb
		fault string
		parks bool
	}{{verb: work.Clean, parks: true}, {verb: work.Clean, fault: "power failure"}, {verb: work.Power}, {verb: work.Abort}} {
		r := newRack(t)
		r.begin(c.verb, provision.CleanWait, provision.Manageable)
		r.update(func(ctx context.Context, tx *store.Tx) error {
			if c.fault != "" {
				rows, err := tx.Observed(ctx, []string{nodeID})
				if err != nil {
					return err
				}
				rows[nodeID].FaultNumber, rows[nodeID].ObservedFault = 1, c.fault
				return tx.SaveObserved(ctx, []*store.Node{rows[nodeID]})
			}
			n, err := tx.Node(ctx, nodeID)
			if err != nil {
				return err
			}
			n.SetMaintenance(true, "a disk is pulled")
			return tx.UpdateNode(ctx, n)
		})
		if n := r.node(); !n.Maintenance || n.Fault != c.fault {
			t.Fatalf("maintenance %t, fault %q", n.Maintenance, n.Fault)
		}
		w := r.watchdog()
		if r.pass(w, 24*time.Hour); (r.ended == 0) != c.parks {
			t.Errorf("%s with fault %q: ended %d times", c.verb, c.fault, r.ended)
		}
		if !c.parks {
			continue
		}
		r.update(func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, nodeID)
			if err != nil {
				return err
			}
			n.SetMaintenance(false, "")
			return tx.UpdateNode(ctx, n)
		})
		if r.pass(w, grace-time.Minute); r.ended != 0 {
			t.Error("ended before a rackd had the time to come back")
		}
		if r.pass(w, 2*time.Minute); r.ended != 1 {
			t.Errorf("ended %d times after the maintenance", r.ended)
		}
	}
}

// Each transient state is left by the state machine's failure, not before its
// deadline and the grace have passed.
func TestEveryTransientStateIsLeft(t *testing.T) {
	for _, info := range provision.States {
		if !provision.Transient(info.State) {
			continue
		}
		t.Run(string(info.State), func(t *testing.T) {
			r := newRack(t)
			r.begin(work.Deploy, info.State, info.Target)
			before := r.node()
			w := r.watchdog()
			r.pass(w, info.Deadline+grace-time.Minute)
			if n := r.node(); n.ProvisionState != info.State || r.ended != 0 {
				t.Fatalf("left for %q too early", n.ProvisionState)
			}
			r.pass(w, time.Minute)
			n := r.node()
			want, _ := provision.Next(info.State, provision.EventFail)
			if n.ProvisionState != want.To || n.WorkID != "" || n.Generation != before.Generation+1 || r.ended != 1 {
				t.Errorf("state %q, work %q, generation %d after %d, %d ended", n.ProvisionState, n.WorkID, n.Generation, before.Generation, r.ended)
			}
			if target := provision.TargetOf(want.To, provision.EventFail, info.Target); n.TargetProvisionState != target {
				t.Errorf("bound for %q, want %q", n.TargetProvisionState, target)
			}
			for _, part := range []string{`"deploy"`, `"rack-a"`, `["rack-b"]`, "since 2026-01-02T12:00:00Z", "none ever began it", "Start a rackd"} {
				if !strings.Contains(n.LastError, part) {
					t.Errorf("the error does not say %s: %s", part, n.LastError)
				}
			}
			if failed := n.ProvisionState == provision.CleanFail || n.ProvisionState == provision.ServiceFail; n.Maintenance != failed ||
				n.Fault != map[provision.State]string{provision.CleanFail: "clean failure", provision.ServiceFail: "service failure"}[n.ProvisionState] ||
				failed && n.MaintenanceReason != n.LastError {
				t.Errorf("in %q, maintenance is %v, fault %q, because of %q", n.ProvisionState, n.Maintenance, n.Fault, n.MaintenanceReason)
			}
			r.told(before.WorkID, n.LastError)
		})
	}
}

// told holds that the work's row, the history and the outbox tell of its end.
func (r *rack) told(id, text string) {
	r.t.Helper()
	w, err := r.store.Work(r.t.Context(), id)
	if err != nil || w.State != store.WorkEnded || w.Error != text {
		r.t.Errorf("work %+v, %v", w, err)
	}
	lines, err := r.store.History(r.t.Context(), store.HistoryQuery{Node: nodeID})
	if err != nil || len(lines) != 1 || lines[0].Event != text || lines[0].Severity != "ERROR" || lines[0].Work != id {
		r.t.Errorf("history %+v, %v", lines, err)
	}
	out, err := r.store.OwnOutbox(r.t.Context(), "", "", 10)
	if err != nil || len(out) != 1 || out[0].Node != nodeID || out[0].Group != "rack-a" {
		r.t.Errorf("outbox %v, %v", out, err)
	}
}

// Work in a state where the node rests has no deadline but the grace: a node must not
// stay locked because nobody switches it on.
func TestWorkThatMovesNoState(t *testing.T) {
	for _, c := range []struct {
		verb  work.Verb
		state provision.State
	}{{work.Power, provision.Enroll}, {work.Abort, provision.DeployFail}} {
		t.Run(string(c.verb), func(t *testing.T) {
			r := newRack(t)
			r.begin(c.verb, c.state, provision.NoState)
			w := r.watchdog()
			r.pass(w, grace-time.Minute)
			if r.ended != 0 {
				t.Fatal("ended within the grace")
			}
			r.pass(w, time.Minute)
			if n := r.node(); n.ProvisionState != c.state || n.WorkID != "" || n.TargetPowerState != "" || n.LastError == "" {
				t.Errorf("state %q, work %q, bound for %q, error %q", n.ProvisionState, n.WorkID, n.TargetPowerState, n.LastError)
			}
		})
	}
}

// A power request that runs beside a flow ends with it: a client that waits for it would wait
// for ever.
func TestPowerRequestBesideAFlowEndsWithIt(t *testing.T) {
	r := newRack(t)
	r.begin(work.Deploy, provision.DeployWait, provision.Active)
	r.update(func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		flow := n.WorkID
		n.AcceptPower("power off", r.now)
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		if err := tx.EndWork(ctx, flow, store.WorkSuperseded, ""); err != nil {
			return err
		}
		return tx.InsertWork(ctx, &store.Work{ID: "continued", Node: nodeID, Group: n.ConductorGroup, Generation: n.Generation, Verb: work.Deploy,
			Args: work.Args{Continues: flow, PowerTarget: "power off"}, Entry: provision.DeployWait, EntryTarget: provision.Active, Owner: "r1"})
	})
	r.pass(r.watchdog(), 2*time.Hour)
	if n := r.node(); n.ProvisionState != provision.DeployFail || n.WorkID != "" || n.TargetPowerState != "" {
		t.Errorf("state %q, work %q, target power state %q", n.ProvisionState, n.WorkID, n.TargetPowerState)
	}
}

// Whoever comes back in time has the node again, and the time counts anew.
func TestRackThatComesBack(t *testing.T) {
	for name, change := range map[string]func(r *rack, back bool){
		"a rackd":  func(r *rack, back bool) { r.lives = back },
		"the site": func(r *rack, back bool) { r.away = map[bool]error{true: errors.New("away")}[back] },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t)
			r.begin(work.Deploy, provision.Deploying, provision.Active)
			w := r.watchdog()
			for range 10 {
				r.pass(w, grace-2*time.Minute)
				change(r, true)
				r.pass(w, time.Minute)
				change(r, false)
			}
			if r.ended != 0 {
				t.Fatal("the work was ended although it was never without a rackd for as long as the grace")
			}
			r.pass(w, grace)
			if r.ended != 1 {
				t.Error("the work is still open")
			}
		})
	}
}

// Rackds that live and cannot read what central writes are named with what is to be done.
func TestOutdatedRackdsAreNamed(t *testing.T) {
	r := newRack(t)
	r.outdated = []bus.Member{{Name: "r1", Version: "0.0.9"}}
	r.begin(work.Deploy, provision.Deploying, provision.Active)
	info, _ := provision.Describe(provision.Deploying)
	r.pass(r.watchdog(), info.Deadline+2*grace)
	if n := r.node(); n.ProvisionState != provision.DeployFail || !strings.Contains(n.LastError, "r1 lives, of version 0.0.9") || !strings.Contains(n.LastError, "Upgrade the rackds") {
		t.Errorf("state %q, last_error %q", n.ProvisionState, n.LastError)
	}
}

// So are those that lack the key that central seals with.
func TestRackdsWithoutTheKeyAreNamed(t *testing.T) {
	r := newRack(t)
	r.late = []bus.Member{{Name: "r1"}}
	r.begin(work.Deploy, provision.Deploying, provision.Active)
	info, _ := provision.Describe(provision.Deploying)
	r.pass(r.watchdog(), info.Deadline+2*grace)
	if n := r.node(); n.ProvisionState != provision.DeployFail || !strings.Contains(n.LastError, "r1 lives and does not have the key") || !strings.Contains(n.LastError, "ironyard site renew") {
		t.Errorf("state %q, last_error %q", n.ProvisionState, n.LastError)
	}
}

func TestSiteThatIsAwayEndsNothing(t *testing.T) {
	r := newRack(t)
	r.begin(work.Deploy, provision.DeployWait, provision.Active)
	r.away = errors.New("the link is down")
	r.pass(r.watchdog(), 3*time.Hour)
	if n := r.node(); r.ended != 0 || n.ProvisionState != provision.DeployWait {
		t.Errorf("state %q", n.ProvisionState)
	}
}

func TestHeldWorkWaitsForItsOperator(t *testing.T) {
	r := newRack(t)
	r.begin(work.Clean, provision.CleanHold, provision.Manageable)
	r.pass(r.watchdog(), 3*time.Hour)
	if n := r.node(); r.ended != 0 || n.ProvisionState != provision.CleanHold {
		t.Errorf("state %q", n.ProvisionState)
	}
}

// Of several replicas one ends the work; and what has changed since it was judged is
// left alone.
func TestWhatHasChangedSinceIsLeftAlone(t *testing.T) {
	r := newRack(t)
	r.begin(work.Deploy, provision.DeployWait, provision.Active)
	judged, err := r.store.Unfinished(t.Context(), "", 10)
	if err != nil || len(judged) != 1 {
		t.Fatalf("%d works, %v", len(judged), err)
	}
	a, b := r.watchdog(), r.watchdog()
	r.now = r.now.Add(time.Hour)
	r.begin(work.Delete, provision.Deleting, provision.Available) // an operator's way out
	if err := a.end(t.Context(), judged[0], r.now); err != nil || r.ended != 0 || r.node().ProvisionState != provision.Deleting {
		t.Fatalf("a work that was superseded was ended: %v", err)
	}
	if judged, err = r.store.Unfinished(t.Context(), "", 10); err != nil || len(judged) != 1 {
		t.Fatalf("%d works, %v", len(judged), err)
	}
	for _, w := range []*Watchdog{a, b} {
		if err := w.end(t.Context(), judged[0], r.now); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.node(); r.ended != 1 || n.ProvisionState != provision.Error {
		t.Errorf("ended %d times, state %q", r.ended, n.ProvisionState)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	r := newRack(t)
	w := r.watchdog()
	w.Grace = 50 * time.Millisecond
	r.begin(work.Deploy, provision.Deploying, provision.Active)
	began := time.Now()
	w.Now = func() time.Time { return r.now.Add(10_000 * time.Since(began)) } // a state's deadline is half an hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	w.Ended = func(string) { cancel() }
	if err := w.Run(ctx); err != nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// A replica whose clock is behind accepts a deploy, and the rack goes away at once: the work has its deadline all the same.
func TestWorkOfAReplicaWhoseClockIsBehindHasItsDeadline(t *testing.T) {
	r := newRack(t)
	r.begin(work.Deploy, provision.Deploying, provision.Active)
	state, _ := provision.Describe(provision.Deploying)
	r.now = r.now.Add(5 * time.Hour) // the clock of the replica whose watchdog this is
	w := r.watchdog()
	r.pass(w, state.Deadline+grace-2*time.Minute)
	if r.ended != 0 {
		t.Fatalf("it ended before its state's deadline, %v", state.Deadline)
	}
	r.pass(w, 4*time.Minute)
	if r.ended != 1 {
		t.Errorf("%d works ended after the deadline", r.ended)
	}
}

// A rackd's clock may be ahead when it tells its last: the deadline counts, at the latest, from when no rackd was left.
func TestAReportFromTheFutureHoldsNothingUp(t *testing.T) {
	r := newRack(t)
	r.begin(work.Deploy, provision.Deploying, provision.Active)
	r.update(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Observed(ctx, []string{nodeID})
		if err != nil {
			return err
		}
		n := rows[nodeID]
		n.Observe(n.Generation)
		n.ObservedEpoch, n.ObservedSeq, n.ObservedOwner = 1, 2, "r1"
		n.ObservedState, n.ObservedTarget, n.ObservedAt = provision.DeployWait, provision.Active, r.now.Add(365*24*time.Hour)
		return tx.SaveObserved(ctx, []*store.Node{n})
	})
	waiting, _ := provision.Describe(provision.DeployWait)
	w := r.watchdog()
	r.pass(w, waiting.Deadline+grace-2*time.Minute)
	if r.ended != 0 {
		t.Fatal("it ended before the deadline of its state")
	}
	r.pass(w, 4*time.Minute)
	if n := r.node(); r.ended != 1 || n.WorkID != "" {
		t.Errorf("%d works ended, the node is %q with work %q", r.ended, n.ProvisionState, n.WorkID)
	}
}

// The abort of a service that the watchdog has ended brings the machine out of the ramdisk: whether it was booted the node says, whatever
// step ran last.
func TestAServiceThatWasInTheRamdisk(t *testing.T) {
	up, outOfBand := map[string]any{"step": "prepare_service", "requires_ramdisk": true}, map[string]any{"step": "update", "requires_ramdisk": false}
	for name, c := range map[string]struct {
		steps []any
		at    int
		want  bool
	}{
		"in an out-of-band step":       {[]any{up, outOfBand}, 1, true},
		"while it boots":               {[]any{up, outOfBand}, 0, true},
		"before the ramdisk is booted": {[]any{outOfBand, up}, 0, false},
		"without a ramdisk":            {[]any{outOfBand, outOfBand}, 1, false},
		"before anything was told":     {nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t)
			r.begin(work.Service, provision.ServiceWait, provision.Active)
			r.update(func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, nodeID)
				if err != nil {
					return err
				}
				n.DriverInternalInfo = map[string]any{"service_steps": c.steps, "service_step_index": c.at}
				return tx.UpdateObservation(ctx, n)
			})
			r.pass(r.watchdog(), 2*time.Hour)
			n := r.node()
			if got, _ := n.DriverInternalInfo[work.ServiceRamdisk].(bool); n.ProvisionState != provision.ServiceFail || got != c.want {
				t.Errorf("in %q, %v, want %v", n.ProvisionState, n.DriverInternalInfo, c.want)
			}
		})
	}
}

// Where an earlier service has left the machine tells nothing of one that began in the instance, and neither does the list of its steps.
// One that followed it at once, and never began, leaves the machine there.
func TestWhereAnEarlierServiceHasLeftTheMachine(t *testing.T) {
	for name, c := range map[string]work.Args{
		"from active": {From: provision.Active},
		"after it":    {From: provision.ServiceFail, InRamdisk: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t)
			r.update(func(ctx context.Context, tx *store.Tx) error {
				n, err := tx.Node(ctx, nodeID)
				if err != nil {
					return err
				}
				n.DriverInternalInfo = map[string]any{work.ServiceRamdisk: true}
				return tx.UpdateObservation(ctx, n)
			})
			r.begin(work.Service, provision.Servicing, provision.Active, c)
			r.pass(r.watchdog(), 2*time.Hour)
			n := r.node()
			if got, _ := n.DriverInternalInfo[work.ServiceRamdisk].(bool); n.ProvisionState != provision.ServiceFail || got != c.InRamdisk {
				t.Errorf("in %q, %v", n.ProvisionState, n.DriverInternalInfo)
			}
		})
	}
}
