package wire

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/api/microversion"
)

// UUID returns s in its canonical form; ok is false when it does not look like a
// UUID. Ironic also takes one without hyphens, or within braces.
func UUID(s string) (canonical string, ok bool) {
	if len(s) != 36 && len(s) != 32 && len(s) != 38 {
		return "", false
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return "", false
	}
	return id.String(), true
}

var (
	unreserved = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)
	hostLabel  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// NameSince is the version that brought names of nodes.
const NameSince microversion.Version = 5

// ReservedNames are the words that stand where the name of a node could.
var ReservedNames = []string{"maintenance", "management", "states", "vendor_passthru", "detail", "validate"}

// NodeParts are the words for what lies below a node: one that bore such a name could not be asked for.
var NodeParts = []string{"ports", "portgroups", "traits", "vifs", "bios", "volume", "allocation", "history", "inventory", "firmware", "children", "vmedia"}

// ValidName reports whether a node may bear the name in that version.
func ValidName(name string, v microversion.Version) bool {
	if name == "" || len(name) > 255 || slices.Contains(ReservedNames, name) || slices.Contains(NodeParts, name) {
		return false
	}
	if _, looksLike := UUID(name); looksLike {
		return false
	}
	if v >= 10 {
		return unreserved.MatchString(name)
	}
	for label := range strings.SplitSeq(name, ".") {
		if !hostLabel.MatchString(label) {
			return false
		}
	}
	return true
}

var mac = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// MAC returns s in lower case; ok is false when it is no MAC address.
func MAC(s string) (canonical string, ok bool) {
	m := strings.ToLower(s)
	return m, mac.MatchString(m)
}

// Logical reports whether a request may call something by the name: also by one that
// nothing can have, which is then not found.
func Logical(name string) bool { return len(name) <= 255 && unreserved.MatchString(name) }

// BoolWords are the words that mean yes or no, for errors.
const BoolWords = "'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'"

// Bool reads one of the words that mean yes or no.
func Bool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}
