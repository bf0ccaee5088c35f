package busview_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/busview"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
)

func TestEveryPlaceIsShown(t *testing.T) {
	s := bustest.Open(t)
	ctx := t.Context()
	key, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	body, err := (&node.Document{UUID: "n1", Name: "web1", Group: "rack-a", Driver: "redfish"}).AppendSigned(nil, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MakeConsoles(ctx, bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	for place, key := range map[string]string{bus.ConsolesBucket: bus.NodeKey("rack-a", "n1"), bus.NodesBucket: bus.NodeKey("rack-a", "n1"), bus.WorkBucket: bus.NodeKey("rack-a", "n1"), bus.AliveBucket: bus.MemberKey("rack-a", "r1"), bus.GroupsBucket: bus.GroupToken("rack-a")} {
		kv, err := s.JS.KeyValue(ctx, place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(ctx, key, body); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := s.JS.Publish(ctx, bus.EventSubject("rack-a", "n1"), body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Drives.PutBytes(ctx, "w1", []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	for _, name := range busview.Places {
		p, err := busview.Open(s.Conn, s.Name, strings.ToLower(name))
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.List(ctx)
		want := 1
		if name == bus.EventsStream {
			want = 2
		}
		if err != nil || len(list) != want || list[0].Size == 0 || list[0].Written.IsZero() || list[0].Key == "" {
			t.Fatalf("%s holds %+v, %v, want %d entries", name, list, err, want)
		}
		shown, err := p.Show(ctx, list[0].Key)
		if name == bus.ConfigDrives || name == bus.ConsolesBucket {
			if err == nil || !strings.Contains(err.Error(), "sealed") {
				t.Errorf("%s: %s, %v", name, shown, err)
			}
			continue
		}
		if err != nil || string(shown) != string(body) {
			t.Errorf("%s shows %s, %v, want %s", name, shown, err, body)
		}
	}
	nodes, err := busview.Open(s.Conn, s.Name, bus.NodesBucket)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Node struct{ Name string } }
	if shown, err := nodes.Show(ctx, "n1"); err != nil || json.Unmarshal(shown, &doc) != nil || doc.Node.Name != "web1" {
		t.Errorf("by the node's UUID: %s, %v", shown, err)
	}
	if _, err := nodes.Show(ctx, "n2"); err == nil || !strings.Contains(err.Error(), `no document "n2"`) {
		t.Errorf("a node that is not there: %v", err)
	}
	if _, err := s.Nodes.Put(ctx, bus.NodeKey("rack-a", "n3"), []byte("\x01\x02")); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Show(ctx, "n3"); err == nil || !strings.Contains(err.Error(), "is no JSON") {
		t.Errorf("what is no document: %v", err)
	}
	if _, err := busview.Open(s.Conn, s.Name, "NODE"); err == nil || !strings.Contains(err.Error(), bus.NodesBucket) {
		t.Errorf("a place that is not there: %v", err)
	}
}

func TestEmptyPlaces(t *testing.T) {
	s := bustest.Open(t)
	if err := s.MakeConsoles(t.Context(), bus.Settings{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range busview.Places {
		p, err := busview.Open(s.Conn, s.Name, name)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%s holds %+v, %v", name, list, err)
		}
	}
}
