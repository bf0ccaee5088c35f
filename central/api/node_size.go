package api

import (
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// maxRescuePassword bounds the password of a rescue, in bytes, which comes into instance_info
// past checkSize.
const maxRescuePassword = 4 << 10

// checkSize refuses a node that its rack could not be told of.
func checkSize(n *store.Node) error {
	if err := n.CheckSize(); err != nil {
		return wire.Invalid("%v", err)
	}
	return nil
}
