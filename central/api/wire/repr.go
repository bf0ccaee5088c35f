package wire

import (
	"regexp"

	"github.com/ironyard/ironyard/central/notation"
	"github.com/ironyard/ironyard/protocol/seal"
)

// longestRepr bounds how much of a value an answer repeats.
const longestRepr = 400

// Repr shows a value of a request as Ironic's answers do. What is long is cut, and what is
// secret by its name is masked, also in a text that says "name=value": the answer is written to the log and the audit too.
func Repr(v any) string {
	if text, isText := v.(string); isText {
		v = seal.MaskAddresses(text, unassigned(text), "******") // of what its own text names
	}
	return notation.Short(v, masked, longestRepr)
}

// ReprOf is Repr of what a request says under a name.
func ReprOf(name string, v any) string { return Repr(masked(name, v)) }

// assignment is a name in a text with what follows it.
var assignment = regexp.MustCompile(`[\w.-]+["']?\s*[=:]`)

// unassigned cuts a text behind the first name of a secret that it gives a value to.
func unassigned(text string) string {
	for _, at := range assignment.FindAllStringIndex(text[:min(len(text), longestRepr)], -1) {
		if seal.IsSecret(text[at[0]:at[1]]) && at[1] < len(text) {
			return text[:at[1]] + "******"
		}
	}
	return text
}

func masked(name string, v any) any {
	if seal.IsSecret(name) && v != nil {
		return "******"
	}
	switch v := v.(type) {
	case string:
		return seal.MaskAddresses(name, v, "******")
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = masked(name, v[i])
		}
		return list
	}
	return v
}
