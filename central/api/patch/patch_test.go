package patch

import (
	"encoding/json"
	"slices"
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
		for name := range doc {
			if !slices.ContainsFunc(ops, func(op Op) bool { return op.Root() == name }) && name != "name" && name != "extra" {
				t.Errorf("%s gave the document the attribute %s", data, name)
			}
		}
	})
}

// What is removed as a whole is no longer there, so only an add brings it back.
func TestRemovedAttributes(t *testing.T) {
	for _, c := range []struct{ ops, want string }{
		{`[{"op":"remove","path":"/name"},{"op":"add","path":"/name","value":"n2"}]`, ""},
		{`[{"op":"remove","path":"/name"},{"op":"replace","path":"/name","value":"n2"}]`, "Couldn't apply patch '{'op': 'replace', 'path': '/name', 'value': 'n2'}'. Reason: can't replace a non-existent object 'name'"},
		{`[{"op":"remove","path":"/name"},{"op":"remove","path":"/name"}]`, "Couldn't apply patch '{'op': 'remove', 'path': '/name'}'. Reason: can't remove a non-existent object 'name'"},
		{`[{"op":"remove","path":"/extra"},{"op":"add","path":"/extra/a","value":1}]`, "Couldn't apply patch '{'op': 'add', 'path': '/extra/a', 'value': 1}'. Reason: member 'extra' not found"},
	} {
		body, err := wire.Decode([]byte(c.ops))
		if err != nil {
			t.Fatal(err)
		}
		ops, err := Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		doc, said := map[string]any{"name": "n1", "extra": map[string]any{}}, ""
		for _, op := range ops {
			if err := Apply(doc, op); err != nil {
				said = err.Error()
			}
		}
		if said != c.want || c.want == "" && doc["name"] != "n2" {
			t.Errorf("%s: %q, want %q; the document is %v", c.ops, said, c.want, doc)
		}
	}
}

// TestErrorsAreInTheWordsOfIronic: clients compare them. Values of secrets are masked.
func TestErrorsAreInTheWordsOfIronic(t *testing.T) {
	for _, c := range []struct{ op, want string }{
		{`{"op":"remove","path":"/extra/b"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/b'}'. Reason: can't remove a non-existent object 'b'"},
		{`{"op":"replace","path":"/extra/b","value":[1,null]}`, "Couldn't apply patch '{'op': 'replace', 'path': '/extra/b', 'value': [1, None]}'. Reason: can't replace a non-existent object 'b'"},
		{`{"op":"replace","path":"/extra/password","value":"hush"}`, "Couldn't apply patch '{'op': 'replace', 'path': '/extra/password', 'value': '******'}'. Reason: can't replace a non-existent object 'password'"},
		{`{"op":"add","path":"/extra/f/a/b","value":1}`, "Couldn't apply patch '{'op': 'add', 'path': '/extra/f/a/b', 'value': 1}'. Reason: Document '<class 'float'>' does not support indexing, must be mapping/sequence or support __getitem__"},
		{`{"op":"remove","path":"/extra/o/b/c"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/o/b/c'}'. Reason: member 'b' not found in {'a': 1, 'password': '******'}"},
		{`{"op":"remove","path":"/extra/l/3"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/l/3'}'. Reason: can't remove a non-existent object '3'"},
		{`{"op":"remove","path":"/extra/l/3/a"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/l/3/a'}'. Reason: can't remove outside of list"},
		{`{"op":"replace","path":"/extra/l/3","value":1}`, "Couldn't apply patch '{'op': 'replace', 'path': '/extra/l/3', 'value': 1}'. Reason: can't replace outside of list"},
		{`{"op":"remove","path":"/extra/l/-"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/l/-'}'. Reason: invalid array index '-'"},
		{`{"op":"replace","path":"/extra/l/-","value":1}`, "Couldn't apply patch '{'op': 'replace', 'path': '/extra/l/-', 'value': 1}'. Reason: 'path' with '-' can't be applied to 'replace' operation"},
		{`{"op":"add","path":"/name/a","value":null}`, "Couldn't apply patch '{'op': 'add', 'path': '/name/a', 'value': None}'. Reason: 'a' is not a valid sequence index"},
		{`{"op":"remove","path":"/owner/a"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/owner/a'}'. Reason: Document '<class 'NoneType'>' does not support indexing, must be mapping/sequence or support __getitem__"},
		{`{"op":"remove","path":"/protected/a"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/protected/a'}'. Reason: Document '<class 'bool'>' does not support indexing, must be mapping/sequence or support __getitem__"},
		{`{"op":"remove","path":"/extra/n/a"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/n/a'}'. Reason: Document '<class 'int'>' does not support indexing, must be mapping/sequence or support __getitem__"},
		{`{"op":"remove","path":"/extra/f/a"}`, "Couldn't apply patch '{'op': 'remove', 'path': '/extra/f/a'}'. Reason: Document '<class 'float'>' does not support indexing, must be mapping/sequence or support __getitem__"},
	} {
		body, err := wire.Decode([]byte("[" + c.op + "]"))
		if err != nil {
			t.Fatal(err)
		}
		ops, err := Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		doc := map[string]any{"name": "n1", "owner": nil, "protected": false, "extra": map[string]any{"n": json.Number("1"), "f": json.Number("1.5"),
			"o": map[string]any{"a": json.Number("1"), "password": "hush"}, "l": []any{}}}
		if err := Apply(doc, ops[0]); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.op, err, c.want)
		}
	}
}
