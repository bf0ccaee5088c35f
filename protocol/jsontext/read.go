package jsontext

import (
	"strings"
	"unicode/utf8"
)

// Numbers makes a value of a number, as it is written; false: it leaves that to others.
type Numbers func(text string) (any, bool)

// Read reads text as exactly one JSON value: nil, bool, string, map[string]any, []any, or what
// numbers returns. false: it is unusual, or no JSON. Strings are parts of text and keep it in
// memory. It goes as deep as text does: who reads what others have sent bounds that first.
func Read(text string, numbers Numbers) (any, bool) {
	r := reader{text, numbers}
	v, ok := r.value()
	return v, ok && r.next() == 0 && r.rest == ""
}

// ReadTexts reads an object of strings, as Read does.
func ReadTexts(text string) (map[string]string, bool) {
	r := reader{rest: text}
	m := map[string]string{}
	ok := r.next() == '{' && r.members(func(name string) bool {
		r.next()
		v, ok := r.text()
		m[name] = v
		return ok
	})
	return m, ok && r.next() == 0 && r.rest == ""
}

// reader reads JSON without escapes; its methods return ok false for whatever else they meet.
type reader struct {
	rest    string
	numbers Numbers
}

// next skips space and returns what begins behind it, 0 at the end.
func (r *reader) next() byte {
	for i := range len(r.rest) {
		switch c := r.rest[i]; c {
		case ' ', '\n', '\t', '\r':
		default:
			r.rest = r.rest[i:]
			return c
		}
	}
	r.rest = ""
	return 0
}

// skip skips space and c.
func (r *reader) skip(c byte) bool {
	if r.next() != c {
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
	if r.rest == "" || r.rest[0] != '"' {
		return "", false
	}
	ascii := true
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			s := r.rest[1:i]
			r.rest = r.rest[i+1:]
			return s, ascii || utf8.ValidString(s)
		case c == '\\' || c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// members calls value after each name of an object.
func (r *reader) members(value func(name string) bool) bool {
	r.skip('{')
	if r.skip('}') {
		return true
	}
	for {
		r.next()
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

// items calls item before each value of a list.
func (r *reader) items(item func() bool) bool {
	r.skip('[')
	if r.skip(']') {
		return true
	}
	for {
		if !item() {
			return false
		}
		if !r.skip(',') {
			return r.skip(']')
		}
	}
}

func (r *reader) list() ([]any, bool) {
	list := []any{}
	ok := r.items(func() bool {
		v, ok := r.value()
		list = append(list, v)
		return ok
	})
	return list, ok
}

func (r *reader) value() (any, bool) {
	switch r.next() {
	case 0:
		return nil, false
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

// number reads -?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?, RFC 8259, section 6.
func (r *reader) number() (any, bool) {
	text := r.rest
	r.rest = strings.TrimPrefix(r.rest, "-")
	if !r.word("0") && !r.digits() {
		return nil, false
	}
	if r.word(".") && !r.digits() {
		return nil, false
	}
	if r.word("e") || r.word("E") {
		if !r.word("-") {
			r.word("+")
		}
		if !r.digits() {
			return nil, false
		}
	}
	return r.numbers(text[:len(text)-len(r.rest)])
}

// digits skips digits, of which there must be some.
func (r *reader) digits() bool {
	rest := strings.TrimLeft(r.rest, "0123456789")
	some := len(rest) < len(r.rest)
	r.rest = rest
	return some
}
