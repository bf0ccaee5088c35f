package fields

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/api/patch"
	"github.com/ironyard/ironyard/central/api/wire"
)

type thing struct {
	name  string
	on    bool
	maybe *bool
	extra map[string]any
}

var things = New("thing",
	Text("name", 1, func(t *thing) *string { return &t.name }).Write().Must().Max(5).List().Sort(),
	Bool("on", 3, true, func(t *thing) *bool { return &t.on }).Write(),
	Tristate("maybe", 1, func(t *thing) **bool { return &t.maybe }).Write(),
	Object("extra", 1, func(t *thing) *map[string]any { return &t.extra }).Write(),
	Computed("seen", 1, func(*thing) any { return 7 }),
)

func TestCreateSetsAllOrNothing(t *testing.T) {
	for body, status := range map[string]int{
		`{"name":"a","on":"no","maybe":true,"extra":null}`: 0,
		`{"name":"a","on":"perhaps"}`:                      400,
		`{"on":true}`:                                      400,
		`{"name":"toolong"}`:                               400,
		`{"name":"a","seen":8}`:                            400,
		`{"name":"a","other":8}`:                           400,
	} {
		v, err := wire.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		var it thing
		err = things.Create(5, v.(map[string]any), &it)
		if status == 0 {
			if err != nil || it.name != "a" || it.on || it.maybe == nil || !*it.maybe || it.extra == nil {
				t.Errorf("%s gave %+v, %v", body, it, err)
			}
		} else if err == nil || wire.AsError(err).Status != status || it.name != "" {
			t.Errorf("%s gave %+v, %v, want %d and nothing set", body, it, err, status)
		}
	}
	if err := things.Create(2, map[string]any{"name": "a", "on": true}, new(thing)); wire.AsError(err).Status != 406 {
		t.Errorf("a field that is too new gave %v", err)
	}
}

func TestUpdateSetsAllOrNothing(t *testing.T) {
	yes := true
	for body, want := range map[string]string{
		`[{"op":"remove","path":"/on"},{"op":"remove","path":"/maybe"}]`:                         `"name":"a","on":true,"maybe":null,"extra":{"k":1},"seen":7`,
		`[{"op":"replace","path":"/name","value":"b"},{"op":"add","path":"/extra/l","value":2}]`: `"name":"b","on":false,"maybe":true,"extra":{"k":1,"l":2},"seen":7`,
		`[{"op":"replace","path":"/name","value":"b"},{"op":"remove","path":"/extra/x"}]`:        "",
		`[{"op":"replace","path":"/on","value":false},{"op":"remove","path":"/name"}]`:           "",
	} {
		it := thing{name: "a", maybe: &yes, extra: map[string]any{"k": 1}}
		before := string(things.Append(nil, things.All(5), &it))
		v, err := wire.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		ops, err := patch.Parse(v)
		if err != nil {
			t.Fatal(err)
		}
		_, err = things.Update(5, ops, &it)
		got := string(things.Append(nil, things.All(5), &it))
		if want == "" && (err == nil || got != before) || want != "" && (err != nil || got != want) {
			t.Errorf("%s gave %s, %v, want %s", body, got, err, want)
		}
	}
}

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
