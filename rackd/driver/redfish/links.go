package redfish

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
)

// managersOf are the managers of a system in the order in which it names them: its BMC comes first.
func managersOf(s *System) (list []manager, err error) {
	for _, r := range s.Links.ManagedBy {
		m := manager{ref: r}
		if err := fetch(s.c, r.Path, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Path, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// byPath sorts drives by their paths, numbers by their size.
func byPath(list []*virtualDrive) {
	slices.SortStableFunc(list, func(a, b *virtualDrive) int {
		return cmp.Or(cmp.Compare(len(a.Path), len(b.Path)), strings.Compare(a.Path, b.Path))
	})
}

// othersOf are the paths of the other machines of a manager: systems that boot by themselves. A tray of accelerators is none.
func othersOf(c *gofish.APIClient, m manager, s *System) (paths []string, err error) {
	return othersIn(c, m.Links.ManagerForServers, s)
}

// othersIn are those of a list of systems that are machines of their own, without s.
func othersIn(c *gofish.APIClient, list []ref, s *System) (paths []string, err error) {
	for _, r := range list {
		if strings.TrimSuffix(r.Path, "/") == strings.TrimSuffix(s.Path, "/") {
			continue
		}
		other, err := readSystem(c, r.Path)
		switch {
		case status(err) == http.StatusNotFound:
		case err != nil:
			return nil, err
		case other.Boot.BootSourceOverrideTarget != "":
			paths = append(paths, r.Path)
		}
	}
	return paths, nil
}
