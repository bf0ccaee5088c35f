package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/chaos"
	"github.com/ironyard/ironyard/e2e/faults/operators"
	"github.com/ironyard/ironyard/e2e/faults/wallclock"
)

// shortRun is how long the run in the middle of the other tests lasts.
const shortRun = time.Minute

// TestChaos breaks everything at random for IRONYARD_CHAOS (such as 30m), by the plan
// of IRONYARD_CHAOS_SEED or of a new seed, which it prints.
func TestChaos(t *testing.T) {
	l := theLab(t)
	seed, length := rand.Uint64N(1_000_000), shortRun
	if text := os.Getenv("IRONYARD_CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	if text := os.Getenv("IRONYARD_CHAOS"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		length = d
	}
	shape := chaos.Shape{Central: len(l.Central), Hub: len(l.Hub.Servers), Servers: len(l.Sites[0].Bus.Servers), Clocks: wallclock.Supported()}
	for _, s := range l.Sites {
		shape.Rackds = append(shape.Rackds, len(s.Rackds))
		shape.Machines = append(shape.Machines, s.MachineCount())
	}
	plan := chaos.Plan(seed, length, shape)
	t.Logf("IRONYARD_CHAOS_SEED=%d IRONYARD_CHAOS=%v: %d faults; records in %s", seed, length, len(plan), l.dir)
	log, err := l.record(fmt.Sprintf("faults-%d.log", seed))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "the failed run can be repeated with IRONYARD_CHAOS_SEED=%d IRONYARD_CHAOS=%v\n", seed, length)
		}
	}()
	crew := l.crew(seed)
	working, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { crew.Run(working); close(done) }()
	err = chaos.Run(t.Context(), l.Topology, plan, log)
	stop()
	<-done
	if err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := l.AwaitWhole(ctx); err != nil {
		t.Errorf("not whole again: %v", err)
	}
	if err := crew.EndMaintenance(ctx); err != nil {
		t.Error(err)
	}
	l.judge(t)
	if t.Failed() {
		return
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := crew.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	l.judge(t)
}

// crew are operators for all machines.
func (l *lab) crew(seed uint64) *operators.Crew {
	c := &operators.Crew{Client: l.ops, Machines: l.machines, Seed: seed, Pause: 2 * time.Second}
	for _, i := range l.Images {
		c.Images = append(c.Images, i.Info())
	}
	return c
}
