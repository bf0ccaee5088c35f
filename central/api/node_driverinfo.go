package api

import (
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/driverinfo"
)

// newlyWrong refuses values of driver_info that differ from those before and are wrong by themselves, in the words of `validate`. What
// is missing is not looked for, and fields that no interface of the node reads are kept. No rackd is asked.
func newlyWrong(n *store.Node, before map[string]any) error {
	wrong := driverinfo.NewlyWrong(driverinfo.Info{UUID: n.UUID, Driver: n.Driver, Fields: n.DriverInfo}, before, n.Interfaces, hidden)
	if wrong == nil {
		return nil
	}
	return wire.Invalid("%s", strings.Join(wrong, "; "))
}
