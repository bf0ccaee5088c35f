package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
)

// repairWithin bounds a repair, which is tried until it works.
const repairWithin = 30 * time.Second

// Run carries out a plan and returns when everything is repaired, also when ctx ends
// before. What it does goes to log, a line each. An error is a fault that could not be
// inflicted or repaired: a fault of the test.
func Run(ctx context.Context, t *topology.Topology, plan []Fault, log io.Writer) error {
	r := &run{began: time.Now(), log: log}
	for _, f := range plan {
		r.work.Go(func() { r.carryOut(ctx, t, f) })
	}
	r.work.Wait()
	return errors.Join(append(r.errs, disarm(ctx, t, plan))...)
}

// disarm takes back what machines of the plan have not met yet: a write that is to fail, or answers of a BMC. It would meet who uses the
// machines after the run.
func disarm(ctx context.Context, t *topology.Topology, plan []Fault) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairWithin)
	defer cancel()
	none := 0
	var errs []error
	for i, s := range t.Sites {
		if !slices.ContainsFunc(plan, func(f Fault) bool { return f.Site == i && (f.Kind == FailDisk || f.Kind == FailBMC) }) {
			continue
		}
		if err := s.Machines.Client.SetFaults(ctx, "", control.Faults{FailWrites: &none, BMCErrors: &none}); err != nil {
			errs = append(errs, fmt.Errorf("disarm the machines of %s: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}

type run struct {
	began time.Time
	work  sync.WaitGroup

	mu   sync.Mutex
	log  io.Writer
	errs []error
}

func (r *run) carryOut(ctx context.Context, t *topology.Topology, f Fault) {
	if !sleep(ctx, time.Until(r.began.Add(f.At))) {
		return
	}
	undo, err := inflict(ctx, t, f)
	r.note(f, "", err)
	if undo == nil {
		return
	}
	sleep(ctx, time.Until(r.began.Add(f.At+f.For)))
	// The test may be over; what was broken is put right all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairWithin)
	defer cancel()
	for {
		if err = undo(ctx); err == nil || !sleep(ctx, 500*time.Millisecond) {
			break
		}
	}
	r.note(f, "repaired: ", err)
}

func (r *run) note(f Fault, what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	if err != nil {
		text = ": " + err.Error()
		// A bucket cannot be lost while its bus is down or has lost it already.
		if f.For > 0 {
			r.errs = append(r.errs, fmt.Errorf("%s%v: %w", what, f, err))
		}
	}
	now := time.Now()
	fmt.Fprintf(r.log, "%s %6.1fs %s%v%s\n", now.UTC().Format("15:04:05.000"), now.Sub(r.began).Seconds(), what, f, text)
}

// sleep waits and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}
