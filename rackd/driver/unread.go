package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
)

// InstanceReader is implemented by interfaces that read instance_info.
type InstanceReader interface {
	// InstanceFields names the keys of instance_info that the interface acts on or refuses.
	InstanceFields() []string
}

// InstanceIgnorer is implemented by interfaces that do not act on all that they read of instance_info.
type InstanceIgnorer interface {
	// Ignored names keys of InstanceFields that have no effect for this node, each with the reason.
	Ignored(n *node.Document) map[string]string
}

// InfoIgnorer is implemented by interfaces that do not act on all that they read of driver_info.
type InfoIgnorer interface {
	// IgnoredInfo names keys of Properties that have no effect for this node, each with the reason.
	IgnoredInfo(n *node.Document) map[string]string
}

// What is not unread although no interface names it.
var (
	// readByCentral are the keys that central reads: of driver_info, to know a machine by the address of its BMC; of
	// instance_info, to choose deploy templates, to lend the node, to name the instance, and what central itself writes there.
	readByCentral = map[string][]string{
		"driver_info":   {"redfish_address", "ipmi_address"},
		"instance_info": {fieldBootMode, "traits", "project_id", "display_name", "image_type", "rescue_password"},
	}
	// chosen are the keys of instance_info with which clients say what they have chosen. They ask for nothing.
	chosen = []string{"root_gb", "local_gb", "vcpus", "memory_mb", "nova_host_id", "user_id", "flavor", "fixed_ips", "image_properties", "image_tags", "image_container_format"}
	// describing are the keys of properties that say what the machine is. Schedulers and inspections use them.
	describing = []string{"cpus", "cpu_arch", "memory_mb", "local_gb", "capabilities", "vendor", "manufacturer", "model", "product_name", "serial_number"}
	// usedProperties are the keys of properties that deploys and cleanings read.
	usedProperties = []string{"root_device", "skip_block_devices"}
	// usedCapabilities are the capabilities of an instance that deploys act on or refuse.
	usedCapabilities = []string{capBootMode, capBootOption, capSecureBoot, capTrustedBoot, "disk_label"}
)

// Unread says what of a node's free fields is kept for clients and has no effect with the node's interfaces: by the
// kind of interface that it would concern, empty where there is nothing.
func (h *Hardware) Unread(n *node.Document) map[string]string {
	said := map[string]string{}
	var management []string
	if text := notUsed("driver_info", n.DriverInfo, h.ignoredInfo(n), readByCentral["driver_info"]); text != "" {
		management = append(management, text)
	}
	if keys := h.unreadDriverInfo(n); len(keys) > 0 {
		management = append(management, "kept, and no interface of this node reads it: driver_info "+listed(keys))
	}
	if len(management) > 0 {
		said["management"] = strings.Join(management, ". ")
	}
	var parts []string
	add := func(field string, keys []string) {
		if len(keys) > 0 {
			parts = append(parts, field+" "+listed(keys))
		}
	}
	add("instance_info", h.unreadInstanceInfo(n))
	add("the capability", unmatched(n))
	add("properties", without(n.Properties, describing, usedProperties))
	if part := node.Unreadable(n.Properties["capabilities"]); part != "" {
		add("properties capabilities, of which each is to be name:value,", []string{part})
	}
	if len(n.NetworkData) > 0 && !h.MakesMedium(n) {
		said["network"] = "kept, and no interface of this node reads it: network_data, which the media of ramdisks alone bring to a machine (boot interface redfish-virtual-media without deploy_iso, redfish-https)"
	}
	var deploy []string
	if d, ignores := h.impls["deploy"].Impl.(InstanceIgnorer); ignores {
		if text := notUsed("instance_info", n.InstanceInfo, d.Ignored(n), chosen, readByCentral["instance_info"]); text != "" {
			deploy = append(deploy, text)
		}
	}
	if len(parts) > 0 {
		deploy = append(deploy, "kept, and no interface of this node reads it: "+strings.Join(parts, "; "))
	}
	if len(deploy) > 0 {
		said["deploy"] = strings.Join(deploy, ". ")
	}
	return said
}

// ignoredInfo are the keys of driver_info that have no effect for the node, each with the reason of the interface that reads it.
func (h *Hardware) ignoredInfo(n *node.Document) map[string]string {
	ignored := map[string]string{}
	for _, impl := range h.impls {
		if i, ignores := impl.Impl.(InfoIgnorer); ignores {
			maps.Copy(ignored, i.IgnoredInfo(n))
		}
	}
	return ignored
}

// notUsed says which keys of an object are there and have no effect, in groups of one reason. Those that others read are none of them.
func notUsed(field string, object map[string]any, ignored map[string]string, others ...[]string) string {
	given := map[string][]string{}
	for _, key := range without(object, others...) {
		if why, isIgnored := ignored[key]; isIgnored {
			given[why] = append(given[why], key)
		}
	}
	if len(given) == 0 {
		return ""
	}
	var groups []string
	for _, why := range slices.Sorted(maps.Keys(given)) {
		groups = append(groups, listed(given[why])+" ("+why+")")
	}
	return "kept, and not used: " + field + " " + strings.Join(groups, "; ")
}

// listed joins names for people. Tenants choose them, and an answer has only so much room.
func listed(names []string) string {
	const most = 10
	short := make([]string, 0, most+1)
	for i, name := range names {
		if i == most {
			short = append(short, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		short = append(short, fmt.Sprintf("%.60s", name))
	}
	return strings.Join(short, ", ")
}

// unreadDriverInfo are the keys of driver_info that none of the node's interfaces names in its Properties.
func (h *Hardware) unreadDriverInfo(n *node.Document) []string {
	var read []string
	for _, impl := range h.impls {
		read = slices.AppendSeq(read, maps.Keys(impl.Impl.Properties()))
	}
	return slices.DeleteFunc(without(n.DriverInfo, read, readByCentral["driver_info"]), func(key string) bool {
		return slices.ContainsFunc(read, func(pattern string) bool { return fits(pattern, key) })
	})
}

// fits reports whether a key is one of those that a pattern such as "fake_<step>_delay" stands for.
func fits(pattern, key string) bool {
	prefix, rest, found := strings.Cut(pattern, "<")
	_, suffix, closed := strings.Cut(rest, ">")
	return found && closed && len(key) > len(prefix)+len(suffix) && strings.HasPrefix(key, prefix) && strings.HasSuffix(key, suffix)
}

// unreadInstanceInfo are the keys of instance_info that no interface acts on or refuses.
func (h *Hardware) unreadInstanceInfo(n *node.Document) []string {
	read := []string{"capabilities"}
	for _, impl := range h.impls {
		if r, reads := impl.Impl.(InstanceReader); reads {
			read = append(read, r.InstanceFields()...)
		}
	}
	return without(n.InstanceInfo, read, chosen, readByCentral["instance_info"])
}

// unmatched are the capabilities that the instance asks for, that no interface reads and that the node does not have.
// Schedulers compare an instance's capabilities with the node's.
func unmatched(n *node.Document) []string {
	return slices.DeleteFunc(n.Wanted(), func(name string) bool { return slices.Contains(usedCapabilities, name) })
}

// without are the keys of an object that say something and are in none of the lists, in order.
func without(object map[string]any, lists ...[]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		v := object[key]
		if v == nil || v == "" || slices.ContainsFunc(lists, func(list []string) bool { return slices.Contains(list, key) }) {
			continue
		}
		keys = append(keys, key)
	}
	return keys
}
