package node

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Capability returns one of properties.capabilities ("a:b,c:d", or an object), as
// overridden by instance_info.capabilities.
func (d *Document) Capability(key string) string {
	for _, caps := range []any{d.InstanceInfo["capabilities"], d.Properties["capabilities"]} {
		if v, ok := capabilities(caps)[key]; ok {
			return v
		}
	}
	return ""
}

// InstanceCapability returns one of instance_info.capabilities alone: what the instance asks for. The node's own ones
// say what the machine can do.
func (d *Document) InstanceCapability(key string) string {
	return capabilities(d.InstanceInfo["capabilities"])[key]
}

// NodeCapability returns one of properties.capabilities alone: what the machine can do, and how its operator wants it.
func (d *Document) NodeCapability(key string) string {
	return capabilities(d.Properties["capabilities"])[key]
}

// Wanted returns the capabilities that the instance asks for and the node does not have, sorted by name.
func (d *Document) Wanted() []string {
	wants, has := capabilities(d.InstanceInfo["capabilities"]), capabilities(d.Properties["capabilities"])
	maps.DeleteFunc(wants, func(name, value string) bool { return has[name] == value })
	return slices.Sorted(maps.Keys(wants))
}

// Unreadable returns the part of a list of capabilities that says none or says one again, empty where there is no such part.
func Unreadable(list any) string {
	switch c := list.(type) {
	case nil, map[string]any:
	case string:
		if text := strings.TrimSpace(c); strings.HasPrefix(text, "{") {
			if json.Unmarshal([]byte(text), &map[string]any{}) != nil {
				return c
			}
			return ""
		}
		seen := map[string]bool{}
		for pair := range strings.SplitSeq(c, ",") {
			if pair = strings.TrimSpace(pair); pair == "" {
				continue
			}
			name, _, ok := strings.Cut(pair, ":")
			name = strings.TrimSpace(name)
			if !ok || name == "" {
				return pair
			}
			if seen[name] {
				return pair + " (" + name + " is there twice)"
			}
			seen[name] = true
		}
	default:
		raw, _ := json.Marshal(c) // it was read from JSON
		return string(raw)
	}
	return ""
}

// capabilities reads a list of capabilities; of one that is there twice the first counts.
func capabilities(list any) map[string]string {
	all := map[string]string{}
	switch c := list.(type) {
	case map[string]any:
		for name, v := range c {
			all[name] = text(v)
		}
	case string:
		var object map[string]any
		if json.Unmarshal([]byte(c), &object) == nil {
			return capabilities(object)
		}
		for pair := range strings.SplitSeq(c, ",") {
			name, value, ok := strings.Cut(pair, ":")
			name = strings.TrimSpace(name)
			if _, twice := all[name]; ok && !twice {
				all[name] = strings.TrimSpace(value)
			}
		}
	}
	return all
}
