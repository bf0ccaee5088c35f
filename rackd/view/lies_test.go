package view

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/work"
)

// liar is a view that follows rack-a and rack-b, of which rack-b's rackd stands in for
// rack-a, and what a rackd of rack-a may write.
type liar struct {
	*testing.T
	*View
	site    *bus.Site
	changed chan string
}

func newLiar(t *testing.T) *liar {
	l := &liar{T: t, site: bustest.Open(t), changed: make(chan string, 1000)}
	l.View = New(l.site, keys{}, groups{"rack-b", "rack-a"}, forged{}, func(id string) { l.changed <- id }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	return l
}

func (l *liar) follow() {
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan error, 1)
	go func() { done <- l.View.Run(ctx) }()
	l.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
	<-l.View.Synced()
}

func (l *liar) write(key string, d work.Document) {
	l.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		l.Fatal(err)
	}
	if _, err := l.site.Work.Put(l.Context(), key, body); err != nil {
		l.Fatal(err)
	}
}

// shown waits until the view has been shown all that was written below rack-a and rack-b.
func (l *liar) shown() {
	l.Helper()
	for _, group := range []string{"rack-a", "rack-b"} {
		mark := "mark-" + rand.Text()
		put(l.T, l.site, node.Document{UUID: mark, Group: group})
		l.write(bus.NodeKey(group, mark), work.Document{ID: mark, Node: mark, Group: group})
		limit := time.After(10 * time.Second)
		for l.Work(mark) == nil {
			select {
			case <-l.changed:
			case <-limit:
				l.Fatal("the view is not shown what was written")
			}
		}
	}
}

// With rack-b standing in for rack-a, its rackd follows both. What a rackd of rack-a
// writes about a node of rack-b is not acted on, whatever its key and body say; nor does
// it hide the node's own work.
func TestWorkUnderAnotherGroupIsNotTheNodes(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	put(t, l.site, node.Document{UUID: "victim", Group: "rack-b"})
	put(t, l.site, node.Document{UUID: "own", Group: "rack-a"})
	off := func(id, uuid, group string) work.Document {
		return work.Document{ID: id, Node: uuid, Group: group, Verb: work.Power, Args: work.Args{PowerTarget: "power off"}, Epoch: 9}
	}
	l.write(bus.NodeKey("rack-a", "victim"), off("before", "victim", "rack-a")) // before it began
	l.follow()
	for what, d := range map[string]work.Document{
		"key and body agree":    off("lie", "victim", "rack-a"),
		"the body names rack-b": off("lie", "victim", "rack-b"),
		"no group":              off("lie", "victim", ""),
	} {
		l.write(bus.NodeKey("rack-a", "victim"), d)
		l.shown()
		if w := l.Work("victim"); w != nil {
			t.Errorf("%s: the node's work is %q of group %q", what, w.Doc.ID, w.Doc.Group)
		}
	}
	l.write(bus.NodeKey("rack-a", "own"), off("lie", "victim", "rack-b")) // another node
	l.shown()
	if w := l.Work("victim"); w != nil {
		t.Errorf("a key of another node: the node's work is %q", w.Doc.ID)
	}
	l.write(bus.NodeKey("rack-b", "victim"), off("true", "victim", "rack-b"))
	l.shown()
	l.write(bus.NodeKey("rack-a", "victim"), off("lie", "victim", "rack-a"))
	l.shown()
	if w := l.Work("victim"); w == nil || w.Doc.ID != "true" {
		t.Fatalf("the node's work is hidden: %+v", w)
	}
	if err := l.site.Work.Delete(t.Context(), bus.NodeKey("rack-a", "victim")); err != nil {
		t.Fatal(err)
	}
	l.shown()
	if w := l.Work("victim"); w == nil || w.Doc.ID != "true" {
		t.Errorf("a deleted lie took the node's work with it: %+v", w)
	}
}

// A document of NODES that names another group or node than its key is not taken.
func TestNodeDocumentsThatLieAreNotTaken(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	put(t, l.site, node.Document{UUID: "n", Group: "rack-b", Driver: "true"})
	l.follow()
	body, err := (&node.Document{UUID: "n", Group: "rack-b", Driver: "lie"}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(node.Document{UUID: "n", Group: "rack-a", Driver: "lie"})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		key  string
		body []byte
	}{
		"another group":                  {bus.NodeKey("rack-a", "n"), body},
		"another node, as JSON":          {bus.NodeKey("rack-a", "m"), old},
		"another group, as JSON":         {bus.NodeKey("rack-b", "n"), old},
		"a key with more than two parts": {"rack-b.x.n", body},
	} {
		if _, err := l.site.Nodes.Put(t.Context(), c.key, c.body); err != nil {
			t.Fatal(err)
		}
		l.shown()
		if n := l.Node("n"); n == nil || n.Driver != "true" {
			t.Fatalf("%s: the document is %+v", what, n)
		}
		if l.Node("m") != nil {
			t.Fatalf("%s: there is a node m", what)
		}
	}
	if err := l.site.Nodes.Delete(t.Context(), bus.NodeKey("rack-a", "n")); err != nil {
		t.Fatal(err)
	}
	l.shown()
	if l.Node("n") == nil {
		t.Error("the end of another group's key took the node with it")
	}
}

// Work under a group that its node is not of is told as an alarm, once, when the node's
// document has had time to come.
func TestWorkUnderAnotherGroupIsTold(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	var lies int
	l.site.Refused = func(bucket string, lie bool) {
		if bucket == bus.WorkBucket && lie {
			lies++
		}
	}
	kept, err := (&node.Document{UUID: "n", Group: "rack-b"}).AppendSigned(nil, testKey("rack-b"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := shownNode{key: bus.NodeKey("rack-b", "n"), body: kept}
	l.applyNode(nodes)
	for _, group := range []string{"rack-a", "rack-b"} {
		l.applyWork(shownWork{nodes, work.Document{ID: "of " + group, Node: "n", Group: group}})
	}
	l.tellLiars("rack-a")
	if lies != 0 {
		t.Errorf("%d are told at once: the node may just have come to the group", lies)
	}
	for _, w := range l.works {
		w.Seen = w.Seen.Add(-movedWithin)
	}
	for range 3 {
		l.tellLiars("rack-a")
		l.tellLiars("rack-b")
	}
	if lies != 1 {
		t.Errorf("%d are told, want one", lies)
	}
	if w := l.Work("n"); w == nil || w.Doc.ID != "of rack-b" {
		t.Errorf("the node's work is %+v", w)
	}
}

// shownNode is a document of NODES as a watch shows it.
type shownNode struct {
	jetstream.KeyValueEntry
	key  string
	body []byte
}

func (e shownNode) Key() string                     { return e.key }
func (e shownNode) Value() []byte                   { return e.body }
func (e shownNode) Revision() uint64                { return 1 }
func (e shownNode) Created() time.Time              { return time.Now() }
func (e shownNode) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// shownWork is a document of WORK as a watch shows it.
type shownWork struct {
	shownNode
	doc work.Document
}

func (e shownWork) Key() string   { return bus.NodeKey(e.doc.Group, e.doc.Node) }
func (e shownWork) Value() []byte { body, _ := json.Marshal(e.doc); return body }
