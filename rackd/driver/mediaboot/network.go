package mediaboot

import (
	"fmt"

	"github.com/ironyard/ironyard/protocol/networkdata"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// checkNetwork refuses network_data that the agent could not act on: the ramdisk could call no rackd.
func checkNetwork(n *node.Document) error {
	if len(n.NetworkData) == 0 {
		return nil
	}
	list, err := networkdata.Parse(n.NetworkData)
	if err == nil && len(networkdata.Addresses(list)) == 0 && !networkdata.Asks(list) {
		err = fmt.Errorf("it gives no interface an address")
	}
	if err != nil {
		return fmt.Errorf("node %s: network_data: %w: %w", n.Label(), err, driver.ErrInvalid)
	}
	return nil
}
