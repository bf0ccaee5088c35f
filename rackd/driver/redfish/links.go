package redfish

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"
)

// gofish returns linked resources in the order in which they answer, which changes from call to call.

// managersOf are the managers of a system in the order in which it names them: its BMC comes first.
func managersOf(s *redfish.ComputerSystem) ([]*redfish.Manager, error) {
	list, err := s.ManagedBy()
	if err != nil {
		return nil, err
	}
	var named struct{ Links struct{ ManagedBy []ref } }
	_ = json.Unmarshal(s.RawData, &named) // gofish has read it already
	place := func(m *redfish.Manager) int {
		return slices.IndexFunc(named.Links.ManagedBy, func(r ref) bool { return strings.TrimSuffix(r.Path, "/") == strings.TrimSuffix(m.ODataID, "/") })
	}
	slices.SortStableFunc(list, func(a, b *redfish.Manager) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.ODataID, b.ODataID))
	})
	return list, nil
}

// byPath sorts drives by their paths, numbers by their size.
func byPath(list []*redfish.VirtualMedia) {
	slices.SortStableFunc(list, func(a, b *redfish.VirtualMedia) int {
		return cmp.Or(cmp.Compare(len(a.ODataID), len(b.ODataID)), strings.Compare(a.ODataID, b.ODataID))
	})
}
