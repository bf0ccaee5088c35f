// Package drivers is the list of hardware types that this rackd knows: one line
// for each. The conductor gets the registry and sees the contract only.
//
// It may import rackd/driver, everything below it, and protocol.
package drivers

import (
	"fmt"
	"slices"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// Options of all hardware types.
type Options struct {
	// Enabled names the hardware types to offer; empty: all.
	Enabled []string
	Fake    fake.Options
}

// All returns the registry of the enabled hardware types.
func All(o Options) (*driver.Registry, error) {
	known := []driver.Type{
		fake.New(o.Fake).Type(),
	}
	types, err := enabled(known, o.Enabled)
	if err != nil {
		return nil, err
	}
	return driver.NewRegistry(types...)
}

func enabled(known []driver.Type, want []string) (types []driver.Type, err error) {
	if len(want) == 0 {
		return known, nil
	}
	for _, name := range want {
		i := slices.IndexFunc(known, func(t driver.Type) bool { return t.Name == name })
		if i < 0 {
			var names []string
			for _, t := range known {
				names = append(names, t.Name)
			}
			return nil, fmt.Errorf("enable hardware type %q: there is none of that name; there are %v", name, names)
		}
		types = append(types, known[i])
	}
	return types, nil
}
