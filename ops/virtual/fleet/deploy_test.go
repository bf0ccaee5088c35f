package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Twenty machines, two rackds: deployed, taken back and cleaned, deployed in spite of
// trouble, and deployed while one of the rackds sleeps or dies.
func TestTwentyMachines(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
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
	undeploy := func(ctx context.Context, m *fleet.Member, node string) error {
		return r.undeploy(ctx, m, node, cleaned[m.Name])
	}
	all := r.fleet.Members

	r.each(ctx, "make available", all, func(ctx context.Context, _ *fleet.Member, node string) error { return r.o.MakeAvailable(ctx, node) })
	r.each(ctx, "set the image", all, r.setImage)
	r.each(ctx, "deploy", all, r.deploy)
	r.each(ctx, "undeploy", all, undeploy)
	r.audited()
	r.troubles(ctx, undeploy)

	// One that sleeps is taken for dead, and wakes to find that it is not: nothing of
	// what it was about to do may reach a machine.
	r.deployWhile(ctx, "a rackd sleeps", func(d *rackd) {
		d.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(sleep)
		d.cmd.Process.Signal(syscall.SIGCONT)
	})
	r.each(ctx, "undeploy", all, undeploy)
	r.audited()
	r.deployWhile(ctx, "a rackd dies", (*rackd).kill)
}

// sleep is longer than a lease.
const sleep = 6 * time.Second

// deployWhile deploys all machines; when half of them are being written, something
// happens to a rackd. Each disk is written once for all that.
func (r *rig) deployWhile(ctx context.Context, what string, happens func(*rackd)) {
	r.t.Helper()
	r.each(ctx, "set the image", r.fleet.Members, r.setImage)
	before, from, done := r.writes(), r.fleet.Journal.Last(), make(chan struct{})
	go func() {
		defer close(done)
		r.await(ctx, journal.WriteBegun, len(r.fleet.Members)/2)
		happens(r.rackd[0])
	}()
	r.each(ctx, "deploy, and "+what, r.fleet.Members, r.deploy)
	<-done
	r.audited()
	if n := takeovers(r.fleet.Journal.After(from, 0)); n == 0 {
		r.t.Errorf("no work was taken over while %s", what)
	} else {
		r.t.Logf("%d works were taken over", n)
	}
	for name, n := range r.writes() {
		if n != before[name]+1 {
			r.t.Errorf("%s: its disk was written %d times while %s, want once", name, n-before[name], what)
		}
	}
}

// takeovers counts the works that wrote under several epochs.
func takeovers(records []journal.Record) (n int) {
	epochs := map[string]map[string]bool{}
	for _, record := range records {
		if record.Work == "" || record.Epoch == "" {
			continue
		}
		seen := epochs[record.Work]
		if seen == nil {
			seen = map[string]bool{}
			epochs[record.Work] = seen
		}
		seen[record.Epoch] = true
	}
	for _, seen := range epochs {
		if len(seen) > 1 {
			n++
		}
	}
	return n
}

// troubles deploys machines that do not behave.
func (r *rig) troubles(ctx context.Context, undeploy func(context.Context, *fleet.Member, string) error) {
	r.t.Helper()
	some := r.fleet.Members[:5]
	trouble := map[*fleet.Member]func(m *fleet.Member, node string) error{
		// Its power glitches while the image is being written: the next boot's agent
		// writes it again.
		some[0]: func(m *fleet.Member, node string) error {
			seq := r.fleet.Journal.Last()
			if err := r.o.Ask(ctx, node, "active", nil); err != nil {
				return err
			}
			for writing := false; !writing; {
				for _, record := range r.fleet.Journal.Await(ctx, seq, 0) {
					seq = record.Seq
					writing = writing || record.Machine == m.Name && record.Kind == journal.WriteBegun
				}
				if ctx.Err() != nil {
					return errors.New("its disk was never written")
				}
			}
			if err := m.Machine.Glitch(); err != nil {
				return err
			}
			if err := r.settle(ctx, m, node); err != nil {
				return err
			}
			if n := r.fleet.Journal.Counts(m.Name)[journal.WriteTorn]; n != 1 {
				return fmt.Errorf("%d writes were torn, want 1", n)
			}
			return nil
		},
		// Its disk fails once: that is the deploy's error, and the next deploy is good.
		some[1]: func(m *fleet.Member, node string) error {
			m.Faults.FailWrites(1)
			if err := r.o.Ask(ctx, node, "active", nil); err != nil {
				return err
			}
			_, err := r.o.Wait(ctx, node, provision.Active)
			if failed, ok := errors.AsType[*operator.FailedError](err); !ok || !strings.Contains(failed.LastError, "injected") {
				return fmt.Errorf("%v, want a deploy that failed for the disk's error", err)
			}
			return r.deploy(ctx, m, node)
		},
		some[2]: func(m *fleet.Member, node string) error {
			m.BMC.Faults.Fail(2)
			return r.deploy(ctx, m, node)
		},
		some[3]: func(m *fleet.Member, node string) error {
			m.BMC.Faults.Refuse(true)
			time.AfterFunc(4*time.Second, func() { m.BMC.Faults.Refuse(false) })
			return r.deploy(ctx, m, node)
		},
		some[4]: func(m *fleet.Member, node string) error {
			m.Faults.Isolate(true)
			time.AfterFunc(6*time.Second, func() { m.Faults.Isolate(false) })
			return r.deploy(ctx, m, node)
		},
	}
	r.each(ctx, "set the image", some, r.setImage)
	r.each(ctx, "deploy in trouble", some, func(ctx context.Context, m *fleet.Member, node string) error {
		return trouble[m](m, node)
	})
	r.each(ctx, "undeploy after trouble", some, undeploy)
	r.audited()
}

func (r *rig) setImage(ctx context.Context, _ *fleet.Member, node string) error {
	return r.o.SetImage(ctx, node, r.image)
}

func (r *rig) deploy(ctx context.Context, m *fleet.Member, node string) error {
	if err := r.o.Ask(ctx, node, "active", nil); err != nil {
		return err
	}
	return r.settle(ctx, m, node)
}

// settle waits until the node is active and the machine runs the image.
func (r *rig) settle(ctx context.Context, m *fleet.Member, node string) error {
	if _, err := r.o.Wait(ctx, node, provision.Active); err != nil {
		return err
	}
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

func (r *rig) undeploy(ctx context.Context, m *fleet.Member, node string, cleaned bool) error {
	if err := r.o.Ask(ctx, node, "deleted", nil); err != nil {
		return err
	}
	if _, err := r.o.Wait(ctx, node, provision.Available); err != nil {
		return err
	}
	if m.Machine.On() {
		return errors.New("it is on")
	}
	if holds, _ := m.Disk.Holds(); (holds == disk.Empty) != cleaned {
		return fmt.Errorf("its disk holds %s", holds)
	}
	return nil
}

// await waits until so many records of a kind have come from now on.
func (r *rig) await(ctx context.Context, kind journal.Kind, n int) {
	for seq := r.fleet.Journal.Last(); n > 0 && ctx.Err() == nil; {
		for _, record := range r.fleet.Journal.Await(ctx, seq, 0) {
			if seq = record.Seq; record.Kind == kind {
				n--
			}
		}
	}
}

// writes counts the writes that ended well, by machine.
func (r *rig) writes() map[string]uint64 {
	out := map[string]uint64{}
	for _, m := range r.fleet.Members {
		out[m.Name] = r.fleet.Journal.Counts(m.Name)[journal.WriteEnded]
	}
	return out
}
