package work

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// newer is a document as a newer program writes it: with a field more at each place.
const newer = `{"id":"w","node":"n","group":"g","generation":3,"verb":"deploy","requested":"2026-11-24T00:00:00Z","entry":"deploying","epoch":7,"state":"deploying","seq":2,
"sworn":{"by":["central"]},
"args":{"configdrive":"d","boot_from":"volume","steps":[{"interface":"deploy","step":"write_image","retries":4},{"interface":"bios","step":"apply"}],
  "change":{"media":{"types":["cdrom"],"eject_after":true}}},
"checkpoint":{"step":"write_image","index":4,"nonce":"n1","boot":{"number":2,"medium":"m"},"agent":{"url":"https://a","last_seen":"2026-11-24T00:00:01Z","pinned":"sha256"},"errand":{"phase":"begun","by":"op"},
  "untold":[{"time":"2026-11-24T00:00:00Z","phase":"p","node_time":1}]},
"result":{"ok":false,"at":"2026-11-24T00:00:02Z","set_aside":true}}`

// tree is a document as JSON has it.
func tree(t *testing.T, body []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// at follows keys and numbers of a list into v.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// What a program does not know it writes back, wherever it stands.
func TestFieldsOfNewerProgramsStay(t *testing.T) {
	d, err := Read([]byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	copied := d // as rackds do
	copied.Epoch, copied.Owner, copied.Checkpoint.Index = 8, "r2", 5
	copied.Checkpoint.Agent.LastSeen = time.Unix(9, 0).UTC()
	body, err := copied.Body()
	if err != nil {
		t.Fatal(err)
	}
	want, got := tree(t, []byte(newer)), tree(t, body)
	for _, path := range [][]any{
		{"sworn"}, {"args", "boot_from"}, {"args", "steps", 0, "retries"}, {"args", "change", "media", "eject_after"}, {"checkpoint", "nonce"}, {"checkpoint", "boot", "medium"}, {"checkpoint", "agent", "pinned"},
		{"checkpoint", "errand", "by"}, {"checkpoint", "untold", 0, "node_time"}, {"result", "set_aside"},
	} {
		if w, g := at(want, path...), at(got, path...); w == nil || !reflect.DeepEqual(w, g) {
			t.Errorf("%v: %v, want %v", path, g, w)
		}
	}
	if at(got, "epoch") != 8.0 || at(got, "owner") != "r2" || at(got, "checkpoint", "index") != 5.0 {
		t.Errorf("what was changed is not in it: %s", body)
	}
	if again, err := Read(body); err != nil || !reflect.DeepEqual(again, copied) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

// What was unknown goes with what it belonged to.
func TestFieldsGoWithWhatTheyBelongTo(t *testing.T) {
	old, err := Read([]byte(newer))
	if err != nil {
		t.Fatal(err)
	}
	next := Document{ID: "w2", Node: "n", Verb: Deploy, Args: Args{Continues: "w"}}
	next.Inherit(&old)
	next.Checkpoint.Errand, next.Checkpoint.Agent = Errand{}, &Agent{URL: "https://b"}
	body, err := next.Body()
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, body)
	if at(got, "checkpoint", "nonce") != "n1" {
		t.Errorf("the checkpoint lost its part: %s", body)
	}
	if at(got, "sworn") != nil || at(got, "args", "boot_from") != nil || at(got, "checkpoint", "agent", "pinned") != nil || at(got, "checkpoint", "errand") != nil {
		t.Errorf("another work, another agent or another errand has what belonged to the old one: %s", body)
	}
}

// Without such fields a document is written as it always was.
func TestDocumentsAreJSON(t *testing.T) {
	d := Document{ID: "w", Node: "n", Checkpoint: Checkpoint{Agent: &Agent{URL: "u"}, Facts: map[string]string{"a": "b"}}, Args: Args{Steps: []Step{{Step: "s"}}}}
	want, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Body()
	if err != nil || string(got) != string(want) {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	again, err := Read(got)
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{"", "{", `{"id":1}`, `{"id":"a"} x`, `{"id":"a","later":`, `[]`, "null x"} {
		if d, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, d)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(newer))
	f.Add([]byte(`{"args":{"steps":[{"x":1},2]},"checkpoint":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := Read(body)
		if err != nil {
			return
		}
		text, err := d.Body()
		if err != nil {
			return // a time that JSON cannot hold
		}
		if _, err := Read(text); err != nil {
			t.Errorf("%q was written as %q, which is not read: %v", body, text, err)
		}
	})
}
