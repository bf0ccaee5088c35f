package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// Values are shown as Python shows them, which is what clients of Ironic compare; long ones
// are cut, at a character, without being written out whole first.
func TestRepr(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "None"}, {true, "True"}, {false, "False"}, {"x", "'x'"}, {"", "''"}, {json.Number("1.5"), "1.5"}, {7, "7"},
		{[]any{json.Number("3"), "a", nil}, "[3, 'a', None]"}, {map[string]any{}, "{}"},
		{map[string]any{"b": []any{}, "a": map[string]any{"c": true}}, "{'a': {'c': True}, 'b': []}"},
		{map[string]any{"args": map[string]any{"password": "hush", "size": json.Number("1")}}, "{'args': {'password': '******', 'size': 1}}"},
		{strings.Repeat("ü", 500), "'" + strings.Repeat("ü", 199) + "…"},
	} {
		if got := Repr(c.v); got != c.want {
			t.Errorf("%#v is shown as %s, want %s", c.v, got, c.want)
		}
	}
	long := make([]any, 100000)
	if got := Repr([]any{long, strings.Repeat("x", 1<<20)}); len(got) > longestRepr+len("…") {
		t.Errorf("%d bytes of a long list", len(got))
	}
}
