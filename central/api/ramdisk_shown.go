package api

import (
	"net/url"
	"regexp"
)

// agentReads are the fields of instance_info that an agent reads of the answer to a lookup: which disk
// to use and how the machine boots. The rest comes with the command that needs it, from the rackd that
// knows the agent.
var agentReads = []string{"root_device", "capabilities", "deploy_boot_mode", "image_type", "traits"}

// shownInstance is what a caller without an account is shown of instance_info.
func shownInstance(info map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range agentReads {
		if v, there := info[name]; there {
			out[name] = v
		}
	}
	return shownToStrangers(out)
}

// shownToStrangers returns fields without secrets, and with addresses that hold neither user info nor a
// query, which may be a signature.
func shownToStrangers(fields map[string]any) map[string]any {
	out, _ := withoutCredentials(mask(fields)).(map[string]any)
	return out
}

// addressIn finds the addresses in a text.
var addressIn = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

func withoutCredentials(v any) any {
	switch v := v.(type) {
	case string:
		return addressIn.ReplaceAllStringFunc(v, bareAddress)
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = withoutCredentials(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = withoutCredentials(inner)
		}
		return out
	}
	return v
}

// bareAddress is an address without user info, query and fragment; hidden, where it cannot be read.
func bareAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return hidden
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
