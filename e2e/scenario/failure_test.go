package scenario

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
	"github.com/ironyard/ironyard/protocol/provision"
)

// fails asks for verb and expects the node to come to rest in state, with words in
// its last_error that tell a person what to do.
func fails(ctx context.Context, t *testing.T, id, verb string, state provision.State, words ...string) {
	t.Helper()
	o := theRack.Operator
	if err := o.Ask(ctx, id, verb, nil); err != nil {
		t.Fatal(err)
	}
	info, _ := provision.Describe(state)
	n, err := o.Wait(ctx, id, info.Target)
	var failed *operator.FailedError
	if err == nil && n.ProvisionState != string(state) {
		t.Fatalf("%s worked although it should have failed", verb)
	}
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if n.ProvisionState != string(state) {
		t.Fatalf("state %q (%s), want %q", n.ProvisionState, n.LastError, state)
	}
	for _, w := range words {
		if !strings.Contains(strings.ToLower(n.LastError), strings.ToLower(w)) {
			t.Errorf("last_error %q does not say %q", n.LastError, w)
		}
	}
}

func TestWrongPasswordThenUnreachableBMC(t *testing.T) {
	ctx := limit(t, 2*time.Minute)
	o := theRack.Operator
	var right any
	id := enrolled(ctx, t, "small-0", func(m *operator.Machine) {
		right = m.DriverInfo["redfish_password"]
		m.DriverInfo["redfish_password"] = "wrong"
	})
	if err := o.Ask(ctx, id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	expectEnroll := func(words ...string) {
		t.Helper()
		n, err := o.Wait(ctx, id, provision.Enroll)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if !strings.Contains(n.LastError, w) {
				t.Errorf("last_error %q does not say %q", n.LastError, w)
			}
		}
		if strings.Contains(n.LastError, "wrong") && strings.Contains(n.LastError, "password: wrong") {
			t.Errorf("last_error shows the password: %q", n.LastError)
		}
	}
	expectEnroll("credentials", theMachine(t, "small-0"))
	if err := o.SetDriverInfo(ctx, id, "redfish_password", right); err != nil {
		t.Fatal(err)
	}
	bmc := theRack.BMC("small-0")
	bmc.Faults.Refuse(true)
	if err := o.Ask(ctx, id, "manage", nil); err != nil {
		t.Fatal(err)
	}
	expectEnroll("unreachable", theMachine(t, "small-0"))
	bmc.Faults.Refuse(false)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Errorf("with the right password and the BMC back: %v", err)
	}
}

// theMachine is the BMC's address, which an error about it must name.
func theMachine(t *testing.T, name string) string {
	t.Helper()
	m, err := theRack.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	return m.BMCAddress
}

// A 404, a wrong checksum, a disk that is too small and a machine that never calls
// back, each followed by the next attempt on the same node.
func TestDeployFailures(t *testing.T) {
	ctx := limit(t, 7*time.Minute)
	o := theRack.Operator
	id := enrolled(ctx, t, "small-0", nil)
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	set := func(change func(*operator.Image)) {
		t.Helper()
		i := qcow2()
		change(&i)
		if err := o.SetImage(ctx, id, i); err != nil {
			t.Fatal(err)
		}
	}
	// The hash is one that the cache cannot have: an image it has needs no URL.
	set(func(i *operator.Image) {
		i.URL, i.SHA256 = theRack.ImageURL("no-such-image.qcow2"), strings.Repeat("1", 64)
	})
	fails(ctx, t, id, "active", provision.DeployFail, "404", "no-such-image.qcow2")

	set(func(i *operator.Image) { i.SHA256 = strings.Repeat("0", 64) })
	fails(ctx, t, id, "active", provision.DeployFail, "checksum", strings.Repeat("0", 64), images.QCOW2.SHA256)

	set(func(*operator.Image) {})
	fails(ctx, t, id, "active", provision.DeployFail, "small", "/dev/vda")
	if err := o.WaitPower(ctx, id, "power off"); err != nil {
		t.Errorf("a machine whose deploy failed is left on: %v", err)
	}

	restartAll(ctx, t, "--deadline", "wait call-back=4s")
	fails(ctx, t, id, "active", provision.DeployFail, "did not call within 4s", "console")
	restartAll(ctx, t)
	if err := o.Ask(ctx, id, "deleted", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Available); err != nil {
		t.Errorf("undeploy after the failures: %v", err)
	}
}

func restartAll(ctx context.Context, t *testing.T, more ...string) {
	t.Helper()
	for _, d := range theRack.Rackds {
		d.Stop()
		if err := d.Start(ctx, more...); err != nil {
			t.Fatal(err)
		}
	}
}

// shows waits until the API shows a node so.
func shows(ctx context.Context, t *testing.T, id, what string, so func(*nodes.Node) bool) *nodes.Node {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := theRack.Operator.Show(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if so(n) {
			return n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the node never was %s; it has power %q, maintenance %t, fault %q, reason %q", what, n.PowerState, n.Maintenance, n.Fault, n.MaintenanceReason)
		}
	}
}

// A BMC that goes silent, and one that refuses the password, put an idle node into maintenance. It comes out by itself once the BMC
// answers. A password that was refused twice is tried again for a request of an operator, and not before.
func TestPowerFaultComesAndGoes(t *testing.T) {
	ctx := limit(t, 3*time.Minute)
	restartAll(ctx, t, "--power-sync", "2s", "--power-recovery", "1s")
	t.Cleanup(func() { restartAll(context.Background(), t) })
	id := enrolled(ctx, t, "small-0", nil)
	if err := theRack.Operator.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	bmc := theRack.BMC("small-0")
	faulty := func(n *nodes.Node) bool {
		return n.Maintenance && n.Fault == "power failure" && n.PowerState == "error"
	}
	well := func(n *nodes.Node) bool { return !n.Maintenance && n.Fault == "" && n.PowerState == "power off" }

	bmc.Faults.Refuse(true)
	n := shows(ctx, t, id, "in maintenance", faulty)
	if !strings.Contains(n.MaintenanceReason, theMachine(t, "small-0")) {
		t.Errorf("the reason %q does not name the BMC", n.MaintenanceReason)
	}
	bmc.Faults.Refuse(false)
	shows(ctx, t, id, "out of maintenance", well)

	bmc.Faults.RejectCredentials(true)
	before := refusedLogins(bmc)
	n = shows(ctx, t, id, "in maintenance", faulty)
	for _, w := range []string{"refuses the credentials", "does not log in again by itself", "baremetal node power on " + id} {
		if !strings.Contains(n.MaintenanceReason, w) {
			t.Errorf("the reason %q does not say %q", n.MaintenanceReason, w)
		}
	}
	// A second read follows each refused session once, with a new login.
	refused := refusedLogins(bmc)
	if got := refused - before; got < 2 || got > 3 {
		t.Errorf("%d logins until the node was in maintenance, want 2", got)
	}
	// The request that the reason names is let in during the maintenance. It tries the password once, after a fifth of the second.
	asks := func() string {
		t.Helper()
		if err := theRack.Operator.Power(ctx, id, "power off"); err != nil {
			t.Fatal(err)
		}
		return shows(ctx, t, id, "done with a request", func(n *nodes.Node) bool { return n.TargetPowerState == "" }).LastError
	}
	for refusedLogins(bmc) == refused {
		if said := asks(); !strings.Contains(said, "does not log in again by itself") {
			t.Fatalf("a request that is refused is told %q", said)
		}
	}
	if got := refusedLogins(bmc) - refused; got != 1 {
		t.Errorf("%d logins for a request, want one", got)
	}
	bmc.Faults.RejectCredentials(false)
	for said := "-"; said != ""; {
		if said = asks(); said != "" && !strings.Contains(said, "does not log in again by itself") {
			t.Fatalf("a request with the right password is told %q", said)
		}
	}
	shows(ctx, t, id, "out of maintenance", well)

	lines, err := theRack.Operator.History(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var told int
	for _, l := range lines {
		if strings.HasPrefix(l.Event, "power failure") {
			told++
		}
	}
	if told != 4 {
		t.Errorf("the history has %d lines on power failures, want two that it began and two that it is over: %+v", told, lines)
	}
}

func refusedLogins(b *vbmc.BMC) (n int) {
	for _, w := range b.Journal.Matching("/SessionService/Sessions") {
		if w.Status == http.StatusUnauthorized {
			n++
		}
	}
	return n
}
