package jsontext

import "strings"

// deepest bounds how deep Members and Items look: what is deeper is unusual.
const deepest = 100

// Members calls value for each member of the object that text is, with the value as it is written; it makes nothing of it, and calls
// for a name that comes twice twice. Both are parts of text and keep it in memory. false: value said so, or text is unusual or no
// JSON; value may have been called by then. A name is usual if it is of small ASCII letters, digits and underscores, since
// encoding/json takes others for them.
func Members(text string, value func(name, raw string) bool) bool {
	r := reader{rest: text, numbers: unread}
	ok := r.next() == '{' && r.members(func(name string) bool {
		raw, ok := r.raw()
		return ok && small(name) && value(name, raw)
	})
	return ok && r.next() == 0 && r.rest == ""
}

// Items calls item for each value of the list that text is, as Members does.
func Items(text string, item func(raw string) bool) bool {
	r := reader{rest: text, numbers: unread}
	ok := r.next() == '[' && r.items(func() bool {
		raw, ok := r.raw()
		return ok && item(raw)
	})
	return ok && r.next() == 0 && r.rest == ""
}

// Text reads a value that is a string, as Read does.
func Text(raw string) (string, bool) {
	r := reader{rest: raw}
	s, ok := r.text()
	return s, ok && r.rest == ""
}

func unread(string) (any, bool) { return nil, true }

// raw skips a value and returns it as it is written.
func (r *reader) raw() (string, bool) {
	r.next()
	text := r.rest
	ok := r.pass(deepest)
	return text[:len(text)-len(r.rest)], ok
}

// pass skips a value that is no deeper than deep.
func (r *reader) pass(deep int) bool {
	switch c := r.next(); {
	case deep == 0:
		return false
	case c == '{':
		return r.members(func(string) bool { return r.pass(deep - 1) })
	case c == '[':
		return r.items(func() bool { return r.pass(deep - 1) })
	case c == '"':
		_, ok := r.text() // as a value it would be copied
		return ok
	}
	_, ok := r.value()
	return ok
}

func small(name string) bool {
	return strings.IndexFunc(name, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }) < 0
}
