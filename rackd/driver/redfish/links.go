package redfish

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"
)

// gofish returns linked resources in the order in which they answer, which changes from call to call.

// oneOf is what went wrong with one of several linked resources, as gofish tells it: the error of the first path. gofish's own is a text
// that wraps none, and a BMC that starts could not be told from one that refuses.
func oneOf(err error) error {
	several, is := errors.AsType[*common.CollectionError](err)
	if !is || several.Empty() {
		return err
	}
	path := slices.Min(slices.Collect(maps.Keys(several.Failures)))
	return fmt.Errorf("%s: %w", path, several.Failures[path])
}

// managersOf are the managers of a system in the order in which it names them: its BMC comes first.
func managersOf(s *redfish.ComputerSystem) ([]*redfish.Manager, error) {
	list, err := s.ManagedBy()
	if err != nil {
		return nil, oneOf(err)
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

// othersOf are the paths of the other machines of a manager: systems that boot by themselves. A tray of accelerators is none.
func othersOf(c common.Client, m *redfish.Manager, s *redfish.ComputerSystem) (paths []string, err error) {
	var named struct {
		Links struct{ ManagerForServers []ref }
	}
	_ = json.Unmarshal(m.RawData, &named) // gofish has read it already
	return othersIn(c, named.Links.ManagerForServers, s)
}

// othersIn are those of a list of systems that are machines of their own, without s.
func othersIn(c common.Client, list []ref, s *redfish.ComputerSystem) (paths []string, err error) {
	for _, r := range list {
		if strings.TrimSuffix(r.Path, "/") == strings.TrimSuffix(s.ODataID, "/") {
			continue
		}
		other, err := redfish.GetComputerSystem(c, r.Path)
		switch {
		case status(err) == http.StatusNotFound:
		case err != nil:
			return nil, err
		case other != nil && other.Boot.BootSourceOverrideTarget != "":
			paths = append(paths, r.Path)
		}
	}
	return paths, nil
}
