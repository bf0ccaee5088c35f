package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Machines whose deploy interface is anaconda run what an installer installs. So they do where the network is cut for a while, and where
// the rackd dies that has started the installer. The kickstart's own scripts report.
func TestInstallers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := fleet.Default
	c.Machines = 4
	r := newRig(ctx, t, c)
	for _, m := range r.fleet.Members {
		e := r.fleet.Enrolment(m)
		e.Interfaces["deploy"] = "anaconda"
		id, err := r.o.Enrol(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		r.nodes[m.Name] = id
	}
	all := r.fleet.Members
	r.each(ctx, "make available", all, func(ctx context.Context, _ *fleet.Member, node string) error { return r.o.MakeAvailable(ctx, node) })
	r.each(ctx, "set the image", all, func(ctx context.Context, _ *fleet.Member, node string) error {
		// No machine looks into the other files: the image of the disk alone is compared.
		return r.o.Set(ctx, node, "/instance_info", map[string]any{"image_source": r.image.URL, "image_checksum": r.image.SHA256,
			"kernel": r.image.URL, "ramdisk": r.image.URL, "stage2": r.image.URL})
	})
	drive := map[string]any{"user_data": "#!/bin/sh\n"}
	// To the last two something happens: the network is cut, and the rackd dies.
	cut, orphan := all[2], all[3]
	r.each(ctx, "deploy", all, func(ctx context.Context, m *fleet.Member, node string) error {
		seq, with := r.fleet.Journal.Last(), map[string]any(nil)
		switch m {
		case cut:
			m.Faults.Isolate(true)
			time.AfterFunc(3*time.Second, func() { m.Faults.Isolate(false) })
		case orphan:
		default:
			with = drive
		}
		if err := r.o.Ask(ctx, node, "active", with); err != nil {
			return err
		}
		if m == orphan {
			if err := r.killOwnerAfterScript(ctx, m, node, seq); err != nil {
				return err
			}
		}
		return r.settle(ctx, m, node)
	})
	for _, m := range all {
		n, err := r.o.Show(ctx, r.nodes[m.Name])
		if err != nil || n.ProvisionState != string(provision.Active) {
			t.Errorf("%s: %v, %v", m.Name, n, err)
		}
		history, err := r.o.History(ctx, r.nodes[m.Name])
		if said := fmt.Sprint(history); err != nil || !strings.Contains(said, "installer start: ") || !strings.Contains(said, "installer end: ") {
			t.Errorf("%s: %v, its history is %s", m.Name, err, said)
		}
	}
}

// killOwnerAfterScript kills the rackd of a node once its machine has been given a boot script.
func (r *rig) killOwnerAfterScript(ctx context.Context, m *fleet.Member, node string, seq uint64) error {
	for booted := false; !booted; {
		for _, record := range r.fleet.Journal.Await(ctx, seq, 0) {
			seq = record.Seq
			booted = booted || record.Machine == m.Name && record.Kind == journal.BootScript
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it asks for no script")
		}
	}
	n, err := r.o.Show(ctx, node)
	if err != nil {
		return err
	}
	for _, d := range r.rackd {
		if d.name == n.Conductor {
			d.kill()
		}
	}
	return nil
}
