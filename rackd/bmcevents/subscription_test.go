package bmcevents

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
	"github.com/ironyard/ironyard/rackd/driver/networkboot"
)

// site is the nodes of a group with their BMCs, as its rackds see them. BMCs are known by their accounts, and post.
type site struct {
	mu     sync.Mutex
	nodes  map[string]*node.Document
	owner  map[string]string // rackd, by node
	at     map[string][]string
	writes int
	hw     *driver.Hardware
	err    error
}

func (s *site) set(do func()) { s.mu.Lock(); defer s.mu.Unlock(); do() }

// poster is a management interface whose BMC has no stream.
type poster struct {
	driver.Management
	*site
}

func (p poster) SendEvents(_ context.Context, f driver.Fence, n *node.Document, to string, stale func(string) bool) (err error) {
	bmc, _, _ := strings.Cut(n.DriverString("account"), "/")
	var had []string
	p.set(func() { had, err = slices.Clone(p.at[bmc]), p.err })
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(had), func(at string) bool { return at != to && stale(at) })
	if to != "" && !slices.Contains(kept, to) {
		kept = append(kept, to)
	}
	if slices.Equal(kept, had) {
		return nil
	}
	if err := f.Check(); err != nil {
		return err
	}
	p.set(func() { p.at[bmc], p.writes = kept, p.writes+1 })
	return nil
}

func (poster) PostedEvents(post []byte) []driver.BMCEvent { return nil }

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{nodes: map[string]*node.Document{}, owner: map[string]string{}, at: map[string][]string{}}
	hw := drivertest.NewRig().Task(networkboot.IPXE()).Hardware
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": {{Name: "p", Impl: power{hw.Power()}}},
		"management": {{Name: "m", Impl: poster{hw.Management(), s}}}, "boot": {{Name: "b", Impl: hw.Boot()}}, "deploy": {{Name: "d", Impl: hw.Deploy()}}}})
	if err != nil {
		t.Fatal(err)
	}
	if s.hw, err = reg.Resolve(&node.Document{Driver: "t"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// rack is a rackd of the site.
type rack struct {
	*site
	*Listener
	name  string
	looks map[string]int
}

func (s *site) rackd(t *testing.T, name string) *rack {
	t.Helper()
	r := &rack{site: s, name: name, looks: map[string]int{}}
	r.Listener = New(Config{Nodes: r, Codes: r, Base: "https://" + name, Log: slog.New(slog.DiscardHandler), Look: func(id string, _ time.Duration) {
		s.set(func() { r.looks[id]++ })
	}})
	return r
}

func (r *rack) Owned(id string) (n *node.Document, hw *driver.Hardware, err error) {
	r.set(func() {
		if r.owner[id] == r.name {
			n = r.nodes[id]
		}
	})
	return n, r.hw, nil
}
func (r *rack) Knows(id string) (known bool) {
	r.set(func() { known = r.nodes[id] != nil })
	return known
}
func (r *rack) Fence(*node.Document) driver.Fence     { return new(drivertest.Fence) }
func (r *rack) LeftFence(*node.Document) driver.Fence { return new(drivertest.Fence) }
func (r *rack) Code(n *node.Document, account string) string {
	return "code-of-" + n.UUID + "-" + strings.ReplaceAll(account, "/", "-")
}
func (r *rack) Fits(id, code string) bool { return strings.HasPrefix(code, "code-of-"+id+"-") }

// turn gives each node of the rackd its turn.
func (r *rack) turn(t *testing.T) {
	t.Helper()
	var ids []string
	r.set(func() {
		for id := range r.nodes {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	for _, id := range ids {
		if n, hw, _ := r.Owned(id); n != nil {
			if err := r.Task().Do(t.Context(), n, hw); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s *site) enrol(id, account, owner string) {
	s.set(func() {
		s.nodes[id] = nodeOf(id, account)
		s.owner[id] = owner
	})
}

// wants checks where a BMC posts.
func (s *site) wants(t *testing.T, why, bmc string, want ...string) {
	t.Helper()
	s.set(func() {
		if !slices.Equal(s.at[bmc], want) {
			t.Errorf("%s: BMC %s posts to %q, want %q", why, bmc, s.at[bmc], want)
		}
	})
}

// A BMC without a stream posts to one address of the rackd that has its nodes; nothing of ours stays behind.
func TestSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		a, b := s.rackd(t, "a"), s.rackd(t, "b")
		for _, r := range []*rack{a, b} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- r.Run(ctx) }()
			defer func() { cancel(); <-done }()
		}
		synctest.Wait()
		minutes := func(n int) {
			for range n {
				time.Sleep(time.Minute)
				a.turn(t)
				b.turn(t)
			}
			synctest.Wait()
		}
		const strange = "https://other.example" + Prefix + "n1/code"
		s.at["one"] = []string{strange}
		s.enrol("n1", "one/pass", "a")
		s.enrol("n2", "one/pass", "a")
		s.enrol("n3", "two/pass", "a")
		minutes(1)
		address := func(rackd, id, account string) string {
			return "https://" + rackd + Prefix + id + "/code-of-" + id + "-" + account
		}
		s.wants(t, "two nodes of a BMC", "one", strange, address("a", "n1", "one-pass"))
		s.wants(t, "one node", "two", address("a", "n3", "two-pass"))
		writes := s.writes
		minutes(40)
		if s.writes != writes {
			t.Errorf("%d writes where nothing has changed", s.writes-writes)
		}
		s.set(func() { s.at["two"] = nil }) // a BMC that forgets
		minutes(20)
		s.wants(t, "a BMC that has forgotten", "two", address("a", "n3", "two-pass"))

		s.set(func() { s.owner["n3"] = "b" }) // a takeover
		minutes(10)
		s.wants(t, "after a takeover", "two", address("b", "n3", "two-pass"))
		s.enrol("n3", "two/other", "b") // another password
		minutes(10)
		s.wants(t, "after another password", "two", address("b", "n3", "two-other"))
		s.enrol("n3", "three/other", "b") // another BMC
		minutes(10)
		s.wants(t, "the BMC of before", "two")
		s.wants(t, "another BMC", "three", address("b", "n3", "three-other"))

		s.set(func() { delete(s.nodes, "n1") }) // that the address names
		minutes(20)
		s.wants(t, "the other node of the BMC", "one", strange, address("a", "n2", "one-pass"))
		s.set(func() { delete(s.nodes, "n2"); delete(s.nodes, "n3") })
		minutes(10)
		s.wants(t, "no node is left", "one", strange)
		s.wants(t, "no node is left", "three")
		if len(a.streams)+len(a.named)+len(b.streams)+len(b.named) != 0 {
			t.Errorf("what is kept of nodes that are gone: %v %v %v %v", a.streams, a.named, b.streams, b.named)
		}
	})
}

// Nodes of one BMC may be of two rackds. What stands there for nodes of before goes.
func TestSubscriptionsOfOthers(t *testing.T) {
	s := newSite(t)
	a, b := s.rackd(t, "a"), s.rackd(t, "b")
	a.ends, b.ends = t.Context(), t.Context()
	s.enrol("n1", "one/pass", "a")
	s.enrol("n2", "one/pass", "b")
	s.at["one"] = []string{"https://c" + Prefix + "n1/code-of-n1-one-pass", "https://c" + Prefix + "gone/code-of-gone-one-pass", "https://a" + Prefix + "n1/of-an-old-key"}
	a.turn(t)
	b.turn(t)
	s.wants(t, "two rackds", "one", "https://a"+Prefix+"n1/code-of-n1-one-pass", "https://b"+Prefix+"n2/code-of-n2-one-pass")

	s.err = fmt.Errorf("none: %w", driver.ErrUnsupported)
	s.enrol("n4", "four/pass", "a")
	n, hw, _ := a.Owned("n4")
	if err := a.Task().Do(t.Context(), n, hw); err == nil {
		t.Error("a BMC without events is as one with")
	}
	s.err = nil
	if err := a.Task().Do(t.Context(), n, hw); err != nil || len(s.at["four"]) != 0 {
		t.Errorf("a BMC without events was asked again at once: %v", err)
	}
}

// A post with the right code has the nodes of its BMC looked at, at a bounded rate; any other one does nothing.
func TestPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		a := s.rackd(t, "a")
		a.ends = t.Context()
		s.enrol("n1", "one/pass", "a")
		s.enrol("n2", "one/pass", "a")
		a.turn(t)
		clear(a.looks)
		h := a.Handler()
		post := func(method, path, body string, want int) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
			if w.Code != want {
				t.Errorf("%s %s is answered %d, want %d", method, path, w.Code, want)
			}
			// Whose machine it is may read the code at its BMC: it is no right to connections.
			if method == "POST" && w.Header().Get("Connection") != "close" {
				t.Errorf("%s: the connection stays", path)
			}
		}
		at := Prefix + "n1/code-of-n1-one-pass"
		post("POST", Prefix+"n1/code", "{}", http.StatusNotFound)
		post("GET", at, "", http.StatusMethodNotAllowed)
		post("POST", at, `{"MetricValues":[{}]}`, http.StatusNoContent)
		if len(a.looks) != 0 {
			t.Errorf("looks %v", a.looks)
		}
		within := map[time.Duration]int{}
		a.Look = func(id string, soon time.Duration) { within[soon]++ }
		for range 100 {
			post("POST", at, `{"Events":[{"MessageId":"ResourceEvent.1.0.ResourceStatusChanged"}]}`, http.StatusNoContent)
			time.Sleep(100 * time.Millisecond)
		}
		if within[0] != 4 || within[lookPause] != 196 { // each for two nodes
			t.Errorf("100 events in 10 s caused looks %v", within)
		}
		clear(within)
		time.Sleep(lookPause)
		post("POST", at, strings.Repeat("x", 2*mostPost), http.StatusNoContent)
		post("POST", at, "no JSON", http.StatusNoContent)
		post("POST", Prefix+"n9/code-of-n9-", "{}", http.StatusNoContent) // of another rackd's, or before this one's subscription
		if within[0] != 2 || within[lookPause] != 3 {
			t.Errorf("looks %v", within)
		}
	})
}
