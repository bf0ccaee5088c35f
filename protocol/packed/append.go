package packed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// ErrDeep means that lists and objects are nested too deep.
var ErrDeep = errors.New("lists and objects are nested too deep")

// Append appends a value. It fails on what JSON cannot hold, and on what is too deep.
func Append(b []byte, v any) ([]byte, error) { return appendValue(b, v, 0) }

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, ErrDeep
	}
	switch v := v.(type) {
	case nil:
		return append(b, tagNil), nil
	case bool:
		return AppendBool(b, v), nil
	case string:
		return AppendText(b, v), nil
	case int:
		return AppendInt(b, int64(v)), nil
	case int64:
		return AppendInt(b, v), nil
	case float64:
		return appendFloat(b, v)
	case json.Number:
		return appendNumber(b, v)
	case map[string]any:
		return appendObject(b, v, func(b []byte, inner any) ([]byte, error) { return appendValue(b, inner, depth+1) })
	case map[string]string:
		return appendObject(b, v, func(b []byte, inner string) ([]byte, error) { return AppendText(b, inner), nil })
	case []any:
		return appendList(b, v, func(b []byte, inner any) ([]byte, error) { return appendValue(b, inner, depth+1) })
	case []string:
		return appendList(b, v, func(b []byte, inner string) ([]byte, error) { return AppendText(b, inner), nil })
	}
	return appendOther(b, v, depth)
}

// appendOther appends what encoding/json makes of a value.
func appendOther(b []byte, v any, depth int) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return b, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return b, err
	}
	return appendValue(b, plain, depth)
}

// AppendBool appends a truth.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, tagTrue)
	}
	return append(b, tagFalse)
}

// AppendInt appends a whole number.
func AppendInt(b []byte, i int64) []byte {
	if i >= 0 && i < shortInts {
		return append(b, firstInt+byte(i))
	}
	return binary.AppendVarint(append(b, tagInt), i)
}

// exact is up to where float64 has every whole number.
const exact = 1 << 53

func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, fmt.Errorf("%v is not a JSON number", f)
	}
	if i := int64(f); float64(i) == f && i > -exact && i < exact && (i != 0 || !math.Signbit(f)) {
		return AppendInt(b, i), nil
	}
	return binary.LittleEndian.AppendUint64(append(b, tagFloat), math.Float64bits(f)), nil
}

func appendNumber(b []byte, n json.Number) ([]byte, error) {
	if i, err := n.Int64(); err == nil && i > -exact && i < exact && strconv.FormatInt(i, 10) == string(n) {
		return AppendInt(b, i), nil
	}
	if !json.Valid([]byte(n)) {
		return b, fmt.Errorf("%q is not a JSON number", string(n))
	}
	f, err := n.Float64()
	if err != nil { // too large
		return appendBytes(append(b, tagNumber), []byte(n)), nil
	}
	return appendFloat(b, f)
}

func appendBytes(b, content []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(content))), content...)
}

// AppendText appends a text.
func AppendText(b []byte, s string) []byte {
	if n, ok := numbers[s]; ok {
		if n < shortWords {
			return append(b, firstWord+byte(n))
		}
		return binary.AppendUvarint(append(b, tagWord), uint64(n-shortWords))
	}
	if short, ok := appendForm(b, s); ok {
		return short
	}
	if len(s) < shortTexts {
		return append(append(b, firstText+byte(len(s))), s...)
	}
	return append(binary.AppendUvarint(append(b, tagText), uint64(len(s))), s...)
}

func appendObject[V any](b []byte, m map[string]V, put func([]byte, V) ([]byte, error)) (_ []byte, err error) {
	var few [16]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(append(b, tagObject), uint64(len(names)))
	for _, name := range names {
		if b, err = put(AppendText(b, name), m[name]); err != nil {
			return b, err
		}
	}
	return b, nil
}

func appendList[V any](b []byte, list []V, put func([]byte, V) ([]byte, error)) (_ []byte, err error) {
	b = AppendCount(b, len(list))
	for _, v := range list {
		if b, err = put(b, v); err != nil {
			return b, err
		}
	}
	return b, nil
}

// AppendCount begins a list of n values, which follow.
func AppendCount(b []byte, n int) []byte {
	return binary.AppendUvarint(append(b, tagList), uint64(n))
}
