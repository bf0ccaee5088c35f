package bus

import (
	"strings"
	"testing"
)

// FuzzReaders feeds every reader of the bus with any key and body. What is taken fits
// its place.
func FuzzReaders(f *testing.F) {
	const id = "6f3d2c8e-0000-4000-8000-000000000001"
	f.Add("rack-a."+id, []byte(`{"node":"`+id+`","group":"rack-a","verb":"power"}`))
	f.Add("rack-a.rackd-1", []byte(`{"name":"rackd-1","group":"rack-a","boot_url":"http://10.0.0.1:8080"}`))
	f.Add("rack-a", []byte(`{"name":"rack-a","failover":["rack-b"]}`))
	f.Add("=.x", []byte(`{"name":"x"}`))
	f.Fuzz(func(t *testing.T, key string, body []byte) {
		token, id, _ := strings.Cut(key, ".")
		if d, err := ReadWork(key, body); err == nil && (d.Node != id || GroupToken(d.Group) != token) {
			t.Errorf("work of node %q, group %q was read below %q", d.Node, d.Group, key)
		}
		if n, _, err := ReadNode(key, body); err == nil && GroupToken(n.Group) != token {
			t.Errorf("a node of group %q was read below %q", n.Group, key)
		}
		if m, err := ReadMember(key, body); err == nil && (GroupToken(m.Group) != token || GroupToken(m.Name) != id || strings.ContainsAny(m.BootURL+m.BootTLSURL+m.AgentURL, " \n\"$")) {
			t.Errorf("member %+v was read below %q", m, key)
		}
		if g, err := ReadGroup(key, body); err == nil && GroupKey(g.Name) != key {
			t.Errorf("group %q was read below %q", g.Name, key)
		}
		if e, err := ReadEvent(EventsStream+"."+key, body); err == nil && (e.Node != id || GroupToken(e.Group) != token) {
			t.Errorf("an event about node %q, group %q was read from %q", e.Node, e.Group, key)
		}
		ReadNodeRevision(key, body) // an error or a number, never a panic
	})
}
