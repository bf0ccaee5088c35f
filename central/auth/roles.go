package auth

import (
	"slices"
	"strings"
)

// implies says which role comes with which, as Keystone sets them up.
var implies = map[string]string{"admin": "manager", "manager": "member", "member": "reader"}

// implied adds the roles that come with others, in lower case.
func implied(roles []string) []string {
	var all []string
	for _, role := range roles {
		for role = strings.ToLower(role); role != "" && !slices.Contains(all, role); role = implies[role] {
			all = append(all, role)
		}
	}
	return all
}

func lower(roles []string) []string {
	all := make([]string, len(roles))
	for i, role := range roles {
		all[i] = strings.ToLower(role)
	}
	return all
}
