package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

// fieldRules are the rules that decide on single fields of a PATCH. Fields that are not
// here, and no interface, fall under the general one.
var fieldRules = map[string]string{
	"instance_info":     "baremetal:node:update_instance_info",
	"extra":             "baremetal:node:update_extra",
	"driver_info":       "baremetal:node:update:driver_info",
	"properties":        "baremetal:node:update:properties",
	"chassis_uuid":      "baremetal:node:update:chassis_uuid",
	"instance_uuid":     "baremetal:node:update:instance_uuid",
	"instance_name":     "baremetal:node:update_instance_info",
	"lessee":            "baremetal:node:update:lessee",
	"owner":             "baremetal:node:update:owner",
	"driver":            updateInterfaces,
	"network_data":      "baremetal:node:update:network_data",
	"conductor_group":   "baremetal:node:update:conductor_group",
	"name":              "baremetal:node:update:name",
	"retired":           "baremetal:node:update:retired",
	"retired_reason":    "baremetal:node:update:retired",
	"shard":             "baremetal:node:update:shard",
	"parent_node":       "baremetal:node:update:parent_node",
	"disable_power_off": "baremetal:node:update:disable_power_off",
	"maintenance":       "baremetal:node:set_maintenance",
}

const (
	updateNode       = "baremetal:node:update"
	updateInterfaces = "baremetal:node:update:driver_interfaces"
)

// fieldRule is the rule of giving a field a value.
func fieldRule(root string, value any) string {
	if rule := fieldRules[root]; rule != "" {
		return rule
	}
	if strings.HasSuffix(root, "_interface") {
		return updateInterfaces
	}
	if root == "automated_clean" && isFalse(value) {
		return "baremetal:node:disable_cleaning"
	}
	return updateNode
}

func isFalse(v any) bool {
	if s, isText := v.(string); isText {
		b, known := wire.Bool(s)
		return known && !b
	}
	return v == false
}

// mayChange refuses a PATCH of what the caller may not change.
func (s *Server) mayChange(r *Request, ops []patch.Op, n *store.Node) error {
	if len(ops) == 0 {
		return s.allowed(r, updateNode, n)
	}
	for _, op := range ops {
		if err := s.allowed(r, fieldRule(op.Root(), op.Value), n); err != nil {
			return err
		}
	}
	return nil
}

// mayCreateWith refuses the fields of a new node that its caller, who enrols it for a project, could not change
// afterwards. Its driver, which it cannot do without, and its owner, which claim has looked at, it may have.
func (s *Server) mayCreateWith(r *Request, body map[string]any, n *store.Node) error {
	if !s.selfService(r, createOwn) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value := body[name]
		if f, known := nodeTable.Lookup(name); !known || !f.CanPatch || value == nil || name == "driver" || name == "owner" {
			continue
		}
		if err := s.allowed(r, fieldRule(name, value), n); err != nil {
			return err
		}
	}
	return nil
}
