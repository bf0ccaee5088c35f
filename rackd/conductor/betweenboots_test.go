package conductor

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/refusal"
)

// slowLeases is a DHCP server that is asked at a moment of the test's choice.
type slowLeases struct {
	armed atomic.Bool
	in    chan struct{} // a heartbeat is between its token's check and its taking in
	out   chan struct{}
}

func (l *slowLeases) Addresses(string) []netip.Addr {
	if l.armed.CompareAndSwap(true, false) {
		close(l.in)
		<-l.out
	}
	return []netip.Addr{hers}
}

// slowBus is a bus on which the write of a boot takes as long as a heartbeat that is under way.
type slowBus struct {
	Documents
	boot uint64
	do   func()
}

func (b *slowBus) UpdateWork(ctx context.Context, d work.Document, rev uint64) (uint64, error) {
	if d.Checkpoint.Boot.Number == b.boot && b.do != nil {
		do := b.do
		b.do = nil
		do()
	}
	return b.Documents.UpdateWork(ctx, d, rev)
}

// A heartbeat's token is checked a moment before the next boot is counted, and the heartbeat is taken in a moment after. It is that
// of the boot before: it is refused, and the machine is switched on.
func TestAHeartbeatOfTheBootBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &slowLeases{in: make(chan struct{}), out: make(chan struct{})}
		answer := make(chan error, 1)
		var bus *slowBus
		m := &machine{power: driver.PowerOff}
		again, ran := atomic.Bool{}, ""
		m.deploy = []driver.Step{
			{Interface: "deploy", Name: "deploy", Priority: 100, Kind: driver.Reattachable, Boots: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				t.Facts[driver.FactBoot] = driver.BootRamdisk
				return bringup.Settings{}.Ramdisk(ctx, t)
			}},
			{Interface: "deploy", Name: "hold_on", Priority: 90, Kind: driver.Reattachable, Run: func(context.Context, *driver.Task) (driver.Outcome, error) {
				if again.Load() {
					return driver.Done(), nil
				}
				return driver.Wait(time.Second), nil
			}},
			{Interface: "deploy", Name: "boot_again", Priority: 80, Kind: driver.Reattachable, Boots: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				return bringup.Settings{}.Ramdisk(ctx, t)
			}},
			{Interface: "deploy", Name: "after", Priority: 70, Kind: driver.Repeatable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				state, _ := m.PowerState(ctx, t.Node)
				ran = string(state)
				return driver.Done(), nil
			}},
		}
		s := newShelf()
		oneNode(s)
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			cfg.Leases = leases
			bus = &slowBus{Documents: cfg.Documents}
			cfg.Documents = bus
		})
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		synctest.Wait()
		time.Sleep(time.Second)
		q := lookupOf(c)
		q.From = hers
		reply, err := c.LookupAgent(q)
		if err != nil {
			t.Fatal(err)
		}
		hb := call(reply.Config.AgentToken, hers.String(), "PEM", "1")
		hb.From = hers
		if err := c.Heartbeat(nodeA, hb); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		first := c.bootOf(nodeA).Number
		bus.boot = first + 1
		bus.do = func() { close(leases.out); answer <- <-answer }
		leases.armed.Store(true)
		go func() { answer <- c.Heartbeat(nodeA, hb) }() // the agent's ordinary heartbeat
		<-leases.in
		again.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if now := c.bootOf(nodeA).Number; now != first+1 {
			t.Fatalf("boot %d, then %d", first, now)
		}
		if err := <-answer; !errors.Is(err, refusal.ErrBadToken) {
			t.Errorf("the heartbeat of boot %d in boot %d is answered %v", first, first+1, err)
		}
		if ran != "" {
			t.Errorf("the heartbeat of boot %d ended boot %d: the next step ran on a machine that is %q", first, first+1, ran)
		}
		if last := m.writes[len(m.writes)-1]; !strings.HasPrefix(last, "power power on") || m.power != driver.PowerOn {
			t.Errorf("the machine is %q; orders %q", m.power, m.writes)
		}
	})
}
