package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/protocol/provision"
)

// However a flow ends that has put the ramdisk's medium in: the machine is off, and the medium is out. Here no agent ever calls.
func TestMediumIsTakenOut(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := fleet.Default
	c.Machines = 4
	r := newRig(ctx, t, c)
	const iso = "http://127.0.0.1/ramdisk.iso"
	for _, m := range r.fleet.Members {
		e := r.fleet.Enrolment(m)
		e.Clean = true
		e.Interfaces["boot"] = "redfish-virtual-media"
		e.DriverInfo["deploy_iso"] = iso
		id, err := r.o.Enrol(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		r.nodes[m.Name] = id
		if err := r.o.Ask(ctx, id, "manage", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.o.Wait(ctx, id, provision.Manageable); err != nil {
			t.Fatal(err)
		}
	}
	abort := func(ctx context.Context, node string) error { return r.o.Ask(ctx, node, "abort", nil) }
	wait := func(context.Context, string) error { return nil } // for the deadline
	dies := func(ctx context.Context, node string) error {
		n, err := r.o.Show(ctx, node)
		if err != nil {
			return err
		}
		for _, d := range r.rackd {
			if d.name == n.Conductor {
				d.kill()
				return nil
			}
		}
		return fmt.Errorf("no rackd of the name %q", n.Conductor)
	}
	// Aborts come first: the rackds run with the default deadlines.
	r.endings(ctx, iso, []ending{
		{"inspect, aborted", 0, map[string]any{"target": "inspect"}, provision.InspectWait, abort, provision.InspectFail},
		{"cleaning, aborted", 1, map[string]any{"target": "provide"}, provision.CleanWait, abort, provision.CleanFail},
	})
	for _, d := range r.rackd {
		d.kill()
		d.start(ctx, "--deadline", "inspect wait=15s")
	}
	r.endings(ctx, iso, []ending{
		{"inspect, at its deadline", 2, map[string]any{"target": "inspect"}, provision.InspectWait, wait, provision.InspectFail},
		{"inspect, taken over, at its deadline", 3, map[string]any{"target": "inspect"}, provision.InspectWait, dies, provision.InspectFail},
	})
}

// ending is a flow of one machine that ends badly.
type ending struct {
	what    string
	machine int
	asked   map[string]any
	waits   provision.State
	then    func(ctx context.Context, node string) error
	ends    provision.State
}

func (r *rig) endings(ctx context.Context, iso string, list []ending) {
	r.t.Helper()
	of := map[*fleet.Member]ending{}
	var members []*fleet.Member
	for _, e := range list {
		m := r.fleet.Members[e.machine]
		of[m], members = e, append(members, m)
	}
	r.each(ctx, "flows that end badly", members, func(ctx context.Context, m *fleet.Member, node string) error {
		e := of[m]
		if err := r.o.Provision(ctx, node, e.asked); err != nil {
			return fmt.Errorf("%s: %w", e.what, err)
		}
		for {
			n, err := r.o.Show(ctx, node)
			if err != nil {
				return err
			}
			if n.ProvisionState == string(e.waits) && m.Machine.On() && m.BMC.Inserted() == iso {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: the machine is %+v with the medium %q in state %q", e.what, m.Machine.Status(), m.BMC.Inserted(), n.ProvisionState)
			case <-time.After(100 * time.Millisecond):
			}
		}
		if err := e.then(ctx, node); err != nil {
			return fmt.Errorf("%s: %w", e.what, err)
		}
		_, err := r.o.Wait(ctx, node, provision.NoState)
		failed, is := errors.AsType[*operator.FailedError](err)
		if !is || failed.State != string(e.ends) {
			return fmt.Errorf("%s: %v, want state %q", e.what, err, e.ends)
		}
		for end := time.Now().Add(20 * time.Second); m.Machine.On() || m.BMC.Inserted() != ""; time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) { // an abort shows its state before the rack has taken the machine down
				return fmt.Errorf("%s: afterwards the machine is on: %t, and its medium is %q", e.what, m.Machine.On(), m.BMC.Inserted())
			}
		}
		return nil
	})
}
