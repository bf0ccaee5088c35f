package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
)

func TestIncomplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const away, back = 20 * time.Second, 2 * time.Second
		w := newWatched(t)
		want := func(incomplete bool, group, when string) {
			t.Helper()
			if w.Incomplete(group, away, back) != incomplete {
				t.Errorf("%s, group %q: incomplete is not %t", when, group, incomplete)
			}
		}
		a := bus.Member{Name: "a", Group: "rack-a", Instance: "i", Lease: "1"}
		want(false, "rack-a", "alone")
		w.shows(a, 0)
		want(true, "rack-a", "just come")
		time.Sleep(back)
		want(false, "rack-a", "there")
		w.shows(a, 0)
		want(false, "rack-a", "renewed")
		w.expires(a)
		want(true, "rack-a", "gone")
		want(true, "rack-b", "gone") // which a stands in for
		want(false, "rack-c", "gone")
		time.Sleep(10 * time.Second)
		want(true, "rack-a", "still gone")
		a.Lease = "2"
		w.shows(a, 0)
		want(true, "rack-a", "just back")
		time.Sleep(back)
		want(false, "rack-a", "back")
		w.expires(a)
		time.Sleep(away)
		want(false, "rack-a", "gone for long")
		w.shows(a, 0)
		time.Sleep(back)
		reader{w.Lease}.Apply(entry{key: bus.MemberKey(a.Group, a.Name), op: jetstream.KeyValueDelete})
		want(false, "rack-a", "withdrawn")
		w.shows(a, 0)
		time.Sleep(back)
		reader{w.Lease}.Begin()
		reader{w.Lease}.Synced([]string{bus.MemberKey(a.Group, a.Name)})
		want(true, "rack-a", "missing when the members were read anew")
	})
}
