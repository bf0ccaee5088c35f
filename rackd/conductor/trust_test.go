package conductor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/smbios"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/dhcp"
	"github.com/ironyard/ironyard/rackd/refusal"
)

const macA = "52:54:00:00:00:01"

// rackLeases is a DHCP server that knows what the test says.
type rackLeases struct{ at map[string]netip.Addr }

func (l *rackLeases) Addresses(mac string) (list []netip.Addr) {
	if a, ok := l.at[mac]; ok {
		list = append(list, a)
	}
	return list
}

var (
	hers     = netip.MustParseAddr("10.0.0.1") // the machine's own address
	stranger = netip.MustParseAddr("10.66.6.6")
)

// trial is a node in deploy whose machine was booted into the ramdisk, with a step behind the boot
// that lasts.
type trial struct {
	*Conductor
	t     *testing.T
	s     *shelf
	m     *machine
	owner *atomic.Value
	lives atomic.Bool // the agent that has called answers
	stop  func()
}

func newTrial(t *testing.T, change func(*Config)) *trial {
	x := &trial{t: t, s: newShelf(), m: &machine{power: driver.PowerOff}, owner: owned("a")}
	x.m.deploy = []driver.Step{waitForAgent(x.m), {Interface: "deploy", Name: "write", Priority: 5, Kind: driver.Reattachable,
		Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) { return driver.Wait(time.Second), nil }}}
	oneNode(x.s)
	x.Conductor, x.stop = x.on("a", change)
	x.s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
	synctest.Wait()
	return x
}

// on starts a rackd's conductor.
func (x *trial) on(name string, change func(*Config)) (*Conductor, func()) {
	c, _, kill := conductorOn(x.t, x.s, name, x.owner, x.m, func(cfg *Config) {
		cfg.AgentLives = func(context.Context, work.Agent) bool { return x.lives.Load() }
		if change != nil {
			change(cfg)
		}
	})
	return c, kill
}

func (x *trial) doc() *work.Document { return &x.s.Work(nodeA).Doc }

// call is the heartbeat of an agent at an address.
func call(token, at, ca, boot string) ask.Heartbeat {
	return ask.Heartbeat{Heartbeat: agentapi.Heartbeat{CallbackURL: "https://" + at + ":9999", AgentVerifyCA: ca, AgentToken: token, BootID: boot}}
}

// agent is the machine's own agent: it looks itself up and calls.
func (x *trial) agent(c *Conductor) string {
	x.t.Helper()
	time.Sleep(time.Second)
	q := lookupOf(c)
	q.From = hers
	reply, err := c.LookupAgent(q)
	if err != nil {
		x.t.Fatal(err)
	}
	hb := call(reply.Config.AgentToken, hers.String(), "PEM", "1")
	hb.From = hers
	if err := c.Heartbeat(nodeA, hb); err != nil {
		x.t.Fatal(err)
	}
	synctest.Wait()
	return reply.Config.AgentToken
}

// A stranger who knows a MAC address asks for what everybody may ask for, before, during and after the
// machine's own agent calls, at the rack and through central. It is told nothing, and changes nothing.
func TestStrangerIsToldNothingAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		attack := func(when string) {
			t.Helper()
			before := x.doc().Checkpoint
			known := x.runner(nodeA).Agent()
			for range 20 {
				x.Seen(ask.Sign{Address: macA, Phase: "script", Detail: "ramdisk, state wait call-back, by HTTP"})
				x.Seen(ask.Sign{Address: macA, Phase: "ramdisk", Detail: "by TFTP"})
				for name, q := range map[string]ask.Lookup{
					"no id":           {Addresses: []string{macA}},
					"no id, by UUID":  {Node: nodeA},
					"a guess":         {Node: nodeA, Caller: ask.Caller{BootID: "AAAAAAAAAAAAAAAAAAAAAA"}},
					"an earlier boot": {Node: nodeA, Caller: ask.Caller{BootID: testKey.BootID(nodeA, x.doc().Root(), before.Boot.Number-1)}},
					"another work":    {Node: nodeA, Caller: ask.Caller{BootID: testKey.BootID(nodeA, "other", before.Boot.Number)}},
					"by central":      {Node: nodeA, Caller: ask.Caller{From: stranger, Central: true}},
				} {
					if reply, err := x.LookupAgent(q); err == nil || err.Error() != refusal.ErrNoNode.Error() || reply.Config.AgentToken != "" {
						t.Errorf("%s: lookup with %s: %+v, %v", when, name, reply, err)
					}
				}
				for _, token := range []string{"", agentapi.Masked, "guess", testKey.Token(nodeA, x.doc().Root(), before.Boot.Number-1), testKey.Token(nodeA, x.doc().Root(), 0)} {
					if err := x.Heartbeat(nodeA, call(token, stranger.String(), "EVIL", "evil")); !errors.Is(err, refusal.ErrBadToken) {
						t.Errorf("%s: heartbeat with token %q: %v", when, token, err)
					}
				}
				if err := x.Inspected(nodeA, ask.Inspected{}); !errors.Is(err, refusal.ErrNoNode) {
					t.Errorf("%s: an inventory: %v", when, err)
				}
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
			after := x.doc().Checkpoint
			if now := x.runner(nodeA).Agent(); after.Boot.Number != before.Boot.Number || !reflect.DeepEqual(now, known) {
				t.Errorf("%s: boot %d became %d, agent %+v became %+v", when, before.Boot.Number, after.Boot.Number, known, now)
			}
		}
		attack("while the machine boots")
		token := x.agent(x.Conductor)
		attack("while the agent works")
		if err := x.Heartbeat(nodeA, call(token, hers.String(), "PEM", "1")); err != nil {
			t.Errorf("the agent's next heartbeat: %v", err)
		}
		if d := x.doc(); !d.Open() || d.State != provision.Deploying && d.State != provision.DeployWait || d.Checkpoint.Step != "deploy.write" {
			t.Errorf("state %q at step %q: %+v", d.State, d.Checkpoint.Step, d.Result)
		}
	})
}

// The address that DHCP gave the machine speaks for a caller, and any other against it, whatever id
// it shows. What came through central has the address of a proxy.
func TestAddressOfTheCaller(t *testing.T) {
	for name, c := range map[string]struct {
		leased  bool
		toldBy  bool // another rackd's DHCP gave the address
		media   bool // the boot carries no id
		trust   bool
		caller  ask.Caller
		id, yes bool
	}{
		"id, its address":                  {leased: true, id: true, caller: ask.Caller{From: hers}, yes: true},
		"id, another address":              {leased: true, id: true, caller: ask.Caller{From: stranger}},
		"id, another, told by the other":   {toldBy: true, id: true, caller: ask.Caller{From: stranger}},
		"id, its address, told":            {toldBy: true, id: true, caller: ask.Caller{From: hers}, yes: true},
		"id, nobody knows":                 {id: true, caller: ask.Caller{From: stranger}, yes: true},
		"id, through a proxy":              {leased: true, id: true, caller: ask.Caller{From: stranger, Central: true}, yes: true},
		"no id, its address":               {leased: true, caller: ask.Caller{From: hers}},
		"media, its address":               {media: true, leased: true, caller: ask.Caller{From: hers}, yes: true},
		"media, its address, by central":   {media: true, leased: true, caller: ask.Caller{From: hers, Central: true}, yes: true},
		"media, another address":           {media: true, leased: true, caller: ask.Caller{From: stranger}},
		"media, another, by central":       {media: true, leased: true, caller: ask.Caller{From: stranger, Central: true}},
		"media, nobody knows":              {media: true, caller: ask.Caller{From: hers}},
		"media, nobody knows, trusting":    {media: true, trust: true, caller: ask.Caller{From: hers}, yes: true},
		"media, another address, trusting": {media: true, trust: true, leased: true, caller: ask.Caller{From: stranger}},
		"no id, trusting":                  {trust: true, caller: ask.Caller{From: hers}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &rackLeases{at: map[string]netip.Addr{}}
				x := newTrial(t, func(cfg *Config) { cfg.Leases, cfg.TrustFirstLookup = l, c.trust })
				defer x.stop()
				x.m.media = c.media
				if c.leased {
					l.at[macA] = hers
				}
				if c.toldBy {
					x.Seen(ask.Sign{Address: macA, Phase: "dhcp", Leased: hers})
				}
				q := ask.Lookup{Addresses: []string{macA}, Caller: c.caller}
				if c.id {
					q.BootID = lookupOf(x.Conductor).BootID
				}
				if _, err := x.LookupAgent(q); (err == nil) != c.yes || err != nil && !errors.Is(err, refusal.ErrNoNode) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// A machine that had a lease when its boot was counted may not be passed for at a rackd that hears no
// DHCP: that would give the script, and with it the boot's id, to each that asks.
func TestALeaseFromBeforeIsKnownToRackdsWithoutDHCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, func(cfg *Config) { cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: hers}} })
		defer x.stop()
		b, stopB := x.on("b", nil) // with --dhcp off
		defer stopB()
		synctest.Wait()
		o, ok := b.BootByMAC(macA)
		if !ok || !o.Order.Boots() || o.BootID == "" || !slices.Equal(o.Addresses, []netip.Addr{hers}) {
			t.Errorf("it knows %t, order %v, id %q, addresses %v; want %v", ok, o.Order, o.BootID, o.Addresses, hers)
		}
	})
}

// What DHCP gave the machine is known to the rackd that takes the work over, and so is the boot:
// between script and lookup, and between lookup and first heartbeat.
func TestTakeoverInTheMiddleOfABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		x.Seen(ask.Sign{Address: macA, Phase: "dhcp", Leased: hers})
		synctest.Wait()
		script := lookupOf(x.Conductor)
		x.stop()
		b, stopB := x.on("b", nil)
		x.owner.Store("b")
		b.RingChanged()
		synctest.Wait()
		script.From = stranger
		if _, err := b.LookupAgent(script); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("the new owner does not know the machine's address: %v", err)
		}
		script.From = hers
		reply, err := b.LookupAgent(script)
		if err != nil {
			t.Fatalf("the lookup after a takeover: %v", err)
		}
		synctest.Wait()
		stopB()
		time.Sleep(time.Second)
		c, stopC := x.on("c", nil)
		defer stopC()
		x.owner.Store("c")
		c.RingChanged()
		synctest.Wait()
		if err := c.Heartbeat(nodeA, call(reply.Config.AgentToken, hers.String(), "PEM", "1")); err != nil {
			t.Errorf("the first heartbeat after a takeover: %v", err)
		}
		synctest.Wait()
		if d := x.doc(); d.Checkpoint.Boot.Number != 1 || d.Checkpoint.Step != "deploy.write" {
			t.Errorf("boot %+v, step %q", d.Checkpoint.Boot, d.Checkpoint.Step)
		}
	})
}

// A machine that restarts by itself looks itself up with the id of the same boot. The agent of
// before does not answer any more, and the new one takes its place.
func TestMachineThatRestartsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		x.agent(x.Conductor)
		if _, err := x.LookupAgent(lookupOf(x.Conductor)); !errors.Is(err, refusal.ErrInDoubt) {
			t.Fatalf("while the agent of before is asked: %v", err)
		}
		time.Sleep(rivalPause + time.Second)
		synctest.Wait()
		token := x.agent(x.Conductor)
		if a := x.runner(nodeA).Agent(); a == nil || a.URL != "https://10.0.0.1:9999" || token == "" {
			t.Errorf("agent %+v, token %q", a, token)
		}
		// The agent's process alone starts again, with a new certificate, and calls at once.
		if err := x.Heartbeat(nodeA, call(token, hers.String(), "NEW PEM", "1")); !errors.Is(err, refusal.ErrInDoubt) {
			t.Errorf("another certificate: %v", err)
		}
		time.Sleep(rivalPause + time.Second)
		synctest.Wait()
		if err := x.Heartbeat(nodeA, call(token, hers.String(), "NEW PEM", "1")); err != nil || x.runner(nodeA).Agent().VerifyCA != "NEW PEM" {
			t.Errorf("after the one of before did not answer: %v", err)
		}
		if d := x.doc(); !d.Open() {
			t.Errorf("%+v", d.Result)
		}
	})
}

// Two agents that both have the boot's token, and both live: the work fails and says so. A
// lookup beside a living agent is refused and noted.
func TestTwoAgentsOfOneBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		token := x.agent(x.Conductor)
		x.lives.Store(true)
		for range 5 {
			reply, err := x.LookupAgent(lookupOf(x.Conductor))
			if !errors.Is(err, refusal.ErrInDoubt) && !errors.Is(err, refusal.ErrNoNode) || reply.Config.AgentToken != "" {
				t.Errorf("a lookup beside a living agent: %+v, %v", reply, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		told := 0
		for _, e := range x.s.events {
			for _, l := range append(e.Before, work.Line{Phase: e.Phase}) {
				if l.Phase == "second agent" {
					told++
				}
			}
		}
		if d := x.doc(); !d.Open() || told != 1 {
			t.Fatalf("told %d times; %+v", told, d.Result)
		}
		if err := x.Heartbeat(nodeA, call(token, stranger.String(), "EVIL", "evil")); !errors.Is(err, refusal.ErrInDoubt) {
			t.Errorf("a second agent's heartbeat: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		d := x.doc()
		if d.Open() || d.Result.OK || d.State != provision.DeployFail || !strings.Contains(d.Result.Error, "two agents run at the same time") || !strings.Contains(d.Result.Error, "10.66.6.6") {
			t.Errorf("state %q: %+v", d.State, d.Result)
		}
	})
}

// After a board was replaced, or with another machine of the same MAC address, the flow does
// not go on as if nothing had been.
func TestAnotherMachineInTheSameFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		q := lookupOf(x.Conductor)
		q.System = smbios.System{UUID: "4C4C4544-0001", Serial: "A1"}
		if _, err := x.LookupAgent(q); err != nil {
			t.Fatal(err)
		}
		q.System.UUID = "4c4c4544-0001" // firmware and agents differ in letters
		if _, err := x.LookupAgent(q); err != nil {
			t.Fatal(err)
		}
		q.System.Serial = "B2"
		if _, err := x.LookupAgent(q); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("another machine: %v", err)
		}
		synctest.Wait()
		if d := x.doc(); d.Open() || !strings.Contains(d.Result.Error, "another machine than the node") || !strings.Contains(d.Result.Error, "B2") {
			t.Errorf("%+v", d.Result)
		}
	})
}

// An agent that rackd could not call, or not be sure whom it calls, is refused.
func TestAgentsThatAreNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		x.Seen(ask.Sign{Address: macA, Phase: "dhcp", Leased: hers})
		q := lookupOf(x.Conductor)
		q.From = hers
		reply, err := x.LookupAgent(q)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			url, ca string
			from    netip.Addr
			want    string
		}{
			"no certificate":  {"https://10.0.0.1:9999", "", hers, "agent_verify_ca"},
			"no TLS":          {"http://10.0.0.1:9999", "PEM", hers, "must be https"},
			"a name":          {"https://agent.example:9999", "PEM", hers, "IP address"},
			"a user":          {"https://u:p@10.0.0.1:9999", "PEM", hers, "without a user"},
			"another host":    {"https://10.66.6.6:9999", "PEM", hers, "was given"},
			"another caller":  {"https://10.0.0.1:9999", "PEM", stranger, "comes from 10.66.6.6"},
			"too long":        {"https://10.0.0.1:9999/" + strings.Repeat("x", 400), "PEM", hers, "at most"},
			"a long identity": {"https://10.0.0.1:9999", strings.Repeat("P", 20<<10), hers, "too long"},
		} {
			hb := ask.Heartbeat{Heartbeat: agentapi.Heartbeat{CallbackURL: c.url, AgentVerifyCA: c.ca, AgentToken: reply.Config.AgentToken}, Caller: ask.Caller{From: c.from}}
			if err := x.Heartbeat(nodeA, hb); !errors.Is(err, refusal.ErrBadCallback) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
		if a := x.runner(nodeA).Agent(); a.URL != "" {
			t.Errorf("pinned: %+v", a)
		}
	})
}

// The first heartbeat may come through central from anywhere, and names an address that the machine was given, where that is known.
// Where it is not, no address that leads to rackd's own machine or link is taken, unless the call itself comes from there.
func TestCallbackThroughCentral(t *testing.T) {
	far, local := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("127.0.0.2")
	for name, c := range map[string]struct {
		known   bool
		from    netip.Addr
		central bool
		at      string
		want    string
	}{
		"another host":                     {true, far, true, "203.0.113.66", "was given"},
		"rackd's own":                      {true, far, true, "127.0.0.1", "was given"},
		"a cloud's own":                    {true, far, true, "169.254.169.254", "was given"},
		"the machine's":                    {true, far, true, "10.0.0.1", ""},
		"rackd's own, nothing known":       {false, far, true, "127.0.0.1", "a loopback address"},
		"of a proxy on rackd's machine":    {false, local, true, "127.0.0.1", "a loopback address"},
		"called from elsewhere":            {false, far, false, "127.0.0.1", "a loopback address"},
		"mapped":                           {false, far, false, "[::ffff:127.0.0.1]", "a loopback address"},
		"a cloud's own, nothing known":     {false, far, true, "169.254.169.254", "a link-local address"},
		"link-local of IPv6":               {false, far, true, "[fe80::1]", "a link-local address"},
		"multicast":                        {false, far, true, "224.0.0.1", "a multicast address"},
		"none":                             {false, far, true, "0.0.0.0", "an unspecified address"},
		"an ordinary one":                  {false, far, true, "203.0.113.66", ""},
		"an agent on rackd's own machine":  {false, local, false, "127.0.0.1", ""},
		"an agent that is where it called": {false, far, false, "198.51.100.7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &rackLeases{at: map[string]netip.Addr{}}
				if c.known {
					l.at[macA] = hers
				}
				x := newTrial(t, func(cfg *Config) { cfg.Leases = l })
				defer x.stop()
				q := lookupOf(x.Conductor)
				q.Central, q.From = true, far
				reply, err := x.LookupAgent(q)
				if err != nil {
					t.Fatal(err)
				}
				hb := call(reply.Config.AgentToken, c.at, "PEM", "1")
				hb.From, hb.Central = c.from, c.central
				err = x.Heartbeat(nodeA, hb)
				synctest.Wait()
				if a := x.runner(nodeA).Agent(); (c.want == "") != (err == nil) || (c.want == "") != (a.URL != "") {
					t.Fatalf("answered %v; pinned at %q", err, a.URL)
				}
				if c.want != "" && (!errors.Is(err, refusal.ErrBadCallback) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("answered %v, want %q", err, c.want)
				}
			})
		})
	}
}

// Anybody may enrol a node with a port of an address that is not known here yet. It takes nothing from the machine that has it.
func TestAPortOfAnotherNodeTakesNoLookup(t *testing.T) {
	const second = "52:54:00:00:00:02"
	for name, byUUID := range map[string]bool{"by its node's UUID": true, "by addresses alone": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTrial(t, nil)
				defer x.stop()
				q := lookupOf(x.Conductor)
				q.Addresses, q.From = []string{second, macA}, hers
				if byUUID {
					q.Node = nodeA
				}
				if _, err := x.LookupAgent(q); err != nil {
					t.Fatal("before:", err)
				}
				x.s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Enroll, Ports: []node.Port{{Address: second}}})
				reply, err := x.LookupAgent(q)
				if err != nil || reply.Node.UUID != nodeA {
					t.Errorf("after: node %s, %v", reply.Node.UUID, err)
				}
				hb := call(reply.Config.AgentToken, hers.String(), "PEM", "1")
				hb.From = hers
				if err := x.Heartbeat(nodeA, hb); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				lines := slices.Concat(x.doc().Checkpoint.Untold)
				x.s.mu.Lock()
				for _, e := range x.s.events {
					lines = append(lines, e.Lines()...)
				}
				x.s.mu.Unlock()
				if !slices.ContainsFunc(lines, func(l work.Line) bool { return strings.Contains(l.Detail, nodeB) }) {
					t.Errorf("the history does not say which node has the address: %+v", lines)
				}
				other := q
				other.BootID = "AAAAAAAAAAAAAAAAAAAAAA"
				if reply, err := x.LookupAgent(other); !errors.Is(err, refusal.ErrNoNode) || reply.Config.AgentToken != "" {
					t.Errorf("with the id of another boot: %+v, %v", reply, err)
				}
				other.BootID = ""
				if reply, err := x.LookupAgent(other); !errors.Is(err, refusal.ErrNoNode) || reply.Config.AgentToken != "" {
					t.Errorf("without an id: %+v, %v", reply, err)
				}
			})
		})
	}
}

// A boot is in the checkpoint before the machine is started, for each boot that an owner causes and for no
// other: so a rackd that dies in between leaves no machine whose boot another counts otherwise. Tokens
// and ids of boots before do not fit any more, and work that goes on with the flow keeps the count.
func TestBootIsCountedBeforeItIsCaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := waitForAgent(nil)
		up.Interface, up.Name = "deploy", "up"
		m := &machine{power: driver.PowerOff}
		s := newShelf()
		oneNode(s)
		var started []uint64 // the count on the bus when the machine was started
		m.onPower = func(target driver.PowerState) {
			if target != driver.PowerOff {
				started = append(started, s.Work(nodeA).Doc.Checkpoint.Boot.Number)
			}
		}
		m.clean = []driver.Step{up}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		x := &trial{Conductor: c, t: t, s: s, m: m}
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "deploy", Step: "up"}, {Interface: "power", Step: "reboot"}, {Interface: "power", Step: "hold"}}})
		synctest.Wait()
		id := lookupOf(c).BootID
		first := x.agent(c)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d := x.doc(); d.Checkpoint.Step != "power.reboot" {
			t.Fatalf("step %q: %+v", d.Checkpoint.Step, d.Result)
		}
		if err := c.Heartbeat(nodeA, call(first, hers.String(), "PEM", "1")); !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("the agent of the boot before: %v", err)
		}
		if _, err := c.LookupAgent(ask.Lookup{Node: nodeA, Caller: ask.Caller{BootID: id}}); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("the id of the boot before: %v", err)
		}
		second := x.agent(c)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d := x.doc(); d.State != provision.CleanHold || second == first {
			t.Fatalf("state %q: %+v", d.State, d.Result)
		}
		s.errand(nodeA, work.Args{PowerTarget: string(driver.Rebooting)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := c.Heartbeat(nodeA, call(second, hers.String(), "PEM", "1")); !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("the agent of before a reboot that was asked for: %v", err)
		}
		if want := []uint64{1, 2, 3}; !slices.Equal(started, want) || x.doc().Checkpoint.Boot.Number != 3 {
			t.Errorf("started at counts %v, want %v; now %+v", started, want, x.doc().Checkpoint.Boot)
		}
	})
}

// When the machine is to boot its disk next, its agent is still the boot's: no lookup is answered any more, and nothing
// else takes its place.
func TestNoAgentComesAfterTheRamdisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newShelf(), &machine{power: driver.PowerOff}
		oneNode(s)
		m.deploy = []driver.Step{waitForAgent(m),
			{Interface: "deploy", Name: "prepare", Priority: 50, Kind: driver.Repeatable, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Facts[driver.FactBoot] = driver.BootInstance
				return driver.Done(), nil
			}},
			{Interface: "deploy", Name: "down", Priority: 5, Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Wait(time.Second), nil }}}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) { cfg.AgentLives = func(context.Context, work.Agent) bool { return true } })
		defer kill()
		x := &trial{Conductor: c, t: t, s: s, m: m}
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		q := lookupOf(c)
		token := x.agent(c)
		if d := x.doc(); d.Checkpoint.Step != "deploy.down" {
			t.Fatalf("step %q: %+v", d.Checkpoint.Step, d.Result)
		}
		if reply, err := c.LookupAgent(q); !errors.Is(err, refusal.ErrNoNode) || reply.Config.AgentToken != "" {
			t.Errorf("a lookup after the ramdisk: %+v, %v", reply, err)
		}
		if a := c.runner(nodeA).Agent(); a == nil || a.URL != "https://10.0.0.1:9999" {
			t.Errorf("the agent is %+v", a)
		}
		if err := c.Heartbeat(nodeA, call(token, hers.String(), "PEM", "1")); err != nil {
			t.Errorf("the agent's next heartbeat: %v", err)
		}
	})
}

// The count of a flow whose document the bus had lost does not come to where it was before.
func TestCountAfterALoss(t *testing.T) {
	b := work.Boot{Number: 3, System: smbios.System{UUID: "u"}, Addresses: []netip.Addr{hers}}
	if n := b.Next(2); n.Number != 4 || n.System.UUID != "u" || len(n.Addresses) != 0 {
		t.Errorf("the next boot: %+v", n)
	}
	if n := (work.Boot{}).Next(work.LostEpochs + 7); n.Number <= 3 {
		t.Errorf("after a loss: %+v", n)
	}
}

// The owner's own DHCP gave the machine its address, before the work was its own. The next owner
// remembers another lease of the machine, and knows the address all the same.
func TestTakeoverByARackdWithAnOlderLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, func(cfg *Config) { cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: hers}} })
		token := x.agent(x.Conductor)
		x.stop()
		x.owner.Store("b")
		b, stop := x.on("b", func(cfg *Config) {
			cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: netip.MustParseAddr("10.0.0.99")}}
		})
		defer stop()
		synctest.Wait()
		hb := call(token, hers.String(), "PEM", "1")
		hb.From = hers
		if err := b.Heartbeat(nodeA, hb); err != nil {
			t.Errorf("the agent's heartbeat after a takeover: %v", err)
		}
		hb.From = stranger
		if err := b.Heartbeat(nodeA, hb); !errors.Is(err, refusal.ErrBadCallback) {
			t.Errorf("from another address: %v", err)
		}
	})
}

// A machine that is known by one version of IP may call by the other, whose addresses another server gives: it shows
// the id of its boot. By the version by which it is known, only its address counts. An agent may not call from one
// version and be called by the other, at an address that is not known.
func TestAgentOfTheOtherVersionOfIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		six := func(text string) netip.Addr { return netip.MustParseAddr(text) }
		x := newTrial(t, func(cfg *Config) { cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: six("fd00::7")}} })
		defer x.stop()
		token := x.agent(x.Conductor)
		for _, c := range []struct {
			from netip.Addr
			url  string
			ok   bool
		}{
			{six("fd00::7"), "https://[fd00::7]:9999", true},
			{six("fd00::8"), "https://[fd00::7]:9999", false},
			{six("fd00::7"), "https://[fd00::8]:9999", false},
			{six("fd00::7"), "https://10.0.0.1:9999", false},
			{hers, "https://10.0.0.1:9999", true},
		} {
			hb := call(token, "10.0.0.1", "PEM", "1")
			hb.From, hb.CallbackURL = c.from, c.url
			n := x.cfg.Documents.Node(nodeA)
			if err := x.callable(n, x.bootOf(nodeA), hb); (err == nil) != c.ok {
				t.Errorf("from %s, to be called at %s: %v", c.from, c.url, err)
			}
		}
	})
}

// An address that another rackd's DHCP gave is told to whichever rackd has the work, however often that
// changes: DHCP gives it once. The first owner dies before it has written it; the second has an older lease
// of the machine, and would refuse the agent until the deploy has timed out.
func TestAddressThatAnotherRackdGaveIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		var b *Conductor
		dhcp, stopDHCP := x.on("dhcp", func(cfg *Config) {
			cfg.Leases = &rackLeases{at: map[string]netip.Addr{}}
			cfg.TellOwner = func(owner, _ string, s ask.Sign) {
				if owner == "b" {
					b.Seen(s)
				}
			}
		})
		defer stopDHCP()
		script := lookupOf(x.Conductor)
		x.stop()
		synctest.Wait()
		// The machine asks DHCP while no owner lives: what is told now, no rackd hears.
		dhcp.cfg.Leases.(*rackLeases).at[macA] = hers
		if owner, _ := dhcp.Seen(ask.Sign{Address: macA, Phase: "dhcp", Leased: hers}); owner != "a" {
			t.Fatalf("it is told to %q", owner)
		}
		var stopB func()
		b, stopB = x.on("b", func(cfg *Config) {
			cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: netip.MustParseAddr("10.0.0.99")}}
		})
		defer stopB()
		x.owner.Store("b")
		b.RingChanged()
		time.Sleep(time.Second)
		synctest.Wait()
		script.From = hers
		if _, err := b.LookupAgent(script); err != nil {
			t.Errorf("the machine's agent is refused: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if d := x.doc(); !slices.Contains(d.Checkpoint.Boot.Addresses, hers) {
			t.Errorf("the next owner would know %v", d.Checkpoint.Boot.Addresses)
		}
		script.From = stranger
		if _, err := b.LookupAgent(script); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("a stranger is told %v", err)
		}
	})
}

// What is written down is not told again, nor is what concerns no ramdisk.
func TestKnownAddressIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, told := newTrial(t, nil), 0
		defer x.stop()
		_, stop := x.on("dhcp", func(cfg *Config) {
			cfg.Leases = &rackLeases{at: map[string]netip.Addr{macA: hers}}
			cfg.TellOwner = func(_, _ string, s ask.Sign) { told++; x.Seen(s) }
		})
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		if before := told; before == 0 || before > 3 {
			t.Errorf("told %d times", before)
		}
		before := told
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if told != before {
			t.Errorf("told %d times more though it is written down: %v", told-before, x.doc().Checkpoint.Boot.Addresses)
		}
	})
}

// overhears is a rackd's own DHCP server, which tells the conductor what it has given and heard.
type overhears struct{ *trial }

func (overhears) ByMAC(mac string) (netboot.Machine, bool) { return netboot.Machine{}, mac == macA }
func (overhears) ByUUID(string) (netboot.Machine, bool)    { return netboot.Machine{}, false }
func (o overhears) Seen(mac, phase, _ string)              { o.trial.Seen(ask.Sign{Address: mac, Phase: phase}) }
func (o overhears) Leased(mac string, at netip.Addr, phase, _ string) {
	o.trial.Seen(ask.Sign{Address: mac, Phase: phase, Leased: at})
}

// A stranger asks in a machine's name for addresses of another server. That makes no host of another network the
// machine. It does not put the machine's own agent off, however many such requests there are.
func TestForgedDHCPRequestsMakeNobodyTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leases rackDHCP
		x := newTrial(t, func(cfg *Config) { cfg.Leases = &leases })
		defer x.stop()
		server, err := dhcp.New(dhcp.Config{Mode: dhcp.Serve, ServerIP: netip.MustParseAddr("10.0.0.254"), From: hers, To: netip.MustParseAddr("10.0.0.9"), Mask: net.CIDRMask(24, 32),
			HTTP: "http://10.0.0.254:8080", Directory: overhears{x}, Journal: overhears{x}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		leases.Store(server)
		request := func(wanted, by netip.Addr) {
			t.Helper()
			hw, _ := net.ParseMAC(macA)
			m, err := dhcpv4.New(dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(wanted.AsSlice())),
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(by.AsSlice())))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := server.Answer(m); err != nil {
				t.Fatal(err)
			}
		}
		request(hers, netip.MustParseAddr("10.0.0.254"))
		for i := range 20 {
			request(netip.AddrFrom4([4]byte{10, 66, 6, byte(i)}), stranger)                             // another network
			request(netip.AddrFrom4([4]byte{10, 0, 0, byte(100 + i)}), netip.MustParseAddr("10.0.0.2")) // as on the machine's own
		}
		request(stranger, stranger)
		synctest.Wait()
		o, _ := x.BootByMAC(macA)
		if slices.Contains(o.Addresses, stranger) || !slices.Contains(o.Addresses, hers) {
			t.Errorf("the machine's addresses are %v; DHCP gave it %v", o.Addresses, hers)
		}
		if list := x.doc().Checkpoint.Boot.Addresses; !slices.Contains(list, hers) {
			t.Errorf("a rackd that takes over would know %v", list)
		}
		q := lookupOf(x.Conductor)
		q.From = stranger
		if reply, err := x.LookupAgent(q); !errors.Is(err, refusal.ErrNoNode) {
			t.Errorf("the stranger's lookup is answered with the token %q: %v", reply.Config.AgentToken, err)
		}
		q.From = hers
		if _, err := x.LookupAgent(q); err != nil {
			t.Errorf("the machine's own agent, at the address that rackd gave it: %v", err)
		}
	})
}

// rackDHCP is a DHCP server that is there later than the conductor.
type rackDHCP struct{ atomic.Pointer[dhcp.Server] }

func (r *rackDHCP) Addresses(mac string) (list []netip.Addr) {
	if s := r.Load(); s != nil {
		if a, ok := s.Address(mac); ok {
			list = append(list, a)
		}
	}
	return list
}
