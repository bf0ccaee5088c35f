package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// replica is another server on the same database.
func (b *bench) replica() *bench {
	other := *b
	other.server = New(b.server.Config)
	return &other
}

// Whatever happens to a node, also by others' hands, the next answer shows it: it is the
// one of a server that has kept nothing.
func TestKeptNodesAreNeverOld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addNode()
	for i := range 40 { // more than are filled one by one
		b.want(201, "POST", "/v1/nodes", "1.115", fmt.Sprintf(`{"name":"other-%d","driver":"fake-hardware"}`, i))
	}
	elsewhere, fresh := b.replica(), b.replica()
	reads := []string{"/v1/nodes/" + nodeID, "/v1/nodes/" + strings.ReplaceAll(nodeID, "-", ""), "/v1/nodes/n1", "/v1/nodes/detail?sort_key=name",
		"/v1/nodes/detail?limit=7", "/v1/nodes?detail=true", "/v1/nodes/detail?conductor=rack-1", "/v1/nodes/detail?provision_state=available"}
	check := func(what string) {
		t.Helper()
		fresh.server.Roster, fresh.server.PublicEndpoint = b.server.Roster, b.server.PublicEndpoint
		for _, path := range reads {
			for _, version := range []string{"1.1", "1.48", "1.115"} {
				for range 2 { // made, and kept
					fresh.server.encoded = encodedNodes{now: b.server.Now}
					got, want := b.do("GET", path, version, ""), fresh.do("GET", path, version, "")
					if got.StatusCode != want.StatusCode || got.body != want.body {
						t.Fatalf("after %s, %s at %s: %d\n%s\nwant %d\n%s", what, path, version, got.StatusCode, got.body, want.StatusCode, want.body)
					}
				}
			}
		}
	}
	check("the beginning")
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a patch", func() {
			elsewhere.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/extra/x","value":"<1.50>"}]`)
		}},
		{"a deploy", func() {
			elsewhere.move("n1", provision.Available, "", nil)
			elsewhere.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"active"}`)
		}},
		{"an observation", func() {
			elsewhere.observe("n1", func(n *store.Node) { n.PowerState, n.RAIDConfig = "power on", map[string]any{"disks": 2} })
		}},
		{"the end of the work", func() { elsewhere.move("n1", provision.Active, "", nil) }},
		{"traits", func() { elsewhere.want(204, "PUT", "/v1/nodes/n1/traits", "1.115", `{"traits":["CUSTOM_A"]}`) }},
		{"another conductor", func() {
			b.server.Roster = fakeRoster{{Name: "rack-9", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}}}
		}},
		{"no conductor", func() { b.server.Roster = fakeRoster{} }},
		{"a conductor again", func() {
			b.server.Roster = fakeRoster{bus.Member{Name: "rack-1", Drivers: map[string]map[string][]string{"fake-hardware": fakeDriver}}}
		}},
		{"another node", func() {
			elsewhere.want(201, "POST", "/v1/nodes", "1.115", `{"name":"a-first","driver":"fake-hardware"}`)
		}},
		{"another name for us", func() { b.server.PublicEndpoint = "https://other.example" }},
		{"maintenance", func() { elsewhere.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{"reason":"x"}`) }},
		{"its end", func() {
			elsewhere.move("n1", provision.Available, "", nil)
			elsewhere.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
		}},
	} {
		step.do()
		check(step.what)
	}
}

// While many write, nobody reads what was before the last write that they know of.
func TestKeptNodesKeepUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addNode()
	b.server.routed = nil
	const writes = 60
	var wg sync.WaitGroup
	var mu sync.Mutex
	last := 0
	done := make(chan struct{})
	known := func() int { mu.Lock(); defer mu.Unlock(); return last }
	for _, path := range []string{"/v1/nodes/" + nodeID, "/v1/nodes/detail"} {
		reader := *b // what a bench notes of its last request is its own
		wg.Go(func() {
			for {
				least := known()
				var seen int
				_, text, _ := strings.Cut(reader.do("GET", path, "1.115", "").body, `"round":`)
				fmt.Sscanf(text, "%d", &seen)
				if seen < least {
					t.Errorf("%s shows round %d after round %d", path, seen, least)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range writes {
		err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, nodeID)
			if err != nil {
				return err
			}
			n.Extra = map[string]any{"round": i + 1}
			return tx.UpdateNode(ctx, n)
		})
		if err != nil {
			t.Error(err)
			break
		}
		mu.Lock()
		last = i + 1
		mu.Unlock()
	}
	close(done)
	wg.Wait()
}

// What an administrator has been shown is not what others get.
func TestKeptNodesAreForThoseWhoSeeAll(t *testing.T) {
	b := newGuarded(t)
	const path = "/v1/nodes/" + nodeID
	whole := b.wantAs(200, "system "+adminRoles, "GET", path, "").body
	if again := b.wantAs(200, "system "+adminRoles, "GET", path, "").body; again != whole || b.server.encoded.find(nodeID, 115) == nil {
		t.Errorf("the administrator's node is not kept, or differs:\n%s\n%s", again, whole)
	}
	for _, path := range []string{path, "/v1/nodes/detail"} {
		lessee := b.wantAs(200, lesseeProject+" "+memberRoles, "GET", path, "").body
		if !strings.Contains(lessee, "Redacted") || strings.Contains(lessee, "https://bmc") {
			t.Errorf("%s: the lessee got %s", path, lessee)
		}
	}
	b.wantAs(404, foreignProject+" "+adminRoles, "GET", path, "")
}

// What is kept is bounded in size and in time.
func TestKeptNodesAreBounded(t *testing.T) {
	now := noon
	e := encodedNodes{now: func() time.Time { return now }}
	body := make([]byte, 1<<20)
	rand.Read(body) // what cannot be packed
	for i := range 100 {
		e.keep(115, &store.Node{UUID: fmt.Sprint(i)}, "", body, 0)
	}
	size := 0
	for _, generation := range []map[encodedKey]*encodedNode{e.young, e.old} {
		for _, n := range generation {
			size += n.fields.Taken()
		}
	}
	if size > 2*maxGeneration+2*len(body) || e.find("99", 115) == nil || e.find("0", 115) != nil {
		t.Errorf("%d bytes are kept, want the last and at most %d", size, 2*maxGeneration)
	}
	for _, some := range []bool{true, false} {
		now = now.Add(maxGenerationAge + time.Second)
		if e.age() != some {
			t.Errorf("after %v something is kept: %t, want %t", now.Sub(noon), !some, some)
		}
	}
}
