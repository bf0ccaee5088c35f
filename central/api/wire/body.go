package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	// foreseen is the longest body that costs next to nothing, whatever is in it.
	foreseen = 16 << 10
)

// Room is asked for so many bytes of memory that a body takes beyond what each request may take. Its error is the refusal. A
// nil Room has room for all.
type Room func(bytes int64) error

func (r Room) take(bytes int64) error {
	if r == nil {
		return nil
	}
	return r(bytes)
}

// Small is the longest body that takes no room.
const Small = foreseen

// ReadJSON reads a request's body as one JSON value of at most limit bytes and
// MaxDepth levels. Numbers become json.Number. An empty body gives nil.
// What could not be stored (a NUL in a string, a number that is no float64) is refused.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, room Room) (any, error) {
	raw, err := Read(w, r, limit, room)
	if err == nil {
		err = Afford(raw, room)
	}
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	return Decode(raw)
}

// Read returns a request's body without the space around it; it is not valid JSON for sure.
func Read(w http.ResponseWriter, r *http.Request, limit int64, room Room) (Raw, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	if r.ContentLength > Small { // what is there for it may be used at once
		if err := room.take(r.ContentLength); err != nil {
			return nil, err
		}
	}
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err := body.ReadFrom(&metered{Reader: http.MaxBytesReader(w, r.Body, limit), room: room, reserved: max(r.ContentLength, Small)})
	raw := body.Bytes()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, TooLarge(limit)
	}
	if refusal, ok := errors.AsType[*Error](err); ok {
		return nil, refusal
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

// metered takes room for a body of unknown length while it comes.
type metered struct {
	io.Reader
	room           Room
	read, reserved int64
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if m.read += int64(n); m.read > m.reserved {
		if refusal := m.room.take(m.reserved); refusal != nil {
			return n, refusal
		}
		m.reserved *= 2
	}
	return n, err
}

// Afford takes room for what a body that is not small becomes when it is decoded. It refuses what Decode refuses.
func Afford(raw Raw, room Room) error {
	if len(raw) <= Small {
		return nil
	}
	if err := Check(raw); err != nil {
		return err
	}
	cost, err := weigh(raw, math.MaxInt)
	if err != nil {
		return err
	}
	return room.take(cost)
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
func Object(w http.ResponseWriter, r *http.Request, limit int64, room Room) (map[string]any, error) {
	raw, err := Read(w, r, limit, room)
	if err == nil {
		err = Afford(raw, room)
	}
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
