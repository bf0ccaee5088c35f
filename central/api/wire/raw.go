package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// Raw is JSON that was looked through and not decoded: what a caller who is not known has sent, of which little is
// read. As values in memory it would take many times its length.
type Raw []byte

// What values take in memory, roughly and at their worst: an object with its first members, and any other value
// with its place in a list or an object.
const (
	objectCost = 400
	valueCost  = 100
)

// Survey returns a body, and roughly what it would take in memory as values. It refuses what Object refuses, and
// more than so many values, names counted. An empty body is an empty object.
func Survey(body []byte, values int) (raw Raw, cost int64, err error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	switch {
	case len(body) == 0:
		return Raw("{}"), 0, nil
	case depth(body) > MaxDepth:
		return nil, 0, tooDeep()
	case !utf8.Valid(body):
		return nil, 0, notUTF8()
	}
	if !json.Valid(body) {
		var none struct{}
		return nil, 0, Invalid("The request's body is not valid JSON: %v", json.Unmarshal(body, &none))
	}
	if body[0] != '{' {
		return nil, 0, Invalid("The request's body must be a JSON object")
	}
	cost, err = weigh(body, values)
	return Raw(body), cost, err
}

// Check refuses what Decode refuses, without decoding it.
func Check(raw Raw) error {
	if !json.Valid(raw) {
		var none struct{}
		return Invalid("The request's body is not valid JSON: %v", json.Unmarshal(raw, &none))
	}
	_, err := weigh(raw, math.MaxInt)
	return err
}

// weigh counts the values of valid JSON, and looks whether they could be stored.
func weigh(body []byte, most int) (cost int64, err error) {
	values := 0
	for i := 0; i < len(body); {
		c := body[i]
		end := i + 1
		switch {
		case c == '{':
			cost += objectCost
		case c == '[':
			cost += valueCost
		case c == '"':
			end = afterText(body, i)
			if holdsNUL(body[i:end]) {
				return 0, Invalid("A text in the request's body holds a NUL character")
			}
			cost += valueCost + int64(end-i)
		case c == '-' || c >= '0' && c <= '9':
			end = afterPlain(body, i)
			if text := body[i:end]; len(text) > plainNumber || bytes.ContainsAny(text, "eE") {
				if _, err := strconv.ParseFloat(string(text), 64); err != nil {
					return 0, Invalid("The number %.40s in the request's body is out of range", text)
				}
			}
			cost += valueCost
		case c == 't' || c == 'f' || c == 'n':
			end = afterPlain(body, i)
			cost += valueCost
		default: // what stands between values
			i = end
			continue
		}
		if values++; values > most {
			return 0, &Error{Status: http.StatusRequestEntityTooLarge, Shape: Bare,
				Text: fmt.Sprintf("The request's JSON has more than %d names and values.", most)}
		}
		i = end
	}
	return cost, nil
}

// plainNumber is how long a number without an exponent may be and is in range for sure.
const plainNumber = 300

// holdsNUL reports whether a text of valid JSON has an escaped NUL.
func holdsNUL(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		if bytes.HasPrefix(text[i+1:], []byte("u0000")) {
			return true
		}
		text = text[i+2:]
	}
}

// afterText returns where a text ends that begins at i.
func afterText(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// afterPlain returns where a number, true, false or null ends.
func afterPlain(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return i
		}
	}
	return i
}

// afterValue returns where a value ends that begins at i.
func afterValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return afterText(b, i)
	case '{', '[':
	default:
		return afterPlain(b, i)
	}
	for open := 0; ; {
		switch b[i] {
		case '"':
			i = afterText(b, i)
			continue
		case '{', '[':
			open++
		case '}', ']':
			open--
		}
		if i++; open == 0 {
			return i
		}
	}
}

// between skips space, commas and colons.
func between(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' || b[i] == ',' || b[i] == ':') {
		i++
	}
	return i
}

// Members are the members of an object, in their order, also those of one name; of anything else there are none.
func (r Raw) Members() iter.Seq2[string, Raw] {
	return func(yield func(string, Raw) bool) {
		if r.Kind() != '{' {
			return
		}
		for i := between(r, 1); r[i] != '}'; i = between(r, i) {
			end := afterText(r, i)
			name := Raw(r[i:end]).Text()
			i = between(r, end)
			end = afterValue(r, i)
			if !yield(name, r[i:end]) {
				return
			}
			i = end
		}
	}
}

// Member is the last member of a name; nil: there is none.
func (r Raw) Member(name string) (found Raw) {
	for n, v := range r.Members() {
		if n == name {
			found = v
		}
	}
	return found
}

// Items are the items of a list; of anything else there are none.
func (r Raw) Items() iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		if r.Kind() != '[' {
			return
		}
		for i := between(r, 1); r[i] != ']'; i = between(r, i) {
			end := afterValue(r, i)
			if !yield(r[i:end]) {
				return
			}
			i = end
		}
	}
}

// Kind is the first character, which tells what the value is: '{', '[', '"', 't', 'f', 'n' or that of a number; 0: there is none.
func (r Raw) Kind() byte {
	if len(r) == 0 {
		return 0
	}
	return r[0]
}

// Text is what a text says; empty for anything else.
func (r Raw) Text() string {
	var text string
	if r.Kind() == '"' && json.Unmarshal(r, &text) != nil {
		return "" // it was valid before
	}
	return text
}

// shownInErrors is how long a value may be that an error repeats.
const shownInErrors = 1 << 10

// Repr is the value in Python's notation; a long one is not decoded for that.
func (r Raw) Repr() string {
	if len(r) > shownInErrors {
		return fmt.Sprintf("%q…", r[:40])
	}
	v, err := Decode(r)
	if err != nil {
		return "a value"
	}
	return Repr(v)
}

// Compact appends r without the space between values, until b has limit bytes; false: it would have more.
func (r Raw) Compact(b []byte, limit int) ([]byte, bool) {
	for i := 0; i < len(r); {
		end := i + 1
		switch r[i] {
		case ' ', '\t', '\r', '\n':
			i = end
			continue
		case '"':
			end = afterText(r, i)
		}
		if len(b)+end-i > limit {
			return b, false
		}
		b = append(b, r[i:end]...)
		i = end
	}
	return b, true
}

// Object decodes an object.
func (r Raw) Object() (map[string]any, error) {
	v, err := Decode(r)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, Invalid("The request's body must be a JSON object")
	}
	return object, nil
}
