package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

func text(t *testing.T, v any) []byte {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func document(t *testing.T, d node.Document) []byte {
	t.Helper()
	body, err := d.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// many are n values under names of their own.
func many[T any](n int, v T) map[string]T {
	m := map[string]T{}
	for i := range n {
		m[fmt.Sprint(i)] = v
	}
	return m
}

// Each reader of what lies on a bus is fed with bodies that lie about each thing that
// their place says; the truth it takes.
func TestReadersBelieveThePlace(t *testing.T) {
	readers := map[string]func(place string, body []byte) error{
		"NODES":  func(place string, body []byte) error { _, _, err := ReadNode(place, body); return err },
		"WORK":   func(place string, body []byte) error { _, err := ReadWork(place, body); return err },
		"ALIVE":  func(place string, body []byte) error { _, err := ReadMember(place, body); return err },
		"GROUPS": func(place string, body []byte) error { _, err := ReadGroup(place, body); return err },
		"EVENTS": func(place string, body []byte) error { _, err := ReadEvent(place, body); return err },
	}
	for _, c := range []struct {
		bucket, what, place string
		body                []byte
		taken               bool
	}{
		{"NODES", "the truth", "g.n", document(t, node.Document{UUID: "n", Group: "G"}), true},
		{"NODES", "a name with a dot", "a=2Eb.n", document(t, node.Document{UUID: "n", Group: "a.b"}), true},
		{"NODES", "no group", "=.n", document(t, node.Document{UUID: "n"}), true},
		{"NODES", "another group", "g.n", document(t, node.Document{UUID: "n", Group: "other"}), false},
		{"NODES", "another node", "g.n", document(t, node.Document{UUID: "m", Group: "g"}), false},
		{"NODES", "no node", "g.n", document(t, node.Document{Group: "g"}), false},
		{"NODES", "a longer key", "g.x.n", document(t, node.Document{UUID: "n", Group: "g"}), false},
		{"NODES", "a shorter key", "n", document(t, node.Document{UUID: "n"}), false},
		{"WORK", "the truth", "g.n", text(t, work.Document{Node: "n", Group: "g"}), true},
		{"WORK", "another node", "g.n", text(t, work.Document{Node: "m", Group: "g"}), false},
		{"WORK", "another group", "g.n", text(t, work.Document{Node: "n", Group: "other"}), false},
		{"WORK", "no group", "g.n", text(t, work.Document{Node: "n"}), false},
		{"WORK", "a longer key", "g.x.n", text(t, work.Document{Node: "n", Group: "g"}), false},
		{"ALIVE", "the truth", "g.r=2Eexample", text(t, Member{Name: "r.example", Group: "g", BootURL: "http://[fd00::1]:8080", AgentURL: "https://10.0.0.1"}), true},
		{"ALIVE", "another name", "g.r", text(t, Member{Name: "s", Group: "g"}), false},
		{"ALIVE", "no name", "g.=", text(t, Member{Group: "g"}), false},
		{"ALIVE", "another group", "g.r", text(t, Member{Name: "r", Group: "other"}), false},
		{"ALIVE", "no group", "g.r", text(t, Member{Name: "r"}), false},
		{"ALIVE", "many hardware types", "g.r", text(t, Member{Name: "r", Group: "g", Drivers: many(101, map[string][]string(nil))}), false},
		{"ALIVE", "keys of many groups", "g.r", text(t, Member{Name: "r", Group: "g", Keys: many(1001, []string(nil))}), false},
		{"ALIVE", "much of one hardware type", "g.r", text(t, Member{Name: "r", Group: "g", Drivers: map[string]map[string][]string{"t": many(20_000, []string{})}}), false},
		{"ALIVE", "many implementations", "g.r", text(t, Member{Name: "r", Group: "g", Drivers: map[string]map[string][]string{"t": {"boot": make([]string, 101)}}}), false},
		{"GROUPS", "the truth", "g", text(t, Group{Name: "g"}), true},
		{"GROUPS", "another group", "g", text(t, Group{Name: "other"}), false},
		{"EVENTS", "the truth", "EVENTS.g.n", text(t, work.Event{Node: "n", Group: "g"}), true},
		{"EVENTS", "another node", "EVENTS.g.n", text(t, work.Event{Node: "m", Group: "g"}), false},
		{"EVENTS", "another group", "EVENTS.g.n", text(t, work.Event{Node: "n", Group: "other"}), false},
		{"EVENTS", "no group", "EVENTS.g.n", text(t, work.Event{Node: "n"}), false},
		{"EVENTS", "another stream", "$KV.WORK.g.n", text(t, work.Event{Node: "n", Group: "g"}), false},
		{"EVENTS", "a longer subject", "EVENTS.g.x.n", text(t, work.Event{Node: "n", Group: "g"}), false},
	} {
		switch err := readers[c.bucket](c.place, c.body); {
		case c.taken && err != nil:
			t.Errorf("%s, %s: %v", c.bucket, c.what, err)
		case !c.taken && err == nil:
			t.Errorf("%s, %s: it is taken", c.bucket, c.what)
		case !c.taken && !errors.Is(err, ErrLie):
			t.Errorf("%s, %s: no lie, but %v", c.bucket, c.what, err)
		}
	}
}

// What a member says is its URL becomes a word of boot scripts and of kernels' command
// lines.
func TestURLsThatCannotStandInABootScript(t *testing.T) {
	for _, u := range []string{"https://a b", "https://a\nshell", "https://a,https://b", "https://a;x", "ftp://a", "a", "//a", "https://", "https://u:p@a", "https://a/?x=1",
		"https://a/#x", "https://a/${x}", "https://a'", "https://\u00e4", "javascript:x"} {
		if _, err := ReadMember("g.r", text(t, Member{Name: "r", Group: "g", AgentURL: u})); err == nil {
			t.Errorf("%q is taken for the agents' URL", u)
		}
		if _, err := ReadMember("g.r", text(t, Member{Name: "r", Group: "g", BootURL: u})); err == nil {
			t.Errorf("%q is taken for the boot web's URL", u)
		}
	}
}
