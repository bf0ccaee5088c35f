package fields

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// longestRepr bounds how much of a value an answer repeats.
const longestRepr = 400

// Repr shows a JSON value as Ironic's answers do, which clients compare: 'text', None, True,
// [1, 2]. What is long is cut.
func Repr(v any) string {
	text := repr(v, longestRepr)
	if len(text) > longestRepr {
		return strings.ToValidUTF8(text[:longestRepr], "") + "…"
	}
	return text
}

// repr writes at least the first room bytes of v.
func repr(v any, room int) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + v[:min(len(v), room)] + closing(v, room)
	case json.Number:
		return string(v)
	case []any:
		return "[" + listed(v, room, func(item any, room int) string { return repr(item, room) }) + "]"
	case map[string]any:
		return "{" + listed(sortedKeys(v), room, func(name string, room int) string { return repr(name, room) + ": " + repr(v[name], room) }) + "}"
	}
	return fmt.Sprint(v)
}

// closing is the quote behind a text that is there to its end.
func closing(v string, room int) string {
	if len(v) > room {
		return ""
	}
	return "'"
}

func listed[E any](items []E, room int, show func(E, int) string) string {
	var b strings.Builder
	for i, item := range slices.All(items) {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > room {
			break
		}
		b.WriteString(show(item, room-b.Len()))
	}
	return b.String()
}
