package wire

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/ironyard/ironyard/protocol/jsontext"
)

// Members are those of a JSON object in their order: each name, a string, before its value.
type Members []any

// AppendValue appends v as JSON. A zero time is null, an empty map {} and an empty
// list []. The types that resources are made of need no reflection.
func AppendValue(b []byte, v any) []byte {
	b, _ = jsontext.Append(b, v, appendOther) // which never fails
	return b
}

// appendOther appends what takes more than jsontext knows.
func appendOther(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case time.Time:
		return AppendTime(b, v), nil
	case Members:
		b = append(b, '{')
		for i := 1; i < len(v); i += 2 {
			name, _ := v[i-1].(string)
			b = AppendValue(AppendName(b, name), v[i])
		}
		return append(b, '}'), nil
	case json.RawMessage:
		if len(v) == 0 {
			return append(b, "null"...), nil
		}
		return append(b, v...), nil
	}
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // only for what JSON cannot hold, which no resource has
		return append(b, "null"...), nil
	}
	return append(b, bytes.TrimRight(w.Bytes(), "\n")...), nil
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

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte { return jsontext.AppendString(b, s) }

// AppendName appends ,"name": or, right after an opening brace, "name":.
func AppendName(b []byte, name string) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}
