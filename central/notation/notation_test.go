package notation

import (
	"encoding/json"
	"strings"
	"testing"
)

func plain(_ string, v any) any { return v }

func TestValuesAreWrittenAsPythonDoes(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "None"}, {true, "True"}, {false, "False"}, {"x", "'x'"}, {"", "''"}, {"it's\n" + `a\b`, `'it\'s\na\\b'`},
		{json.Number("1.5"), "1.5"}, {1.5, "1.5"}, {7, "7"},
		{[]any{json.Number("3"), "a", nil}, "[3, 'a', None]"}, {map[string]any{}, "{}"},
		{map[string]any{"b": []any{}, "a": map[string]any{"c": true}}, "{'a': {'c': True}, 'b': []}"},
	} {
		if got := Of(c.v, plain); got != c.want {
			t.Errorf("%#v is written as %s, want %s", c.v, got, c.want)
		}
		if got := Short(c.v, plain, 100); got != c.want {
			t.Errorf("%#v is written in short as %s, want %s", c.v, got, c.want)
		}
	}
}

func TestWhatIsHiddenIsNotWritten(t *testing.T) {
	v := []any{map[string]any{"args": map[string]any{"password": "hush", "size": json.Number("1")}}}
	seen := func(name string, v any) any {
		if name == "password" {
			return "***"
		}
		return v
	}
	if got := Of(v, seen); got != "[{'args': {'password': '***', 'size': 1}}]" {
		t.Error(got)
	}
}

func TestLongValuesAreCut(t *testing.T) {
	if got, want := Short(strings.Repeat("ü", 500), plain, 100), "'"+strings.Repeat("ü", 49)+"…"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	long := make([]any, 100000)
	if got := Short([]any{long, strings.Repeat("x", 1<<20)}, plain, 100); len(got) != 100+len("…") {
		t.Errorf("%d bytes of a long list", len(got))
	}
}
