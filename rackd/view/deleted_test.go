package view

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
)

// goneNode is the end of a document of NODES as a watch shows it.
type goneNode struct{ shownNode }

func (goneNode) Operation() jetstream.KeyValueOp { return jetstream.KeyValueDelete }

// A node that is not held was deleted only where the bus has shown that: not where its group is no longer followed, nor where it is
// there again.
func TestANodeOfAForgottenGroupIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(nil, keys{}, groups{"g", "h"}, forged{}, func(string) {}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		put := func(id, group string) {
			t.Helper()
			body, err := (&node.Document{UUID: id, Group: group}).AppendSigned(nil, testKey(group))
			if err != nil {
				t.Fatal(err)
			}
			v.applyNode(shownNode{key: bus.NodeKey(group, id), body: body})
			if _, _, known := v.Kind(id); !known {
				t.Fatalf("node %s is not taken in", id)
			}
		}
		remove := func(id, group string) { v.applyNode(goneNode{shownNode{key: bus.NodeKey(group, id)}}) }
		want := func(what, id string, deleted bool) {
			t.Helper()
			if v.Deleted(id) != deleted {
				t.Errorf("%s: deleted %t, want %t", what, !deleted, deleted)
			}
		}
		want("never seen", "n", false)
		put("n", "g")
		want("there", "n", false)
		remove("n", "h")
		want("another group's key has ended", "n", false)
		remove("n", "g")
		want("its key has ended", "n", true)
		put("n", "g")
		want("enrolled again", "n", false)

		v.forget("g")
		want("its group is not followed any more", "n", false)
		put("n", "g") // it is followed again
		want("its group is followed again", "n", false)
		remove("n", "g")
		v.forget("h")
		want("another group is not followed any more", "n", true)
		v.forget("g")
		want("deleted, and then its group is not followed any more: it may be enrolled again unseen", "n", false)

		for _, id := range []string{"first", "second", "third"} {
			put(id, "g")
			remove(id, "g")
			time.Sleep(deletedFor)
			want(id+", after the time for which deletions are known", id, true)
			time.Sleep(time.Second)
		}
		want("after the time of two more", "first", false)
	})
}
