package jsontext

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Other appends a value that Append does not know.
type Other func(b []byte, v any) ([]byte, error)

// Append appends v much as encoding/json writes it, names in their order; <, > and & mostly
// stand for themselves. Nil maps and lists are empty ones. It fails where other does, which
// gets whatever is not of the types below.
func Append(b []byte, v any, other Other) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		return AppendString(b, v), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case json.Number:
		if v != "" && validNumber(string(v)) {
			return append(b, v...), nil
		}
	case float64:
		if i := int64(v); float64(i) == v && i > -1e15 && i < 1e15 && !(i == 0 && math.Signbit(v)) {
			return strconv.AppendInt(b, i, 10), nil
		}
	case map[string]any:
		return appendObject(b, v, func(b []byte, inner any) ([]byte, error) { return Append(b, inner, other) })
	case map[string]string:
		return appendObject(b, v, func(b []byte, inner string) ([]byte, error) { return AppendString(b, inner), nil })
	case []any:
		return appendList(b, v, func(b []byte, inner any) ([]byte, error) { return Append(b, inner, other) })
	case []string:
		return appendList(b, v, func(b []byte, inner string) ([]byte, error) { return AppendString(b, inner), nil })
	}
	return other(b, v)
}

func appendObject[V any](b []byte, m map[string]V, put func([]byte, V) ([]byte, error)) (_ []byte, err error) {
	var few [16]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = put(append(AppendString(b, name), ':'), m[name]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

func appendList[V any](b []byte, list []V, put func([]byte, V) ([]byte, error)) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = put(b, v); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// AppendString appends s as a JSON string. What is no UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	return append(AppendBare(append(b, '"'), s), '"')
}

// AppendBare appends s as a part of a JSON string, without quotes.
func AppendBare(b []byte, s string) []byte {
	if plain(s) {
		return append(b, s...)
	}
	quoted, _ := json.Marshal(s) // strings always marshal
	return append(b, quoted[1:len(quoted)-1]...)
}

// plain reports whether s stands for itself in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func validNumber(text string) bool {
	r := reader{rest: text, numbers: func(string) (any, bool) { return nil, true }}
	_, ok := r.number()
	return ok && r.rest == ""
}
