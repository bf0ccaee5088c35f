package packed

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
)

// plain is what encoding/json makes of a value, there and back.
func plain(t testing.TB, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestComesBackAsJSONDoes(t *testing.T) {
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v    any
		size int // at most
	}{
		{nil, 1}, {true, 1}, {false, 1},
		{0, 1}, {47, 1}, {48, 2}, {-1, 2}, {int64(math.MinInt64), 11}, {int64(math.MaxInt64), 11}, {262144.0, 4}, {1.5, 9}, {math.Copysign(0, -1), 9}, {1e300, 9}, {exact, 9},
		{json.Number("64"), 3}, {json.Number("-7"), 2}, {json.Number("1.50"), 9}, {json.Number("1e3"), 3}, {json.Number("9007199254740993"), 9}, {json.Number("-0"), 9},
		{"", 1}, {"redfish", 1}, {"servicing", 2}, {"no word", 8}, {strings.Repeat("x", 63), 64}, {strings.Repeat("x", 64), 66}, {strings.Repeat("ü", 500), 1003},
		{"52:54:00:00:00:01", 7}, {"52:54:00:00:00:0A", 18}, {"52:54:00:00:00-01", 18}, {"52:54:00:00:00:0g", 18}, {"..:..:..:..:..:..", 18},
		{"0123abcd-4567-89ef-0123-456789abcdef", 17}, {"0123ABCD-4567-89ef-0123-456789abcdef", 37}, {"0123abcd-4567-89ef-0123+456789abcdef", 37}, {"0123abcd-4567-89ef-0123-456789abcdeg", 37},
		{strings.Repeat("0a", 32), 34}, {strings.Repeat("0A", 32), 66}, {"0123456789abcde", 16}, {"0123456789abcdef0", 18},
		{key.Seal(seal.Label{Of: "n"}, "secret"), 12 + 6 + 16 + 2}, {seal.Prefix, 11}, {seal.Prefix + "YR==", 15}, {seal.Prefix + "no base64", 20}, {seal.Prefix + "YWI=\n", 16},
		{[]any{}, 2}, {[]string{"a", "direct"}, 5}, {map[string]any{}, 2}, {map[string]string{"boot": "ipxe"}, 4},
		{map[string]any{"b": []any{nil, map[string]any{"c": 1.5}}, "a": "x", "": 7}, 30}, {time.Unix(1, 0).UTC(), 25}, {struct{ A int }{7}, 6},
	} {
		b, err := Append([]byte("before"), c.v)
		if err != nil {
			t.Fatalf("%v: %v", c.v, err)
		}
		b = b[len("before"):]
		if len(b) > c.size {
			t.Errorf("%v takes %d bytes (%x), want no more than %d", c.v, len(b), b, c.size)
		}
		r := Read(append(b, tagTrue))
		got, after := r.Value(), r.Bool()
		if want := plain(t, c.v); r.Err() != nil || r.More() || !after || !reflect.DeepEqual(got, want) || math.Signbit(asFloat(got)) != math.Signbit(asFloat(want)) {
			t.Errorf("%v came back as %v, %v, want %v", c.v, got, r.Err(), want)
		}
		r = Read(append(b, tagTrue))
		if r.Skip(); !r.Bool() || r.More() || r.Err() != nil {
			t.Errorf("%v is not skipped as a whole: %v", c.v, r.Err())
		}
		for i := range b { // what is cut off is noticed
			r := Read(b[:i])
			r.Value()
			s := Read(b[:i])
			s.Skip()
			if !errors.Is(r.Err(), ErrBroken) || !errors.Is(s.Err(), ErrBroken) {
				t.Errorf("%v of %x is read without an error: %v, %v", c.v, b[:i], r.Err(), s.Err())
			}
		}
	}
}

func asFloat(v any) float64 {
	f, _ := v.(float64)
	return f
}

func TestNumbersBeyondFloat64(t *testing.T) {
	b, err := Append(nil, json.Number("1e999"))
	r := Read(b)
	if got := r.Value(); err != nil || r.Err() != nil || got != json.Number("1e999") {
		t.Errorf("got %v, %v, %v", got, err, r.Err())
	}
}

func TestRefuses(t *testing.T) {
	deep := any(nil)
	for range maxDepth + 1 {
		deep = []any{deep}
	}
	for _, v := range []any{deep, math.NaN(), math.Inf(-1), json.Number("x"), json.Number(""), func() {}, map[string]any{"a": []any{func() {}}}} {
		if b, err := Append(nil, v); err == nil {
			t.Errorf("%v is packed as %x", v, b)
		}
	}
	if b, err := Append(nil, deep.([]any)[0]); err != nil {
		t.Error(err)
	} else if r := Read(b); r.Value() == nil || r.Err() != nil {
		t.Error("what lies as deep as may be is not read:", r.Err())
	}
}

func TestReadersFailOnWhatTheyDoNotRead(t *testing.T) {
	for name, read := range map[string]func(*Reader){"Text": func(r *Reader) { r.Text() }, "Int": func(r *Reader) { r.Int() }, "Bool": func(r *Reader) { r.Bool() },
		"Texts": func(r *Reader) { r.Texts() }, "Object": func(r *Reader) { r.Object() }, "Count": func(r *Reader) { r.Count() }, "TextsByName": func(r *Reader) { r.TextsByName() }} {
		r := Read([]byte{tagNil})
		if read(&r); !errors.Is(r.Err(), ErrBroken) || r.More() {
			t.Errorf("%s reads nil: %v", name, r.Err())
		}
	}
	for _, text := range []string{"0e", "0f", "07ff01", "08ff", "0802", "0901", "06ffffffffffffffffff01", "03ffffffffffffffffffff"} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		r := Read(b)
		for r.More() {
			r.Value()
		}
		if !errors.Is(r.Err(), ErrBroken) {
			t.Errorf("%s is read: %v", text, r.Err())
		}
	}
}

// The table is part of what is written: this fails when a word is moved.
func TestWordsKeepTheirNumbers(t *testing.T) {
	if len(numbers) != len(words) {
		t.Errorf("%d words, of which %d differ", len(words), len(numbers))
	}
	for i, want := range map[int]string{0: "bios", 13: "fake", 34: "ipmi", 35: "redfish_address", 118: "active", 119: "enroll", 283: "calvin"} {
		if words[i] != want {
			t.Errorf("word %d is %q, was %q", i, words[i], want)
		}
	}
}

// FuzzRead holds that whatever is read can be written and is then read as the same, and that
// skipping agrees with reading about where a value ends.
func FuzzRead(f *testing.F) {
	for _, v := range []any{nil, map[string]any{"a": []any{1, 2.5, "redfish"}, "b": "52:54:00:00:00:01"}, "0123abcd-4567-89ef-0123-456789abcdef", json.Number("1e999")} {
		b, err := Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x05\x050.000")) // no writer's
	f.Fuzz(func(t *testing.T, b []byte) {
		r, s := Read(b), Read(b)
		v := r.Value()
		s.Skip()
		if r.Err() != nil {
			return
		}
		if s.Err() != nil || len(s.rest) != len(r.rest) {
			t.Fatalf("%x: skipped up to %d, %v, read up to %d", b, len(s.rest), s.Err(), len(r.rest))
		}
		again, err := Append(nil, v)
		if err != nil {
			return // NaN, a number that is none
		}
		back := Read(again)
		if got := back.Value(); back.Err() != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%x: %v came back as %v, %v", b, v, got, back.Err())
		}
		if third, err := Append(nil, v); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%v is packed as %x and as %x", v, again, third)
		}
	})
}
