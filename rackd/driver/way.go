package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

// besideTheWay are parts of the names of fields of driver_info that do not decide which BMC is reached: how it is logged in to and
// trusted, and what the machine boots. A field with another name may decide it.
var besideTheWay = []string{"username", "_user", "verify_ca", "ca_file", "client_cert", "host_key", "key_file", "auth", "security", "priv_", "cipher",
	"algorithm", "_version", "timeout", "identity", "terminal", "console", "shared_cli", "sensor_method", "force_", "headless",
	"kernel", "ramdisk", "_iso", "bootloader", "external_http_url", "config_via", "image_", "ansible_", "ironyard_", "_delay", "_fail", "_unreachable", "fake_health"}

// LeadsToBMC reports whether a field of driver_info may decide which BMC a node is reached by.
func LeadsToBMC(field string) bool {
	field = strings.ToLower(field)
	return !seal.IsSecret(field) && !slices.ContainsFunc(besideTheWay, func(part string) bool { return strings.Contains(field, part) })
}

// WayToBMC changes with the fields of driver_info that lead to the node's BMC. It tells none of them, and no credentials are in it.
func WayToBMC(n *node.Document) string {
	sum := sha256.New()
	for _, field := range slices.Sorted(maps.Keys(n.DriverInfo)) {
		if value := strings.TrimSpace(n.DriverString(field)); value != "" && LeadsToBMC(field) {
			sum.Write([]byte(field + "\x00" + value + "\x00"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
