package roster_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/roster"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/bus/bustest"
	"github.com/ironyard/ironyard/protocol/node"
)

func member(name, group string) bus.Member {
	return bus.Member{Name: name, Group: group, Instance: name, Documents: node.Format, Drivers: map[string]map[string][]string{"fake-hardware": {"boot": {"fake"}}}}
}

func TestRosterFollowsTheLiving(t *testing.T) {
	t.Parallel()
	site := bustest.Open(t)
	counts := map[string]int{}
	r := roster.New(roster.Config{Log: slog.New(slog.DiscardHandler), Alive: func(site string, n int) { counts[site] = n },
		Failover: func(group string) []string { return map[string][]string{"lost": {"rack9", "rack1"}}[group] }})
	rev, err := site.Announce(t.Context(), member("b", "rack1"), 0) // alive before central
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := roster.Followed(t, r, site)
	defer func() {
		stop()
		if n, told := counts[""]; !told || n != 0 {
			t.Errorf("counts told %v, want 0 at the end", counts)
		}
	}()
	wait := func(n int) {
		t.Helper()
		if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == n }); err != nil {
			t.Fatalf("waiting for %d members: %v; there are %v", n, err, r.Conductors())
		}
	}
	wait(1)
	if !r.Read("") || r.Read("elsewhere") {
		t.Errorf("read: %v, and another site: %v", r.Read(""), r.Read("elsewhere"))
	}
	if m, ok := r.Owner("node", "fake-hardware", "RACK1"); !ok || m.Name != "b" {
		t.Errorf("owner %+v, %v", m, ok)
	}
	if m, ok := r.Owner("node", "fake-hardware", "lost"); !ok || m.Name != "b" {
		t.Errorf("a group whose second stand-in lives: owner %+v, %v", m, ok)
	}
	if _, ok := r.Owner("node", "redfish", "rack1"); ok {
		t.Error("a hardware type that nobody enables has an owner")
	}
	if _, ok := r.Owner("node", "fake-hardware", ""); ok {
		t.Error("a group without a rackd has an owner")
	}
	if _, err := site.Announce(t.Context(), member("a", ""), 0); err != nil {
		t.Fatal(err)
	}
	wait(2)
	if list := r.Conductors(); list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("conductors %v", list)
	}
	if d := r.Drivers()["fake-hardware"]; len(d) != 2 {
		t.Errorf("drivers %v", r.Drivers())
	}
	if err := site.Withdraw(t.Context(), member("b", "rack1"), rev); err != nil {
		t.Fatal(err)
	}
	wait(1)
	wait(0) // nobody renews a: its lease ends
}

// A stolen rackd beats as often as it likes, each time as another one, or as one that is not there. Central looks at its key now and then.
func TestBeatsOfAThief(t *testing.T) {
	t.Parallel()
	site := bustest.Open(t)
	var log bytes.Buffer
	r := roster.New(roster.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	asks, err := site.Conn.SubscribeSync("$JS.API.DIRECT.GET.KV_" + bus.AliveBucket + ".>")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := roster.Followed(t, r, site)
	rev, err := site.Announce(t.Context(), member("thief", "rack1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == 1 }); err != nil {
		t.Fatal(err)
	}
	n := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		m := member("thief", "rack1")
		n++
		m.Instance, m.Lease = fmt.Sprint(n), fmt.Sprint(n)
		if rev, err = site.Announce(t.Context(), m, rev); err != nil { // beats, too
			t.Fatal(err)
		}
		if err := site.Conn.Publish(bus.BeatSubject("rack1", "ghost"), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	looks, _, err := asks.Pending()
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(log.String(), "\n"); looks > 80 || lines > 50 {
		t.Errorf("after %d beats of each, central has looked %d times and written %d lines", n, looks, lines)
	}
}

// Whoever upgrades central first hears of the rackds that cannot follow it.
func TestRackdOfAnOlderFormOfDocumentsIsNamed(t *testing.T) {
	site := bustest.Open(t)
	former := member("former", "rack1")
	former.Documents = 0
	for _, m := range []bus.Member{former, member("now", "rack1")} {
		if _, err := site.Announce(t.Context(), m, 0); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	r := roster.New(roster.Config{Log: slog.New(slog.NewTextHandler(&said, nil))})
	ctx, stop := roster.Followed(t, r, site)
	if err := r.WaitFor(ctx, func(m []bus.Member) bool { return len(m) == 2 }); err != nil {
		t.Error(err)
	}
	stop()
	if text := said.String(); strings.Count(text, "cannot read the node documents") != 1 || !strings.Contains(text, "rackd=former") {
		t.Errorf("central said:\n%s", text)
	}
}
