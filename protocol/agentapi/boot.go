package agentapi

import (
	"net/url"
	"strings"
)

// bootPrefix begins the paths that carry the id of a boot, in front of the API's own: agents
// put the API's paths behind the URL that the boot script gives them.
const bootPrefix = "/boot/"

// WithBoot returns the base URL of an API with the id of a boot in its path.
func WithBoot(base, id string) string {
	if id == "" {
		return base
	}
	return strings.TrimRight(base, "/") + bootPrefix + url.PathEscape(id)
}

// CutBoot takes the id of a boot off the path of a request; id is empty where there is none.
func CutBoot(path string) (id, rest string) {
	after, _ := strings.CutPrefix(path, bootPrefix)
	if id, rest, _ = strings.Cut(after, "/"); after == path || id == "" {
		return "", path
	}
	return id, "/" + rest
}

// A ramdisk whose kernel has no boot script's parameters asks a rackd for them.
const (
	// BootServerDHCP in ParamBootServer: DHCP tells the URL, as the boot file of clients of BootClass.
	BootServerDHCP = "dhcp"
	// BootClass is such an agent's vendor class in DHCP.
	BootClass = "IronyardAgent"
	// ParametersPath is where a rackd's web server answers with the parameters of a machine, by ParametersMAC. They
	// are words as on a kernel's command line.
	ParametersPath = "/boot/parameters"
	ParametersMAC  = "mac"
)

// Query fields of a lookup by which an agent says on which machine it runs; APIs that do not
// know them pass over them.
const (
	QuerySystemUUID   = "ironyard_system_uuid"
	QuerySystemSerial = "ironyard_system_serial"
)
