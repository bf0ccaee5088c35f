package fleet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Flows of a machine wait for no heartbeat of an agent that was heard of: they take as long with one in three minutes as with
// one in two seconds, with the rackd killed in the middle of the write too.
func TestFlowsAtAnyHeartbeat(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := fleet.Default
	c.Machines = 4
	r := newRig(ctx, t, c)
	for _, m := range r.fleet.Members {
		e := r.fleet.Enrolment(m)
		e.Clean = true
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
	erase := []map[string]any{{"interface": "deploy", "step": "erase_devices_metadata"}}
	again := []map[string]any{{"interface": "deploy", "step": "write_image", "args": map[string]any{"image_info": map[string]any{
		"id": "again", "urls": []string{r.image.URL}, "disk_format": "raw", "os_hash_algo": "sha256", "os_hash_value": r.image.SHA256}}}}
	// A flow that waits for a heartbeat at 600 s, of which the first comes after three minutes, is far beyond this.
	const more = 15 * time.Second
	var first map[string]time.Duration
	for _, every := range []string{"5s", "600s"} {
		for _, d := range r.rackd {
			d.kill()
			d.start(ctx, "--heartbeat-timeout", every)
		}
		took, mu := map[string]time.Duration{}, sync.Mutex{}
		timed := func(flow string, do func() error) error {
			began := time.Now()
			err := do()
			mu.Lock()
			defer mu.Unlock()
			took[flow] = max(took[flow], time.Since(began))
			if err != nil {
				return fmt.Errorf("%s: %w", flow, err)
			}
			return nil
		}
		asked := func(ctx context.Context, node string, body map[string]any, want provision.State) func() error {
			return func() error {
				if err := r.o.Provision(ctx, node, body); err != nil {
					return err
				}
				_, err := r.o.Wait(ctx, node, want)
				return err
			}
		}
		begun := r.fleet.Journal.Last()
		killed := make(chan struct{})
		go func() { // the rackd that begins the first write dies
			defer close(killed)
			r.await(ctx, journal.WriteBegun, 1)
			for _, record := range r.fleet.Journal.After(begun, 0) {
				if record.Kind != journal.WriteBegun {
					continue
				}
				n, err := r.o.Show(ctx, r.nodes[record.Machine])
				for _, d := range r.rackd {
					if err == nil && d.name == n.Conductor {
						d.kill()
						return
					}
				}
			}
		}()
		r.each(ctx, "all flows with --heartbeat-timeout "+every, r.fleet.Members, func(ctx context.Context, m *fleet.Member, node string) error {
			for _, step := range []struct {
				flow string
				do   func() error
			}{
				{"inspect", asked(ctx, node, map[string]any{"target": "inspect"}, provision.Manageable)},
				{"clean", asked(ctx, node, map[string]any{"target": "clean", "clean_steps": erase}, provision.Manageable)},
				{"provide", asked(ctx, node, map[string]any{"target": "provide"}, provision.Available)},
				{"image", func() error { return r.setImage(ctx, m, node) }},
				{"deploy", func() error { return r.deploy(ctx, m, node) }},
				{"rebuild", func() error {
					if err := r.o.Ask(ctx, node, "rebuild", nil); err != nil {
						return err
					}
					return r.settle(ctx, m, node)
				}},
				{"service", asked(ctx, node, map[string]any{"target": "service", "service_steps": again}, provision.Active)},
				{"undeploy", func() error { return r.undeploy(ctx, m, node, true) }},
				{"manage", asked(ctx, node, map[string]any{"target": "manage"}, provision.Manageable)},
			} {
				if err := timed(step.flow, step.do); err != nil {
					return err
				}
			}
			return nil
		})
		<-killed
		r.audited()
		if n := takeovers(r.fleet.Journal.After(begun, 0)); n == 0 {
			t.Errorf("--heartbeat-timeout %s: no work was taken over", every)
		}
		t.Logf("--heartbeat-timeout %-4s: inspect %.1f s, clean %.1f s, provide %.1f s, deploy %.1f s, rebuild %.1f s, service %.1f s, undeploy %.1f s", every, took["inspect"].Seconds(),
			took["clean"].Seconds(), took["provide"].Seconds(), took["deploy"].Seconds(), took["rebuild"].Seconds(), took["service"].Seconds(), took["undeploy"].Seconds())
		if first == nil {
			first = took
		}
		for flow, d := range took {
			if d > first[flow]+more {
				t.Errorf("--heartbeat-timeout %s: %s took %s, and %s with a heartbeat of %s: it waits for heartbeats", every, flow, d, first[flow], "5s")
			}
		}
	}
}
