package api

import (
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

// fieldRule is the rule of one operation of a PATCH.
func fieldRule(op patch.Op) string {
	root := op.Root()
	if rule := fieldRules[root]; rule != "" {
		return rule
	}
	if strings.HasSuffix(root, "_interface") {
		return updateInterfaces
	}
	if root == "automated_clean" && isFalse(op.Value) {
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
		if err := s.allowed(r, fieldRule(op), n); err != nil {
			return err
		}
	}
	return nil
}
