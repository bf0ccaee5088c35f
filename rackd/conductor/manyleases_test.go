package conductor

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Each rackd of a group may have given a machine other addresses: its own range, for each of the machine's ports, to a stranger
// with their MAC addresses too. Together they are more than a checkpoint holds. The owner does not write one checkpoint after the
// other, each without an address that the next rackd tells it again.
func TestMoreLeasesThanACheckpointHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		n := *x.s.Node(nodeA)
		n.Generation, n.State = x.doc().Generation, provision.Deploying
		leases := [3]*rackLeases{}
		for rack := range leases {
			leases[rack] = &rackLeases{at: map[string]netip.Addr{}}
		}
		n.Ports = nil
		for port := range 4 {
			mac := fmt.Sprintf("52:54:00:00:00:%02x", port+1)
			n.Ports = append(n.Ports, node.Port{Address: mac, PXEEnabled: true})
			for rack, l := range leases {
				l.at[mac] = netip.AddrFrom4([4]byte{10, 0, byte(rack + 1), byte(port + 1)})
			}
		}
		x.s.put(&n)
		var told atomic.Int64
		for rack, l := range leases {
			_, stop := x.on(fmt.Sprint("dhcp-", rack), func(cfg *Config) {
				cfg.Leases = l
				cfg.TellOwner = func(_, _ string, s ask.Sign) {
					told.Add(1)
					time.AfterFunc(time.Millisecond, func() { x.Seen(s) }) // by way of the bus
				}
			})
			defer stop()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		x.s.mu.Lock()
		before, toldBefore := x.s.rev, told.Load()
		x.s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		x.s.mu.Lock()
		defer x.s.mu.Unlock()
		if wrote := x.s.rev - before; wrote > 10 || told.Load()-toldBefore > 100 {
			t.Errorf("in a minute in which nothing happened the owner wrote %d checkpoints and was told %d addresses", wrote, told.Load()-toldBefore)
		}
	})
}

// A stranger asks DHCP for one address after the other in a machine's name. A rackd that overhears that has the owner write a few
// checkpoints a second, and the last of them has what was heard last.
func TestManyAddressesOfOneMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrial(t, nil)
		defer x.stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		x.s.mu.Lock()
		before := x.s.rev
		x.s.mu.Unlock()
		var last netip.Addr
		for i := range 10_000 {
			last = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
			x.Seen(ask.Sign{Address: macA, Leased: last})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		x.s.mu.Lock()
		wrote := x.s.rev - before
		x.s.mu.Unlock()
		if list := x.doc().Checkpoint.Boot.Addresses; wrote > 100 || !slices.Contains(list, last) {
			t.Errorf("10,000 requests in 10 s made %d checkpoints; the last one has %v, want %v in it", wrote, list, last)
		}
	})
}
