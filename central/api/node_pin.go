package api

import (
	"maps"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/node"
)

// pinsKey reports whether a field of driver_info asks racks to pin the key that the node's BMC shows at first use.
func pinsKey(field string, value any) bool {
	text, _ := value.(string)
	return strings.HasSuffix(field, "_verify_ca") && strings.EqualFold(strings.TrimSpace(text), node.PinKey)
}

// pinFirst has racks forget what they have pinned of a node that was deleted and is enrolled again, as n, under its UUID: its BMC may be
// another. It reports whether n asks for the pin.
func pinFirst(n *store.Node) bool {
	for field, value := range n.DriverInfo {
		if pinsKey(field, value) {
			n.DriverInternalInfo = map[string]any{node.PinnedSinceKey: strconv.FormatInt(n.Revision, 10)}
			return true
		}
	}
	return false
}

// pinAnew has racks forget the keys of a node's BMC that they have pinned, where a PATCH asks for the pin, also if it did before. What
// answers next at the BMC's address is sent its password. So that is for callers who may say where the password goes.
func (s *Server) pinAnew(before, n *store.Node, c *nodeChange) error {
	for _, op := range c.ops {
		var field string
		switch {
		case op.Root() != "driver_info":
			continue
		case op.Whole():
			set, _ := op.Value.(map[string]any)
			for name, value := range set {
				if pinsKey(name, value) && pinsKey(name, n.DriverInfo[name]) {
					field = name
				}
			}
		case len(op.Steps) == 2 && pinsKey(op.Steps[1], op.Value) && pinsKey(op.Steps[1], n.DriverInfo[op.Steps[1]]):
			field = op.Steps[1]
		}
		if field == "" {
			continue
		}
		// What is forgotten is of all fields, so secrets that another field decides about count, too.
		if kept := keptSecrets("", n.DriverInfo, before.DriverInfo); len(kept) > 0 && !s.mayChooseSecrets(c.r, before) {
			return wire.Invalid("driver_info/%s has racks forget which BMC they send driver_info/%s of node %s to. To set it, send each of these secrets again in the same request, or remove it.",
				field, strings.Join(kept, ", driver_info/"), n.UUID)
		}
		c.pins = true
		n.DriverInternalInfo = maps.Clone(n.DriverInternalInfo)
		if n.DriverInternalInfo == nil {
			n.DriverInternalInfo = map[string]any{}
		}
		n.DriverInternalInfo[node.PinnedSinceKey] = strconv.FormatInt(n.Revision+1, 10)
	}
	return nil
}
