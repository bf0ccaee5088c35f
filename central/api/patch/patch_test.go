package patch

import (
	"encoding/json"
	"testing"

	"github.com/ironyard/ironyard/central/api/wire"
)

func TestApplyLeavesTheOperationAlone(t *testing.T) {
	body, err := wire.Decode([]byte(`[{"op":"add","path":"/extra","value":{"l":[]}},{"op":"add","path":"/extra/l/-","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	ops, err := Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a transaction may run twice
		doc := map[string]any{"extra": map[string]any{}}
		for _, op := range ops {
			if err := Apply(doc, op); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := json.Marshal(doc); string(got) != `{"extra":{"l":[1]}}` {
			t.Errorf("got %s", got)
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte(`[{"op":"add","path":"/extra/a","value":1}]`))
	f.Add([]byte(`[{"op":"remove","path":"/extra/l/0"},{"op":"replace","path":"/extra/l/0/x","value":[]}]`))
	f.Add([]byte(`[{"op":"add","path":"/extra/l/-1","value":1},{"op":"add","path":"/extra/l/00","value":1}]`))
	f.Add([]byte(`[{"op":"add","path":"/name/x","value":1}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := wire.Decode(data)
		if err != nil {
			return
		}
		ops, err := Parse(body)
		if err != nil {
			return
		}
		doc := map[string]any{"name": nil, "extra": map[string]any{"l": []any{map[string]any{"x": "y"}, "z"}}}
		for _, op := range ops {
			if err := Apply(doc, op); err != nil && err.Error() == "" {
				t.Error("an error says nothing")
			}
		}
		if len(doc) != 2 {
			t.Errorf("%s gave the document other attributes: %v", data, doc)
		}
	})
}
