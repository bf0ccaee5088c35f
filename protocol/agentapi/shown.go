package agentapi

import (
	"net/url"
	"strings"
)

// What agents read of their node: ironic-python-agent's, by the names of the fields. Everything else
// of a node is not told to a caller without an account.
var (
	shownProperties = []string{"root_device", "skip_block_devices", "capabilities", "cpu_arch"}
	shownInstance   = []string{"root_device", "skip_block_devices", "capabilities", "deploy_boot_mode", "image_type", "traits"}
)

// Shown is what a lookup tells of a node. Texts that are URLs lose user and query, which may
// be credentials.
func Shown(uuid string, properties, instance map[string]any) LookupNode {
	return LookupNode{UUID: uuid, Properties: only(properties, shownProperties), InstanceInfo: only(instance, shownInstance), DriverInternalInfo: map[string]any{}}
}

func only(fields map[string]any, names []string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if v, ok := fields[name]; ok {
			out[name] = plain(v)
		}
	}
	return out
}

// plain returns v without what may be credentials in URLs.
func plain(v any) any {
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "//") {
			return v // no host, so no credentials
		}
		if u, err := url.Parse(v); err == nil && u.Host != "" {
			u.User, u.RawQuery, u.Fragment = nil, "", ""
			return u.String()
		}
	case map[string]any:
		out := map[string]any{}
		for name, inner := range v {
			out[name] = plain(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = plain(inner)
		}
		return out
	}
	return v
}
