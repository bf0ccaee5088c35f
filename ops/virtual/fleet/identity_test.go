package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A cable has moved, or an operator mistook an address: the node's BMC is that of another machine, which runs
// and tells its own UUID over Redfish. Flows that may write to a disk end before any write reaches that BMC,
// and the node's own. They say which machine answered. With the right address the next deploy is good.
func TestBMCOfAnotherMachine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := fleet.Default
	c.Machines = 2
	r := newRig(ctx, t, c)
	hers, other := r.fleet.Members[0], r.fleet.Members[1]
	e := r.fleet.Enrolment(hers)
	e.Interfaces, e.Clean = map[string]string{"inspect": "redfish"}, true
	id, err := r.o.Enrol(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	r.nodes[hers.Name] = id
	ask := func(verb string, want provision.State) {
		t.Helper()
		if err := r.o.Ask(ctx, id, verb, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.o.Wait(ctx, id, want); err != nil {
			t.Fatal(err)
		}
	}
	// dial has the node's driver_info name the BMC of a machine, with the password, which goes with the address.
	dial := func(m *fleet.Member) {
		t.Helper()
		if err := r.o.Set(ctx, id, "/driver_info", r.fleet.Enrolment(m).DriverInfo); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(verb string) {
		t.Helper()
		from := r.fleet.Journal.Last()
		if err := r.o.Ask(ctx, id, verb, nil); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := r.o.Wait(soon, id, provision.Active)
		failed, ok := errors.AsType[*operator.FailedError](err)
		if !ok || !strings.Contains(failed.LastError, "another machine") || !strings.Contains(failed.LastError, other.UUID) || !strings.Contains(failed.LastError, hers.UUID) {
			t.Errorf("%s: %v, want that it is another machine, %s and not %s", verb, err, other.UUID, hers.UUID)
		}
		writes := slices.DeleteFunc(r.fleet.Journal.After(from, 0), func(record journal.Record) bool { return record.Kind != journal.BMCWrite })
		if len(writes) > 0 {
			t.Errorf("%s: a BMC was written to %d times, first that of %s: %s", verb, len(writes), writes[0].Machine, writes[0].Detail)
		}
		if !other.Machine.On() {
			t.Errorf("%s: the other machine is off", verb)
		}
		if t.Failed() {
			t.FailNow()
		}
	}

	ask("manage", provision.Manageable)
	ask("inspect", provision.Manageable)
	if err := other.Machine.Start(ctx); err != nil {
		t.Fatal(err)
	}
	dial(other)
	refused("provide") // which cleans
	dial(hers)
	ask("manage", provision.Manageable)
	ask("provide", provision.Available)
	if err := r.setImage(ctx, hers, id); err != nil {
		t.Fatal(err)
	}
	dial(other)
	refused("active")
	dial(hers)
	from := r.fleet.Journal.Last()
	if err := r.deploy(ctx, hers, id); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.fleet.Journal.After(from, 0), func(record journal.Record) bool {
		return record.Kind == journal.BMCWrite && record.Machine == hers.Name
	}) {
		t.Error("no write to a BMC is in the journal, so the test would see none")
	}
	r.audited()
}
