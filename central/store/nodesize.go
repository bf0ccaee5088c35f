package store

import "fmt"

// maxDocument bounds what a node's rack is told of it, in bytes: a message of the bus holds 1 MiB,
// of which ports, traits and what the rack itself wants to be kept need a part.
const maxDocument = 960 << 10

// CheckSize refuses a node that its rack could not be told of: whatever were asked of the node
// then would wait for ever. Secrets and config drives must have been put away.
func (n *Node) CheckSize() error {
	size := weigh(n.DriverInfo) + weigh(n.InstanceInfo) + weigh(n.Properties) + weigh(n.TargetRAIDConfig)
	if size <= maxDocument {
		return nil
	}
	return fmt.Errorf("driver_info, instance_info, properties and target_raid_config of node %s would take some %d bytes together, "+
		"more than the %d that a rack can be sent; what is for clients only belongs in extra", n.UUID, size, maxDocument)
}

// weigh says how many bytes a JSON value takes in a node document, or a few more: nothing is
// escaped there.
func weigh(value any) int {
	const around = 8 // the kind and the length, or a number
	weight := around
	switch value := value.(type) {
	case string:
		weight += len(value)
	case []any:
		for _, item := range value {
			weight += weigh(item)
		}
	case map[string]any:
		for key, item := range value {
			weight += len(key) + weigh(item)
		}
	}
	return weight
}
