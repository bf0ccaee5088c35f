package store

import (
	"encoding/json"
	"strconv"

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

// encode is the text of an object column.
func encode(v any) (string, error) {
	b, err := jsontext.Append(make([]byte, 0, 512), v, func(b []byte, v any) ([]byte, error) {
		text, err := json.Marshal(v)
		return append(b, text...), err
	})
	return string(b), err
}
