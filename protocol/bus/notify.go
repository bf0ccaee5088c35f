package bus

// ChangesHint is where replicas of central tell each other that changes were numbered.
// It has no content and is kept nowhere.
const ChangesHint = "CENTRAL.changes"

// NotificationSubject is where central publishes Ironic's notifications for whoever
// subscribes, such as NOTIFY.baremetal.node.provision_set.end. They are kept nowhere:
// who must miss none follows the API's stream.
func NotificationSubject(event string) string { return "NOTIFY." + event }
