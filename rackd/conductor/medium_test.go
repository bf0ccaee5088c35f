package conductor

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
)

// mediaAt serves media at a base.
type mediaAt string

func (mediaAt) Problem(string) error               { return nil }
func (mediaAt) Signed() bool                       { return true }
func (m mediaAt) Base() string                     { return string(m) }
func (mediaAt) TLSBase() string                    { return "" }
func (mediaAt) Served(_, _ string) bool            { return true }
func (mediaAt) TLSCertificates() ([]string, error) { return nil, nil }
func (mediaAt) URL(base, _, node, root string, boot uint64) (string, error) {
	return base + "/" + MediumCode(testKey, node, root, boot), nil
}

func (mediaAt) ParametersURL(base, _, node, root string, boot uint64) (string, error) {
	return base + "/" + MediumCode(testKey, node, root, boot), nil
}

func (mediaAt) CheckInstance(*node.Document, bootorder.Load) error { return nil }
func (m mediaAt) InstanceURL(base, _, node, work string, part driver.InstancePart) (string, error) {
	return base + "/" + InstanceCode(testKey, node, work, part), nil
}

// byMadeMedium is a machine whose ramdisk boots from a medium that rackd makes.
type byMadeMedium struct{ *machine }

func (m *byMadeMedium) Medium(n *node.Document, facts map[string]string) (bootorder.Load, bool) {
	return bootorder.Load{Kernel: bootorder.File{ID: facts[driver.FactKernel]}}, true
}
func (*byMadeMedium) Deserted(*driver.Task) bool { return false }
func (*byMadeMedium) RamdiskOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.Refuse("it boots from a medium")
}

// byParameters is a machine whose ramdisk boots from an image of its node's, and is told its parameters on a second medium.
type byParameters struct{ *machine }

func (*byParameters) Parameters(*node.Document) (bootorder.Load, bool) {
	return bootorder.Load{Params: []string{"ipa-debug=1"}}, true
}
func (*byParameters) RamdiskOrder(*node.Document, map[string]string) bootorder.Order {
	return bootorder.Refuse("it boots from a medium")
}

// The parameters of a boot answer by the code of that very boot, at each rackd, with its id. They end with the boot. An agent that was
// to read them has to show the id.
func TestParametersOfABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		m := &byParameters{&machine{power: driver.PowerOff}}
		boots, goOn := make(chan string, 1), make(chan bool)
		m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable,
			Run: func(ctx context.Context, k *driver.Task) (driver.Outcome, error) {
				url, err := k.Media.PublishParameters("")
				if err != nil {
					return driver.Done(), err
				}
				k.Facts[driver.FactBoot] = driver.BootRamdisk
				k.Record.AgentGone()
				if err := k.Record.SaveHandle(ctx, "booting"); err != nil {
					return driver.Done(), err
				}
				boots <- url
				<-goOn
				k.Media.Withdraw()
				k.Facts[driver.FactBoot] = driver.BootInstance
				if err := k.Record.SaveHandle(ctx, "over"); err != nil {
					return driver.Done(), err
				}
				boots <- "over"
				<-goOn
				return driver.Done(), nil
			}}}
		with := func(c *Config) {
			c.Media = mediaAt("http://a")
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		}
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, m.machine, with)
		defer killA()
		b, _, killB := conductorOn(t, s, "b", owner, m.machine, with)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		code := strings.TrimPrefix(<-boots, "http://a/")
		synctest.Wait()
		boot := s.Work(nodeA).Doc.Checkpoint.Boot
		for name, c := range map[string]*Conductor{"owner": a, "neighbour": b} {
			o, ok := c.Medium(nodeA, code)
			if !ok || !o.Parameters || fmt.Sprint(o.Load.Params) != "[ipa-debug=1]" || !testKey.BootIDFits(nodeA, s.Work(nodeA).Doc.Root(), boot.Number, o.BootID) {
				t.Errorf("at its %s: %t, %+v", name, ok, o)
			}
			if _, ok := c.Medium(nodeA, o.BootID); ok {
				t.Errorf("at its %s another code opens it", name)
			}
			if c.withoutID(o.Node, boot) {
				t.Errorf("at its %s an agent without the id is let in", name)
			}
		}
		goOn <- true
		<-boots
		synctest.Wait()
		for name, c := range map[string]*Conductor{"owner": a, "neighbour": b} {
			if _, ok := c.Medium(nodeA, code); ok {
				t.Errorf("the boot is over, and its parameters are at its %s", name)
			}
		}
		close(goOn)
	})
}

// A medium may be read from before its boot is counted until the boot is over, at each rackd, and by its code alone. What it holds
// carries the id of the very boot that is counted.
func TestMediumOfABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		m := &byMadeMedium{&machine{power: driver.PowerOff}}
		counted, boots, ends := make(chan bool), make(chan string, 10), make(chan bool)
		m.deploy = []driver.Step{{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable,
			Run: func(ctx context.Context, k *driver.Task) (driver.Outcome, error) {
				for range 2 {
					k.Facts[driver.FactKernel] = "sha256-k"
					url, err := k.Media.Publish("")
					if err != nil {
						return driver.Done(), err
					}
					boots <- url
					<-counted
					k.Facts[driver.FactBoot] = driver.BootRamdisk
					k.Record.AgentGone()
					if err := k.Record.SaveHandle(ctx, "booting"); err != nil {
						return driver.Done(), err
					}
					boots <- "counted"
					<-counted
					if got, want := k.Media.Reading(), (driver.Reading{Known: true, Bytes: 30, Needs: 100}); got != want {
						t.Errorf("of its medium it knows %+v, want %+v", got, want)
					}
				}
				k.Media.Withdraw()
				k.Facts[driver.FactBoot] = driver.BootInstance
				if err := k.Record.SaveHandle(ctx, "over"); err != nil {
					return driver.Done(), err
				}
				boots <- "over"
				<-ends
				return driver.Done(), nil
			}}}
		with := func(c *Config) {
			c.Media = mediaAt("http://a")
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		}
		owner := owned("a")
		a, _, killA := conductorOn(t, s, "a", owner, m.machine, with)
		defer killA()
		b, _, killB := conductorOn(t, s, "b", owner, m.machine, with)
		defer killB()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		var earlier string
		root := ""
		for n := range 2 {
			url := <-boots
			code := strings.TrimPrefix(url, "http://a/")
			o, ok := a.Medium(nodeA, code)
			root = s.Work(nodeA).Doc.Root()
			want := s.Work(nodeA).Doc.Checkpoint.Boot.Next(s.Work(nodeA).Doc.Epoch).Number
			if !ok || o.Load.Kernel.ID != "sha256-k" || !testKey.BootIDFits(nodeA, root, want, o.BootID) {
				t.Errorf("boot %d before it is counted: %t, %+v", n, ok, o)
			}
			counted <- true
			if said := <-boots; said != "counted" {
				t.Fatal(said)
			}
			if o, _ := b.Medium(nodeA, code); o.Read != nil {
				t.Error("a neighbour takes note of what is read")
			}
			for _, bytes := range []int64{0, 10, 20} { // before it is counted, and after
				if o, ok := a.Medium(nodeA, code); ok && o.Read != nil {
					o.Read(bytes, 100)
				}
			}
			synctest.Wait()
			if got := s.Work(nodeA).Doc.Checkpoint.Boot.Number; got != want {
				t.Errorf("the boot is counted as %d, and its medium is that of %d", got, want)
			}
			for name, c := range map[string]*Conductor{"owner": a, "neighbour": b} {
				if o, ok := c.Medium(nodeA, code); !ok || o.Load.Kernel.ID != "sha256-k" || !testKey.BootIDFits(nodeA, root, want, o.BootID) {
					t.Errorf("boot %d at its %s: %t, %+v", n, name, ok, o)
				}
				for _, wrong := range []string{"", earlier, "x", o.BootID, testKey.BootID(nodeA, root, want)} {
					if _, ok := c.Medium(nodeA, wrong); ok {
						t.Errorf("boot %d at its %s: the code %q opens its medium", n, name, wrong)
					}
				}
			}
			earlier = code
			counted <- true
		}
		<-boots
		synctest.Wait()
		for name, c := range map[string]*Conductor{"owner": a, "neighbour": b} {
			if _, ok := c.Medium(nodeA, earlier); ok {
				t.Errorf("the boot is over, and its medium is at its %s", name)
			}
		}
		ends <- true
		time.Sleep(time.Second)
	})
}

// An agent that a medium has brought up shows the boot's id, as one from the network does. Its address is that of network_data.
func TestAgentFromAMediumIsKnownByItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		oneNode(s)
		s.nodes[nodeA].NetworkData = []byte(`{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"n","link":"a","type":"ipv4","ip_address":"10.0.0.7/24"}],"services":[]}`)
		m := &byMadeMedium{&machine{power: driver.PowerOff}}
		m.deploy = []driver.Step{waitForAgent(m.machine)}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(c *Config) {
			named := []driver.Named{{Name: "m", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
			if err != nil {
				t.Fatal(err)
			}
			c.Hardware = reg
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		n, boot := s.nodes[nodeA], c.bootOf(nodeA)
		if c.withoutID(n, boot) {
			t.Error("a medium that rackd has made is taken for one that knows no id")
		}
		if got := fmt.Sprint(c.addresses(n, boot)); got != "[10.0.0.7]" {
			t.Errorf("the machine's addresses are %s", got)
		}
		if _, err := c.admit("lookup", n, c.runner(nodeA), ask.Caller{}); err == nil {
			t.Error("a caller without an id is admitted")
		}
		id := testKey.BootID(nodeA, s.Work(nodeA).Doc.Root(), boot.Number)
		if _, err := c.admit("lookup", n, c.runner(nodeA), ask.Caller{BootID: id}); err != nil {
			t.Error(err)
		}
		// Where network_data has the machine ask for further addresses, the id alone speaks for it.
		elsewhere := ask.Caller{From: netip.MustParseAddr("10.0.9.9"), BootID: id}
		if _, err := c.admit("lookup", n, c.runner(nodeA), elsewhere); err == nil {
			t.Error("a caller from an address that network_data does not give is admitted")
		}
		asks := *n
		asks.NetworkData = []byte(`{"links":[{"id":"a","type":"phy","ethernet_mac_address":"52:54:00:00:00:01"},
			{"id":"v","type":"vlan","vlan_link":"a","vlan_id":7,"vlan_mac_address":"52:54:00:00:00:01"}],"networks":[{"id":"n","link":"a","type":"ipv4","ip_address":"10.0.0.7/24"},
			{"id":"m","link":"v","type":"ipv4_dhcp"}],"services":[]}`)
		if _, err := c.admit("lookup", &asks, c.runner(nodeA), elsewhere); err != nil {
			t.Error(err)
		}
		hb := ask.Heartbeat{Heartbeat: agentapi.Heartbeat{CallbackURL: "https://10.0.9.9:9999", AgentVerifyCA: "certificate"}, Caller: elsewhere}
		if err := c.callable(n, boot, hb); err == nil {
			t.Error("an agent is to be called at an address that network_data does not give")
		}
		if err := c.callable(&asks, boot, hb); err != nil {
			t.Error(err)
		}
		hb.CallbackURL = "https://127.0.0.1:9999"
		if err := c.callable(&asks, boot, hb); err == nil {
			t.Error("an agent is to be called at an address of rackd's own machine")
		}
		elsewhere.BootID = "another"
		if _, err := c.admit("lookup", &asks, c.runner(nodeA), elsewhere); err == nil {
			t.Error("a caller with another id is admitted")
		}
	})
}
