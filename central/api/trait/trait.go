// Package trait knows the names of traits: the standard's, from a list, and those that a
// site makes up for itself, which begin with CUSTOM_.
//
// The list (standard.txt) is that of the os-traits library, one name a line: 2.9 whole,
// and what later releases added. A name that it lacks is refused, as Ironic refuses
// names that its library lacks.
//
// It imports the standard library only. Everything here is safe for concurrent use.
package trait

import (
	_ "embed"
	"regexp"
	"strings"
)

// MaxLength bounds a name.
const MaxLength = 255

//go:embed standard.txt
var list string

var standard = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.Lines(list) {
		names[strings.TrimSpace(name)] = true
	}
	return names
}()

var custom = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// Valid reports whether a trait may have the name.
func Valid(name string) bool {
	return len(name) <= MaxLength && (custom.MatchString(name) || standard[name])
}
