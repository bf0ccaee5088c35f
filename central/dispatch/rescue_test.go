package dispatch

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
)

// The password of a rescue is in instance_info, and so in the rack's document, for as long as the rescue: an accepted
// request that ends it takes the password away, and tells the rack.
func TestThePasswordGoesWithTheRescue(t *testing.T) {
	for _, c := range []struct {
		name  string
		state provision.State
		ask   func(*bench) error
		stays bool
	}{
		{"unrescue", provision.Rescue, func(b *bench) error { return b.verb("unrescue", nil) }, false},
		{"undeploy", provision.Rescue, func(b *bench) error { return b.verb("deleted", nil) }, false},
		{"undeploy while the agent is waited for", provision.RescueWait, func(b *bench) error { return b.verb("deleted", nil) }, false},
		{"abort", provision.RescueWait, func(b *bench) error { return b.verb("abort", nil) }, false},
		{"power", provision.Rescue, func(b *bench) error { return b.Power(t.Context(), Power{Node: b.node(), Target: Rebooting}) }, true},
		{"another rescue", provision.Rescue, func(b *bench) error {
			return b.verb("rescue", func(p *Provision) { p.RescuePassword = "another" })
		}, true},
	} {
		b := newBench(t)
		b.put(provision.Active, provision.NoState, func(n *store.Node) { n.InstanceInfo = map[string]any{"kept": "v"} })
		if err := b.verb("rescue", func(p *Provision) { p.RescuePassword = "open sesame" }); err != nil {
			t.Fatal(err)
		}
		b.put(c.state, provision.NoState, nil)
		if c.state == provision.RescueWait {
			b.open(&store.Work{Verb: work.Rescue, State: store.WorkOpen, RequestedAt: noon, Entry: c.state})
		}
		if b.node().InstanceInfo[store.RescuePassword] == nil {
			t.Fatalf("%s: there is no password in state %q", c.name, c.state)
		}
		told := b.told.Load()
		if err := c.ask(b); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		info := b.node().InstanceInfo
		if there := info[store.RescuePassword] != nil; there != c.stays || info["kept"] != "v" {
			t.Errorf("%s: instance_info has a rescue password: %v, want %v; %v", c.name, there, c.stays, info)
		}
		if b.told.Load() == told {
			t.Errorf("%s: the rack is not told", c.name)
		}
	}
}
