package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/topology"
	"github.com/ironyard/ironyard/e2e/faults/witness"
	"github.com/ironyard/ironyard/protocol/provision"
)

// within is a context for one test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// available brings nodes to available.
func (l *lab) available(ctx context.Context, t *testing.T, nodes []string) {
	t.Helper()
	if err := l.each(nodes, func(id string) error { return l.ops.Reach(ctx, id, provision.Available, nil) }); err != nil {
		t.Fatalf("before the test: %v", err)
	}
}

// deploy asks for an image on each node.
func (l *lab) deploy(ctx context.Context, t *testing.T, nodes []string) {
	t.Helper()
	if err := l.each(nodes, func(id string) error {
		if r := l.ops.SetImage(ctx, id, l.Images[0].Info()); !r.Accepted() {
			return fmt.Errorf("set image of node %s: %d: %s", id, r.Status, r.Fault)
		}
		if r := l.ops.Ask(ctx, id, "available", "active"); !r.Accepted() {
			return fmt.Errorf("deploy node %s: %d: %s", id, r.Status, r.Fault)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// active waits until each node is active; work that fails is an error.
func (l *lab) active(ctx context.Context, t *testing.T, nodes []string) {
	t.Helper()
	if err := l.each(nodes, func(id string) error { return l.ops.Wait(ctx, id, provision.Active) }); err != nil {
		t.Error(err)
	}
}

// working waits until a rackd, or with no name any, owns at least n pieces of work that
// are as ok says, and returns all that it owns.
func (l *lab) working(ctx context.Context, t *testing.T, rackd string, n int, ok func(witness.Sight) bool) map[string]witness.Sight {
	t.Helper()
	var owned map[string]witness.Sight
	if err := l.see.Await(ctx, func() bool {
		owned = l.see.Owned(rackd)
		return len(slices.DeleteFunc(slices.Collect(maps.Values(owned)), func(s witness.Sight) bool { return !ok(s) })) >= n
	}); err != nil {
		t.Fatalf("%s did not get as far: %v", rackd, err)
	}
	return owned
}

// writing holds while a deploy writes its image.
func writing(s witness.Sight) bool {
	return s.Doc.Checkpoint.Step == "deploy.write_image" && s.Doc.Checkpoint.Handle != nil
}

// taken waits until all that a rackd owned is over or another's.
func (l *lab) taken(ctx context.Context, t *testing.T, rackd string, owned map[string]witness.Sight) {
	t.Helper()
	var last witness.Sight
	if err := l.see.Await(ctx, func() bool {
		now := l.see.Newest()
		for id, was := range owned {
			s := now[id]
			if s.Doc.ID == was.Doc.ID && !s.Gone && s.Doc.Open() && (s.Doc.Owner == rackd || s.Doc.Owner == "") {
				last = s
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatalf("the work of %s was not taken over: %v", rackd, err)
	}
	if last.Doc.ID != "" {
		t.Logf("of the %d pieces of work of %s one of those taken last was %s %s, owner %q, epoch %d, at step %q", len(owned), rackd, last.Doc.Verb, last.Doc.ID,
			last.Doc.Owner, last.Doc.Epoch, last.Doc.Checkpoint.Step)
	}
}

// served waits until central names a living conductor other than without for every
// node, and that conductor answers a question about the node.
func (l *lab) served(ctx context.Context, t *testing.T, nodes []string, without string) {
	t.Helper()
	if err := l.each(nodes, func(id string) error {
		for {
			var states struct {
				Supported []string `json:"supported_boot_devices"`
			}
			if err := l.ops.Read(ctx, "/v1/nodes/"+id+"/management/boot_device/supported", &states); err != nil {
				return err
			}
			n, err := l.ops.Show(ctx, id)
			if err != nil {
				return err
			}
			if n.Conductor != "" && n.Conductor != without {
				return nil
			}
			time.Sleep(20 * time.Millisecond) // and look again
		}
	}); err != nil {
		t.Errorf("not served: %v", err)
	}
}

// start starts daemons that a test has ended, at its end at the latest.
func start(t *testing.T, list ...interface{ Start(...string) error }) {
	t.Cleanup(func() {
		for _, p := range list {
			if err := p.Start(); err != nil {
				t.Error(err)
			}
		}
	})
}

// busiest returns a site's rackd that owns the most work.
func (l *lab) busiest(s *topology.Site) *topology.Rackd {
	return slices.MaxFunc(s.Rackds, func(a, b *topology.Rackd) int { return len(l.see.Owned(a.Name())) - len(l.see.Owned(b.Name())) })
}

// insist asks for a verb until it is accepted or was, although its answer was lost, and
// waits for the state where it leads.
func (l *lab) insist(ctx context.Context, id, verb string, want provision.State) error {
	for {
		n, err := l.ops.Show(ctx, id)
		switch {
		case err != nil:
			return err
		case n.State == want && n.Resting():
			return nil
		case provision.Transient(n.State):
			return l.ops.Wait(ctx, id, want)
		}
		r := l.ops.SetImage(ctx, id, l.Images[0].Info())
		if r.Accepted() {
			r = l.ops.Ask(ctx, id, string(n.State), verb)
		}
		if r.Accepted() {
			return l.ops.Wait(ctx, id, want)
		}
		if !r.Unknown() && r.Status != http.StatusServiceUnavailable && r.Status != http.StatusConflict {
			return fmt.Errorf("%s of node %s: %d: %s", verb, id, r.Status, r.Fault)
		}
		time.Sleep(100 * time.Millisecond) // what a client does who is told to come back
	}
}
