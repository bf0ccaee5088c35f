package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/fleet"
	"github.com/ironyard/ironyard/e2e/fleet/disk"
	"github.com/ironyard/ironyard/e2e/fleet/journal"
	"github.com/ironyard/ironyard/e2e/fleet/machine"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Twenty machines are deployed, taken back and cleaned, and deployed again; in the middle of
// that one of two rackds is killed, and never comes back. Every deploy ends as if
// nothing had happened, and each disk was written once for each deploy.
func TestDeploySurvivesTheDeathOfARackd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r := newRig(ctx, t, fleet.Default)
	cleaned := map[string]bool{} // the others go straight to available
	for i, m := range r.fleet.Members {
		e := r.fleet.Enrolment(m)
		e.Clean = i%2 == 0
		cleaned[m.Name] = e.Clean
		id, err := r.o.Enrol(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		r.nodes[m.Name] = id
	}
	r.each(ctx, "make available", func(ctx context.Context, _ *fleet.Member, node string) error { return r.o.MakeAvailable(ctx, node) })
	r.each(ctx, "deploy", r.deploy)
	r.audited()
	r.each(ctx, "undeploy", func(ctx context.Context, m *fleet.Member, node string) error {
		if err := r.o.Ask(ctx, node, "deleted", nil); err != nil {
			return err
		}
		if _, err := r.o.Wait(ctx, node, provision.Available); err != nil {
			return err
		}
		if m.Machine.On() {
			return fmt.Errorf("it is on")
		}
		if holds, _ := m.Disk.Holds(); (holds == disk.Empty) != cleaned[m.Name] {
			return fmt.Errorf("its disk holds %s", holds)
		}
		return nil
	})
	r.audited()

	killed := make(chan struct{})
	seq := r.fleet.Journal.Last()
	go func() {
		defer close(killed)
		for begun := 0; begun < len(r.fleet.Members)/2; {
			for _, record := range r.fleet.Journal.Await(ctx, seq, 0) {
				if seq = record.Seq; record.Kind == journal.WriteBegun {
					begun++
				}
			}
			if ctx.Err() != nil {
				return
			}
		}
		r.rackd[0].kill()
	}()
	r.each(ctx, "deploy again", r.deploy)
	<-killed
	r.audited()
	for _, m := range r.fleet.Members {
		if counts := r.fleet.Journal.Counts(m.Name); counts[journal.WriteBegun] != 2 || counts[journal.WriteEnded] != 2 {
			t.Errorf("%s: %d writes begun, %d ended, want 2 each", m.Name, counts[journal.WriteBegun], counts[journal.WriteEnded])
		}
	}
}

func (r *rig) deploy(ctx context.Context, m *fleet.Member, node string) error {
	if err := r.o.SetImage(ctx, node, r.image); err != nil {
		return err
	}
	if err := r.o.Ask(ctx, node, "active", nil); err != nil {
		return err
	}
	if _, err := r.o.Wait(ctx, node, provision.Active); err != nil {
		return err
	}
	return r.running(ctx, m)
}

// running waits until the machine runs the image.
func (r *rig) running(ctx context.Context, m *fleet.Member) error {
	for seq := uint64(0); m.Machine.Status().State != machine.Instance; {
		for _, record := range r.fleet.Journal.Await(ctx, seq, 0) {
			seq = record.Seq
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the node is active, but the machine is %+v", m.Machine.Status())
		}
	}
	if holds, image := m.Disk.Holds(); holds != disk.Image || image != r.image.SHA256 {
		return fmt.Errorf("its disk holds %s %s", holds, image)
	}
	return nil
}
