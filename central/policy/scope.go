package policy

import "strings"

// systemOnly are the rules that nobody passes who acts in a project, whatever they say: what
// they are about belongs to the installation. They are those that Ironic registers for the
// system's scope alone, so that its policy files mean the same here.
var systemOnly = map[string]bool{
	"baremetal:chassis:get": true, "baremetal:chassis:create": true, "baremetal:chassis:update": true, "baremetal:chassis:delete": true,
	"baremetal:driver:get": true, "baremetal:driver:get_properties": true, "baremetal:driver:get_raid_logical_disk_properties": true,
	"baremetal:driver:vendor_passthru": true, "baremetal:events:post": true, "baremetal:node:update_owner_provisioned": true,
}

// inScope reports whether a rule is for callers of the view's scope at all. Who acts neither on the
// system nor in a project, as with a token for a domain, passes none of Ironic's rules but those for everybody.
func (v *View) inScope(name string) bool {
	switch {
	case v.caller.System || forEverybody[name] || !strings.HasPrefix(name, "baremetal:"):
		return true
	case v.caller.Project == "":
		return false
	}
	return !systemOnly[name]
}
