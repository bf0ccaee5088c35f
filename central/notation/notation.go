// Package notation writes JSON values as Python does ('text', None, True, [1, 2]), which is
// how Ironic's texts show them: clients compare some, and rules put values into texts.
//
// It imports nothing of the project. Its functions are safe for concurrent use.
package notation

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Seen is how a value is shown under its name in an object.
type Seen func(name string, v any) any

// Of writes the whole of a value.
func Of(v any, seen Seen) string { return write(v, seen, math.MaxInt) }

// Short writes the first room bytes of a value, or a little less, and of a longer one "…"
// behind them. What it costs is bounded by room, however large the value is.
func Short(v any, seen Seen, room int) string {
	text := write(v, seen, room)
	if len(text) > room {
		return strings.ToValidUTF8(text[:room], "") + "…"
	}
	return text
}

// write writes at least the first room bytes of v.
func write(v any, seen Seen, room int) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return quote(v, room)
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		return "[" + join(v, room, func(item any, room int) string { return write(item, seen, room) }) + "]"
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		return "{" + join(names, room, func(name string, room int) string {
			return quote(name, room) + ": " + write(seen(name, v[name]), seen, room)
		}) + "}"
	}
	return fmt.Sprint(v)
}

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`)

// quote puts a text between quotes; one that is cut has none at its end.
func quote(v string, room int) string {
	if len(v) > room {
		return "'" + escapes.Replace(v[:room])
	}
	return "'" + escapes.Replace(v) + "'"
}

func join[E any](items []E, room int, show func(E, int) string) string {
	var b strings.Builder
	for i, item := range items {
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
