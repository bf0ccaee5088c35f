package mediaboot

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ironyard/ironyard/protocol/networkdata"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// checkNetwork refuses network_data that the agent could not act on: the ramdisk could call no rackd. own tells the addresses of this
// machine. A ramdisk that took one of them would cut off the other machines, too.
func checkNetwork(n *node.Document, own func() ([]netip.Addr, error)) error {
	if len(n.NetworkData) == 0 {
		return nil
	}
	list, err := networkdata.Parse(n.NetworkData)
	if err == nil && len(networkdata.Addresses(list)) == 0 && !networkdata.Asks(list) {
		err = errors.New("it gives no interface an address")
	}
	if err == nil {
		err = notOurs(networkdata.Addresses(list), own)
	}
	if err != nil {
		return fmt.Errorf("node %s: network_data: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	return nil
}

// notOurs refuses addresses of this machine. Where the kernel does not tell them, none is refused.
func notOurs(given []netip.Addr, own func() ([]netip.Addr, error)) error {
	ours, err := own()
	if err != nil {
		return nil
	}
	for _, a := range given {
		if slices.Contains(ours, a) {
			return fmt.Errorf("its address %s is that of this rackd: give the machine another", a)
		}
	}
	return nil
}
