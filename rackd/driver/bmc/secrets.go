package bmc

import (
	"slices"

	"github.com/ironyard/ironyard/protocol/seal"
)

// shortestSecret is the shortest value that is hidden, in bytes: hiding a letter would hide where it stands.
const shortestSecret = 4

// Told is what a BMC tells by itself, as in its log or in an event, fit to show. The secrets of the driver_info are taken out in whatever
// form, since a BMC may quote a request that it was sent. So is what lets a reader in where its URLs lead.
func Told(driverInfo map[string]any, text string) string {
	hidden := secretsOf(driverInfo)
	slices.SortFunc(hidden, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	for _, s := range hidden {
		text = Without(text, s)
	}
	return WithoutAccess(text)
}

// secretsOf are the secrets in driver_info, however deep.
func secretsOf(fields map[string]any) (list []string) {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			list = append(list, secretsOf(v)...)
		case string:
			if seal.IsSecret(name) && len(v) >= shortestSecret {
				list = append(list, v)
			}
		}
	}
	return list
}
