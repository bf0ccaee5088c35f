package inspection

import (
	"fmt"
	"strings"

	"github.com/ironyard/ironyard/central/notation"
)

// FormError says that a condition or action has not the form that they all have, in the words
// of Ironic's schema. What is wrong with the arguments of one is another error.
type FormError struct {
	Where string // "condition 1"
	Text  string
}

// Error is where and what.
func (e *FormError) Error() string { return e.Where + ": " + e.Text }

func misshapen(format string, args ...any) error {
	return &FormError{Text: fmt.Sprintf(format, args...)}
}

// operatorNames and actionNames are all there are, in the order in which errors list them.
var (
	operatorNames = withNot("eq", "lt", "gt", "is-empty", "in-net", "matches", "contains", "one-of", "is-none", "is-true", "is-false")
	actionNames   = []string{"fail", "log", "set-attribute", "extend-attribute", "del-attribute", "set-capability", "unset-capability",
		"add-trait", "remove-trait", "set-plugin-data", "extend-plugin-data", "unset-plugin-data", "set-port-attribute",
		"extend-port-attribute", "del-port-attribute", "api-call"}
	multiples = []string{"any", "all", "first", "last"}
)

// withNot adds the negated form of each.
func withNot(names ...string) []string {
	all := names
	for _, name := range names {
		all = append(all, "!"+name)
	}
	return all
}

// notOneOf refuses a word.
func notOneOf(word any, words []string) error {
	return misshapen("%s is not one of ['%s']", repr(word), strings.Join(words, "', '"))
}

// repr shows a value of a rule as Ironic's errors do, cut where it is long.
func repr(v any) string {
	return notation.Short(v, func(_ string, v any) any { return v }, 80)
}
