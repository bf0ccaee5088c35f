package wire

import (
	"github.com/ironyard/ironyard/central/notation"
	"github.com/ironyard/ironyard/protocol/seal"
)

// longestRepr bounds how much of a value an answer repeats.
const longestRepr = 400

// Repr shows a value of a request as Ironic's answers do. What is long is cut, and what is
// secret by its name is masked: the answer is written to the log and the audit too.
func Repr(v any) string { return notation.Short(v, masked, longestRepr) }

func masked(name string, v any) any {
	if seal.IsSecret(name) && v != nil {
		return "******"
	}
	return v
}
