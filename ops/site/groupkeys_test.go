package site

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// A rackd is stolen with its folder, and revoked. The other one of its group takes up the next key without a
// restart and goes on with the deploy that it runs; what is sealed then does not open with the stolen key,
// and what the thief makes with it is not believed.
func TestARevokedRackdsKeyIsReplaced(t *testing.T) {
	t.Parallel()
	r := run(t)
	_, _, kept := r.member(join.Scope{Role: join.Rackd, Site: "east", Name: "a2", Group: "rack-a"})
	stop, folder, _ := r.member(join.Scope{Role: join.Rackd, Site: "east", Name: "a1", Group: "rack-a", FailoverOf: []string{"rack-b"}})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := r.info.Roster.WaitFor(ctx, func(live []bus.Member) bool { return len(live) == 2 }); err != nil {
		t.Fatal(err)
	}
	stop() // its machine is carried away
	ring, err := folder.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	stolen := ring.Of("rack-a")
	o, err := operator.New(r.info.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	machine := func(name string, info map[string]any) string {
		t.Helper()
		info["fake_password"] = "secret"
		id, err := o.Enrol(ctx, operator.Machine{Name: name, Driver: "fake-hardware", Group: "rack-a", DriverInfo: info})
		must(err)
		return id
	}
	idle, busy := machine("idle", map[string]any{}), machine("busy", map[string]any{"fake_deploy_delay": "12"})
	must(o.MakeAvailable(ctx, busy))
	must(o.SetImage(ctx, busy, operator.Image{URL: "http://example.org/i.raw", SHA256: "00", DiskFormat: "raw"}))
	must(o.Ask(ctx, busy, "active", map[string]any{"meta_data": map[string]any{"hostname": "one"}}))
	until(t, func() bool {
		n, err := o.Show(ctx, busy)
		return err == nil && n.ProvisionState == string(provision.Deploying)
	})

	must(r.authority.RevokeMember(ctx, join.Rackd, "a1"))
	replaced := func(group string) bool {
		g, err := r.store.GroupKey(ctx, group)
		return err == nil && g.Stage == "" && g.Newest == 1 && g.Sealing == 1 && g.Oldest == 1
	}
	for _, group := range []string{"rack-a", "rack-b"} { // it stood in for the second
		for !replaced(group) {
			select {
			case <-ctx.Done():
				g, err := r.store.GroupKey(context.Background(), group)
				t.Fatalf("the key of %s is not replaced: %+v, %v", group, g, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	// The deploy outlived the stages in which its key was dropped, or they waited for it.
	if _, err := o.Wait(ctx, busy, provision.Active); err != nil {
		t.Fatalf("the deploy that ran was lost: %v", err)
	}
	must(o.SetDriverInfo(ctx, idle, "fake_password", "changed"))
	must(o.Power(ctx, busy, "power off"))
	must(o.WaitPower(ctx, busy, "power off"))

	fresh := kept.Of("rack-a")
	if want, err := r.key.ForGroupAt("rack-a", 1); err != nil || !slices.Equal(fresh.IDs(), want.IDs()) {
		t.Errorf("the rackd that stays has the keys %q, want %q; %v", fresh.IDs(), want.IDs(), err)
	}
	if _, err := folder.Renew(ctx); err == nil {
		t.Error("the rackd that was revoked renews")
	}
	site := r.open(r.asCentral("east", r.bus.Scope.Address), "east", bus.Settings{OpenOnly: true})
	want := map[string]string{idle: "changed", busy: "secret"}
	until(t, func() bool { return passwordAt(t, site, idle, fresh) == want[idle] })
	for id := range want {
		if got := passwordAt(t, site, id, fresh); got != want[id] {
			t.Errorf("the rackd that stays reads the password %q of node %s, want %q", got, id, want[id])
		}
		if got := passwordAt(t, site, id, stolen); got != "" {
			t.Errorf("the stolen key opens the password %q of node %s", got, id)
		}
		forged, err := (&node.Document{UUID: id, Group: "rack-a", Driver: "fake-hardware", Revision: 1 << 40}).AppendSigned(nil, stolen)
		must(err)
		posted, err := node.Open(forged)
		must(err)
		if _, made := posted.Verify(id, fresh); made {
			t.Error("a document that the thief has signed is believed")
		}
		if fresh.TokenFits(id, "w", 1, stolen.Token(id, "w", 1)) || fresh.BootIDFits(id, "w", 1, stolen.BootID(id, "w", 1)) {
			t.Error("a token that the thief has made is believed")
		}
	}
}

// passwordAt is the BMC's password in a node's document on the bus, as it opens with a key; empty if it does not.
func passwordAt(t *testing.T, site *bus.Site, id string, key *seal.Key) string {
	t.Helper()
	e, err := site.Nodes.Get(t.Context(), bus.NodeKey("rack-a", id))
	if err != nil {
		t.Fatal(err)
	}
	d, err := node.Read(id, e.Value())
	if err != nil {
		t.Fatal(err)
	}
	label := seal.Label{Kind: seal.DriverInfo, Of: id, Field: "fake_password"}
	text, err := key.Open(label, d.DriverString("fake_password"))
	if err != nil {
		return ""
	}
	return text
}
