package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// NodeSettings are what an installation wants of its nodes otherwise than by default. They do not change.
type NodeSettings struct {
	// DefaultResourceClass and DefaultConductorGroup are those of new nodes that are given none.
	DefaultResourceClass, DefaultConductorGroup string
	// KeepAvailable: nodes in available cannot be deleted, unless they are in maintenance
	// (Ironic's allow_deleting_available_nodes, false).
	KeepAvailable bool
	Limits        dispatch.Limits
}

// Check says which setting cannot be.
func (c NodeSettings) Check() error {
	switch {
	case checkGroup(&store.Node{ConductorGroup: strings.ToLower(c.DefaultConductorGroup)}) != nil:
		return fmt.Errorf("--default-conductor-group %q: a name may hold letters, digits, '_', '-' and '.' only", c.DefaultConductorGroup)
	case len(c.DefaultConductorGroup) > maxConductorGroup:
		return fmt.Errorf("--default-conductor-group %q: a name has at most %d characters", c.DefaultConductorGroup, maxConductorGroup)
	case len(c.DefaultResourceClass) > maxResourceClass:
		return fmt.Errorf("--default-resource-class %q: a name has at most %d characters", c.DefaultResourceClass, maxResourceClass)
	case c.Limits.Deploys < 0 || c.Limits.Cleans < 0:
		return fmt.Errorf("--max-concurrent-deploy %d, --max-concurrent-clean %d: neither can be negative; 0 means no limit", c.Limits.Deploys, c.Limits.Cleans)
	}
	return nil
}

// complete gives a new node what it was not given.
func (c NodeSettings) complete(n *store.Node) {
	n.ResourceClass = cmp.Or(n.ResourceClass, c.DefaultResourceClass)
	n.ConductorGroup = cmp.Or(n.ConductorGroup, c.DefaultConductorGroup)
}

// deletable returns the states in which nodes that are not in maintenance may be deleted.
func (c NodeSettings) deletable() []provision.State {
	if !c.KeepAvailable {
		return provision.DeleteAllowed
	}
	return slices.DeleteFunc(slices.Clone(provision.DeleteAllowed), func(s provision.State) bool { return s == provision.Available })
}
