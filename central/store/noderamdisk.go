package store

// ToldOfRamdisk reports whether a service of n may have booted the ramdisk, by the list of its steps that racks told of: the step
// that was told of last, or one before it, needs that. The step that runs may need none, and between two steps there is none.
func (n *Node) ToldOfRamdisk() bool {
	steps, _ := n.DriverInternalInfo["service_steps"].([]any)
	at, _ := n.DriverInternalInfo["service_step_index"].(float64)
	for i, s := range steps {
		step, _ := s.(map[string]any)
		if needs, _ := step["requires_ramdisk"].(bool); needs && float64(i) <= at {
			return true
		}
	}
	return false
}
