package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func asFloat(text string) (any, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func asWritten(text string) (any, bool) { return json.Number(text), true }

func TestReadsTheUsual(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `null`, `"x"`, `7`, `-0`, `0.5e-3`, ` { "a" : 1 , "b" : [ true , false, null, {"c":"d"} ] } `,
		"[{\"op\":\"add\",\n\t\"path\":\"/extra/ü\",\r\"value\":\"<\"}]", `{"a":1,"a":2}`} {
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if got, ok := Read(text, asFloat); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %t, want %v", text, got, ok, want)
		}
	}
}

func TestLeavesTheRestToOthers(t *testing.T) {
	for _, text := range []string{``, ` `, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `[1,]`, `[1 2]`, `01`, `+1`, `.5`, `1.`, `1e`, `1e+`, `-`, `0x1`, `1e999`,
		`tru`, `nul`, `{} {}`, `{}x`, `"a`, `"\u00fc"`, "\"\x00\"", "\"\xff\"", `'a'`, `{"a":1]`} {
		if got, ok := Read(text, asFloat); ok {
			t.Errorf("%q is read as %v", text, got)
		}
		if got, ok := ReadTexts(text); ok && text != `{}` {
			t.Errorf("%q is read as %v", text, got)
		}
	}
	if m, ok := ReadTexts(`{"a":1}`); ok {
		t.Errorf("a number is read as a text: %v", m)
	}
}

func TestMembersAreAsTheyAreWritten(t *testing.T) {
	text := ` { "a" : [ 1, {"b":null}] , "c_1":"x","a": -1.5e3 }`
	var got []string
	if !Members(text, func(name, raw string) bool { got = append(got, name+"="+raw); return true }) {
		t.Errorf("%s is unusual", text)
	}
	if want := []string{`a=[ 1, {"b":null}]`, `c_1="x"`, `a=-1.5e3`}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	deep := strings.Repeat("[", deepest+1) + strings.Repeat("]", deepest+1)
	for _, text := range []string{`{"A":1}`, `{"ſ":1}`, `{"a":1`, `{"a":1}x`, "{}\x00", `{"a":"\n"}`, `[]`, `{"a":` + deep + `}`} {
		if Members(text, func(string, string) bool { return true }) {
			t.Errorf("%q is usual", text)
		}
	}
	if Items(`[1,2]`, func(raw string) bool { return raw != "2" }) || Items(`{}`, func(string) bool { return true }) {
		t.Error("a list is read whose item was refused, or that is none")
	}
}

// FuzzRead holds that what is read is what encoding/json reads, and that it is written as
// what reads the same.
func FuzzRead(f *testing.F) {
	for _, text := range []string{`{"a":1,"b":"x","c":[true,false,null,{}],"d":{"e":-1.5e3}}`, `{"a":"\u00fc\n","ü":"<"}`, `{"a":1}x`, ` { "a": [] } `,
		`{"a":1,"a":2}`, `[01]`, `[ 1 , {"a":[]}, "x"]`, `1e400`, `"`, `{"a":`, "\"\xff\"", `{"a":"b","c":"d"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return // deeper than anybody asks for
		}
		var texts map[string]string
		if got, ok := ReadTexts(text); ok && (json.Unmarshal([]byte(text), &texts) != nil || !reflect.DeepEqual(got, texts)) {
			t.Errorf("%s: got %v, want %v", text, got, texts)
		}
		var raw map[string]json.RawMessage
		members := map[string]json.RawMessage{}
		if Members(text, func(name, raw string) bool { members[name] = json.RawMessage(raw); return true }) &&
			(json.Unmarshal([]byte(text), &raw) != nil || !reflect.DeepEqual(members, raw)) {
			t.Errorf("%s: its members are %s, want %s", text, members, raw)
		}
		var list []json.RawMessage
		items := []json.RawMessage{}
		if Items(text, func(raw string) bool { items = append(items, json.RawMessage(raw)); return true }) &&
			(json.Unmarshal([]byte(text), &list) != nil || !reflect.DeepEqual(items, list)) {
			t.Errorf("%s: its items are %s, want %s", text, items, list)
		}
		got, ok := Read(text, asWritten)
		if !ok {
			return
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil || dec.More() || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v, %v", text, got, want, err)
		}
		again, err := Append(nil, got, nil)
		if back, ok := Read(string(again), asWritten); err != nil || ok && !reflect.DeepEqual(back, got) || !json.Valid(again) {
			t.Errorf("%s is written as %s, %v", text, again, err)
		}
	})
}

func TestAppendsAsEncodingJSON(t *testing.T) {
	for _, v := range []any{nil, true, 7, int64(-8), 1.0, 1.5, 1e20, math.Copysign(0, -1), json.Number("1.50"), "", "a\"b\\\n", "ü", "\xff", []string{"a", "b"}, []any{},
		map[string]any{"b": 1.0, "a": []any{nil, map[string]any{}}}, map[string]string{"y": "1", "x": "2"}, time.Unix(1, 0).UTC(), []int{1},
		json.Number("")} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := Append([]byte("x"), v, func(b []byte, v any) ([]byte, error) {
			text, err := json.Marshal(v)
			return append(b, text...), err
		})
		if err != nil || string(got) != "x"+strings.TrimSuffix(want.String(), "\n") {
			t.Errorf("%#v is written as %s, %v, want %s", v, got, err, want.String())
		}
	}
}

func TestAppendFailsWhereOtherDoes(t *testing.T) {
	no := errors.New("no")
	for _, v := range []any{struct{}{}, json.Number("1x"), []any{1, struct{}{}}, map[string]any{"a": []any{struct{}{}}}} {
		if _, err := Append(nil, v, func(b []byte, _ any) ([]byte, error) { return b, no }); !errors.Is(err, no) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const text = `{"name": "n1", "driver": "redfish", "properties": {"cpus": 64, "cpu_arch": "x86_64"}, "extra": {"rack": "r7"}}`
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := Read(text, asWritten); !ok {
			b.Fatal("not read")
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v := map[string]any{"cpus": json.Number("64"), "cpu_arch": "x86_64", "capabilities": "boot_mode:uefi", "local_gb": 1800.0}
	b.ReportAllocs()
	var room []byte
	for b.Loop() {
		var err error
		if room, err = Append(room[:0], v, nil); err != nil {
			b.Fatal(err)
		}
	}
}
