package store

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/ironyard/ironyard/protocol/jsontext"
)

// decodeObject reads the text of an object column.
func decodeObject(text string) (map[string]any, error) {
	if v, ok := jsontext.Read(text, number); ok {
		if m, ok := v.(map[string]any); ok {
			return m, nil
		}
	}
	var m map[string]any
	return m, json.Unmarshal([]byte(text), &m)
}

// decodeTexts is decodeObject for an object of strings.
func decodeTexts(text string) (map[string]string, error) {
	if m, ok := jsontext.ReadTexts(text); ok {
		return m, nil
	}
	var m map[string]string
	return m, json.Unmarshal([]byte(text), &m)
}

func number(text string) (any, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// encodeMap is the text of an object column; empty for an object without members.
func encodeMap[V any](m map[string]V) (string, error) {
	if len(m) == 0 {
		return "", nil
	}
	room := encoded.Get().(*[]byte)
	defer encoded.Put(room)
	b, err := jsontext.Append((*room)[:0], m, func(b []byte, v any) ([]byte, error) {
		text, err := json.Marshal(v)
		return append(b, text...), err
	})
	if *room = b; cap(b) > maxEncoded {
		*room = nil // few are so long
	}
	return string(b), err
}

const maxEncoded = 16 << 10

var encoded = sync.Pool{New: func() any { return new([]byte) }}
