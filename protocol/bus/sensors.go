package bus

// SensorSubject is where a rackd publishes what the sensors of a node tell, in Ironic's envelope, for whoever subscribes to
// NOTIFY.hardware.>. Group and node are part of it, so that permissions hold what a rackd may tell of. Messages are kept
// nowhere.
func SensorSubject(driver, group, node string) string {
	return NotificationSubject("hardware." + driver + ".metrics." + NodeKey(group, node))
}
