package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ironyard/ironyard/protocol/jsontext"
)

// Limits of request bodies.
const (
	MaxBody = 1 << 20
	// MaxProvisionBody leaves room for a config drive.
	MaxProvisionBody = 64 << 20
	MaxDepth         = 25
	// foreseen is the longest body for which room is made before any of it has come.
	foreseen = 16 << 10
)

// ReadJSON reads a request's body as one JSON value of at most limit bytes and
// MaxDepth levels. Numbers become json.Number. An empty body gives nil.
// What could not be stored (a NUL in a string, a number that is no float64) is refused.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64) (any, error) {
	raw, err := read(w, r, limit)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	return Decode(raw)
}

// read returns a request's body without the space around it.
func read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), foreseen)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	raw := body.Bytes()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, TooLarge(limit)
	}
	if err != nil {
		return nil, Invalid("The request's body could not be read: %v", err)
	}
	if depth(raw) > MaxDepth {
		return nil, tooDeep()
	}
	if !utf8.Valid(raw) {
		return nil, notUTF8()
	}
	return bytes.TrimSpace(bytes.TrimPrefix(raw, byteOrderMark)), nil
}

// byteOrderMark is what some programs begin a text in UTF-8 with.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Decode reads raw as exactly one JSON value, as ReadJSON does.
func Decode(raw []byte) (any, error) {
	if v, ok := jsontext.Read(string(raw), number); ok {
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, Invalid("The request's body is not valid JSON: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, Invalid("The request's body has more after its JSON value")
	}
	return v, storable(v)
}

// number keeps a number as it is written, unless it is out of range.
func number(text string) (any, bool) {
	_, err := strconv.ParseFloat(text, 64)
	return json.Number(text), err == nil
}

// Object reads a request's body as a JSON object. An empty body is an empty object.
func Object(w http.ResponseWriter, r *http.Request, limit int64) (map[string]any, error) {
	raw, err := read(w, r, limit)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, Invalid("The request's body must be a JSON object")
	}
	return object, nil
}

func tooDeep() *Error {
	return &Error{Status: http.StatusBadRequest, Shape: Bare, Text: fmt.Sprintf("The request's JSON is nested deeper than %d levels.", MaxDepth)}
}

func notUTF8() *Error {
	return FrameworkError(http.StatusBadRequest, "The request's body is not UTF-8.")
}

// TooLarge is the refusal of a body of more than limit bytes.
func TooLarge(limit int64) *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Shape: Bare,
		Text: fmt.Sprintf("The request's body is larger than %d bytes.", limit)}
}

// depth returns how deep the brackets outside of strings nest.
func depth(raw []byte) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

func storable(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if strings.ContainsRune(name, 0) {
				return Invalid("A name in the request's body holds a NUL character")
			}
			if err := storable(inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := storable(inner); err != nil {
				return err
			}
		}
	case string:
		if strings.ContainsRune(v, 0) {
			return Invalid("A text in the request's body holds a NUL character")
		}
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return Invalid("The number %.40s in the request's body is out of range", v)
		}
	}
	return nil
}
