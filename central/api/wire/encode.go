package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendValue appends v as JSON. A zero time is null, an empty map {} and an empty
// list []. The types that resources are made of need no reflection.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return AppendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case time.Time:
		return AppendTime(b, v)
	case []string:
		b = append(b, '[')
		for i, s := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendString(b, s)
		}
		return append(b, ']')
	case map[string]any:
		return appendObject(b, v)
	case []any:
		b = append(b, '[')
		for i, inner := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = AppendValue(b, inner)
		}
		return append(b, ']')
	case float64:
		if i := int64(v); float64(i) == v && i > -1e15 && i < 1e15 && !(i == 0 && math.Signbit(v)) {
			return strconv.AppendInt(b, i, 10)
		}
	case json.RawMessage:
		if len(v) == 0 {
			return append(b, "null"...)
		}
		return append(b, v...)
	}
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // only for what JSON cannot hold, which no resource has
		return append(b, "null"...)
	}
	return append(b, bytes.TrimRight(w.Bytes(), "\n")...)
}

// AppendTime appends a moment in UTC, to the microsecond where it has any; null for the
// zero time.
func AppendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendDigits(append(b, '"'), year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	if micros := t.Nanosecond() / 1000; micros > 0 {
		b = appendDigits(append(b, '.'), micros, 6)
	}
	return append(b, `+00:00"`...)
}

func appendDigits(b []byte, n, width int) []byte {
	b = append(b, "000000"[:width]...)
	for i := range width {
		b[len(b)-1-i] += byte(n % 10)
		n /= 10
	}
	return b
}

// appendObject appends m with its names in order, as encoding/json has them.
func appendObject(b []byte, m map[string]any) []byte {
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
		b = AppendValue(append(AppendString(b, name), ':'), m[name])
	}
	return append(b, '}')
}

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte {
	if !plain(s) {
		quoted, _ := json.Marshal(s) // strings always marshal
		return append(b, quoted...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
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

// AppendName appends ,"name": or, right after an opening brace, "name":.
func AppendName(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}
