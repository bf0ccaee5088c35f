package bus

// SensorSubject is where a rackd publishes what the sensors of a node tell, in Ironic's envelope. Programs subscribe to
// NOTIFY.hardware.>. Group and node are part of the subject, so that permissions bound what a rackd may tell of. No message is
// kept.
func SensorSubject(driver, group, node string) string {
	return NotificationSubject("hardware." + driver + ".metrics." + NodeKey(group, node))
}
