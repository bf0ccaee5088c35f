package store

import (
	"encoding/json"
	"strconv"
	"strings"
)

// decodeObject reads the text of an object column. Nearly all of them are what
// encoding/json made of short texts and numbers, and reading those is most of what
// listing nodes costs: they are read here, their strings being parts of text. Whatever
// is unusual goes to encoding/json.
func decodeObject(text string) (map[string]any, error) {
	r := reader{rest: text}
	if m, ok := r.object(); ok && r.rest == "" {
		return m, nil
	}
	var m map[string]any
	return m, json.Unmarshal([]byte(text), &m)
}

// decodeTexts is decodeObject for an object of strings.
func decodeTexts(text string) (map[string]string, error) {
	r := reader{rest: text}
	if m, ok := r.texts(); ok && r.rest == "" {
		return m, nil
	}
	var m map[string]string
	return m, json.Unmarshal([]byte(text), &m)
}

// reader reads JSON without spaces and escapes; its methods return ok false for
// whatever else they meet.
type reader struct{ rest string }

func (r *reader) skip(c byte) bool {
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *reader) word(w string) bool {
	rest, ok := strings.CutPrefix(r.rest, w)
	if ok {
		r.rest = rest
	}
	return ok
}

func (r *reader) text() (string, bool) {
	if !r.skip('"') {
		return "", false
	}
	for i := range len(r.rest) {
		switch c := r.rest[i]; {
		case c == '"':
			s := r.rest[:i]
			r.rest = r.rest[i+1:]
			return s, true
		case c == '\\' || c < ' ':
			return "", false
		}
	}
	return "", false
}

// members calls value after each name of an object.
func (r *reader) members(value func(name string) bool) bool {
	if !r.skip('{') {
		return false
	}
	if r.skip('}') {
		return true
	}
	for {
		name, ok := r.text()
		if !ok || !r.skip(':') || !value(name) {
			return false
		}
		if !r.skip(',') {
			return r.skip('}')
		}
	}
}

func (r *reader) object() (map[string]any, bool) {
	m := map[string]any{}
	ok := r.members(func(name string) bool {
		v, ok := r.value()
		m[name] = v
		return ok
	})
	return m, ok
}

func (r *reader) texts() (map[string]string, bool) {
	m := map[string]string{}
	ok := r.members(func(name string) bool {
		v, ok := r.text()
		m[name] = v
		return ok
	})
	return m, ok
}

func (r *reader) value() (any, bool) {
	if r.rest == "" {
		return nil, false
	}
	switch r.rest[0] {
	case '"':
		return r.text()
	case '{':
		return r.object()
	case '[':
		return r.list()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	return r.number()
}

func (r *reader) list() (any, bool) {
	r.skip('[')
	list := []any{}
	if r.skip(']') {
		return list, true
	}
	for {
		v, ok := r.value()
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if !r.skip(',') {
			return list, r.skip(']')
		}
	}
}

func (r *reader) number() (any, bool) {
	end := 0
	for end < len(r.rest) && strings.IndexByte("-+.eE0123456789", r.rest[end]) >= 0 {
		end++
	}
	f, err := strconv.ParseFloat(r.rest[:end], 64)
	r.rest = r.rest[end:]
	return f, err == nil
}
