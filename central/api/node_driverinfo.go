package api

import (
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/driverinfo"
)

// mostRefusals bounds what an answer tells of wrong values.
const mostRefusals = 20

// newlyWrong refuses values of driver_info that differ from those before and are wrong by themselves, in the words of `validate`. What
// is missing is not looked for, and fields that no interface of the node reads are kept. No rackd is asked.
func newlyWrong(n *store.Node, before map[string]any) error {
	wrong := driverinfo.NewlyWrong(driverinfo.Info{UUID: n.UUID, Driver: n.Driver, Fields: n.DriverInfo}, before, n.Interfaces, hidden)
	if wrong == nil {
		return nil
	}
	var told []string
	for _, r := range wrong[:min(len(wrong), mostRefusals)] {
		told = append(told, r.Told())
	}
	if more := len(wrong) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return wire.Invalid("%s", strings.Join(told, "; "))
}
