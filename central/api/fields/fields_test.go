package fields

import (
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
