package ring

import (
	"fmt"
	"testing"
)

func members(n int) []Member {
	var ms []Member
	for i := range n {
		ms = append(ms, Member{Name: fmt.Sprintf("rackd-%02d", i), Group: "g", Drivers: []string{"redfish"}})
	}
	return ms
}

func owners(r *Ring, nodes int) []string {
	out := make([]string, nodes)
	for i := range out {
		m, ok := r.Owner(fmt.Sprintf("node-%d", i), "redfish", "g")
		if ok {
			out[i] = m.Name
		}
	}
	return out
}

// A member that joins N takes about 1/(N+1) of the nodes, and only it gains any.
func TestJoinMovesOneNth(t *testing.T) {
	const nodes = 20000
	for n := 1; n <= 9; n += 2 {
		before, after := owners(New(members(n)), nodes), owners(New(members(n+1)), nodes)
		joined, moved := fmt.Sprintf("rackd-%02d", n), 0
		for i := range before {
			if before[i] == after[i] {
				continue
			}
			moved++
			if after[i] != joined {
				t.Fatalf("%d members: node %d moved from %s to %s, which did not join", n, i, before[i], after[i])
			}
		}
		want := float64(nodes) / float64(n+1)
		if f := float64(moved); f < 0.6*want || f > 1.4*want {
			t.Errorf("%d members and one more: %d of %d nodes moved, want about %.0f", n, moved, nodes, want)
		}
	}
}

func TestSharesAreEven(t *testing.T) {
	const nodes, n = 30000, 8
	count := map[string]int{}
	for _, o := range owners(New(members(n)), nodes) {
		count[o]++
	}
	for name, c := range count {
		if mean := nodes / n; c < mean*6/10 || c > mean*14/10 {
			t.Errorf("%s has %d nodes, mean is %d", name, c, mean)
		}
	}
	if len(count) != n {
		t.Errorf("%d of %d members have nodes", len(count), n)
	}
}

func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	ms := members(5)
	a := owners(New(ms), 500)
	ms[0], ms[3] = ms[3], ms[0]
	for i, b := range owners(New(ms), 500) {
		if a[i] != b {
			t.Fatalf("node %d: %s or %s, depending on the order of members", i, a[i], b)
		}
	}
}

func TestGroupsDriversAndFailover(t *testing.T) {
	r := New([]Member{
		{Name: "a", Group: "Rack1", Drivers: []string{"redfish"}},
		{Name: "b", Group: "rack2", Drivers: []string{"redfish", "ipmi"}},
	})
	for _, c := range []struct {
		driver, group string
		failover      []string
		want          string
	}{
		{"redfish", "rack1", nil, "a"},
		{"ipmi", "rack1", nil, ""},
		{"ipmi", "rack1", []string{"rack9", "rack2"}, "b"},
		{"redfish", "", nil, ""},
	} {
		m, ok := r.Owner("n", c.driver, c.group, c.failover...)
		if m.Name != c.want || ok != (c.want != "") {
			t.Errorf("driver %s group %q failover %v: got %q", c.driver, c.group, c.failover, m.Name)
		}
	}
}

// A member that does not read the form of a node's document has no such node; those that do
// share its part, and all others stay where they were.
func TestMembersThatReadOlderForms(t *testing.T) {
	ms := members(4)
	for i := range ms {
		ms[i].Documents = 2
	}
	before := New(ms)
	ms[1].Documents = 1
	after := New(ms)
	moved := map[string]int{}
	for i := range 1000 {
		node := fmt.Sprintf("node-%d", i)
		was, _ := before.OwnerOf(Need{Form: 2}, node, "redfish", "g")
		is, ok := after.OwnerOf(Need{Form: 2}, node, "redfish", "g")
		switch {
		case !ok || is.Name == ms[1].Name:
			t.Fatalf("%s of form 2 belongs to %q", node, is.Name)
		case was.Name == ms[1].Name:
			moved[is.Name]++
		case was.Name != is.Name:
			t.Fatalf("%s moved from %s to %s", node, was.Name, is.Name)
		}
		if old, _ := after.OwnerOf(Need{Form: 1}, node, "redfish", "g"); old.Name != was.Name {
			t.Fatalf("%s of form 1 moved from %s to %s", node, was.Name, old.Name)
		}
	}
	if len(moved) != 3 {
		t.Errorf("what was the old member's went to %v, want all three others", moved)
	}
	if m, ok := after.OwnerOf(Need{Form: 3}, "n", "redfish", "g"); ok {
		t.Errorf("a form that no member reads: %+v", m)
	}
	if m, ok := New(append(ms, Member{Name: "stand-in", Group: "other", Drivers: []string{"redfish"}, Documents: 3})).OwnerOf(Need{Form: 3}, "n", "redfish", "g", "other"); !ok || m.Name != "stand-in" {
		t.Errorf("a form that only a stand-in reads: %+v", m)
	}
}

// A member that has not got the key of a node's document is passed by for that node, and for no other; of
// one that says nothing of its keys nothing is known.
func TestMembersWithoutTheKey(t *testing.T) {
	ms := members(4)
	for i := range ms {
		ms[i].Keys = map[string][]string{"g": {"old", "new"}}
	}
	before := New(ms)
	ms[1].Keys = map[string][]string{"g": {"old"}}
	ms[2].Keys = nil
	after := New(ms)
	moved := map[string]int{}
	for i := range 1000 {
		node := fmt.Sprintf("node-%d", i)
		was, _ := before.OwnerOf(Need{Key: "new"}, node, "redfish", "G")
		is, ok := after.OwnerOf(Need{Key: "new"}, node, "redfish", "G")
		switch {
		case !ok || is.Name == ms[1].Name:
			t.Fatalf("%s belongs to %q", node, is.Name)
		case was.Name == ms[1].Name:
			moved[is.Name]++
		case was.Name != is.Name:
			t.Fatalf("%s moved from %s to %s", node, was.Name, is.Name)
		}
		for _, need := range []Need{{Key: "old"}, {}} {
			if other, _ := after.OwnerOf(need, node, "redfish", "g"); other.Name != was.Name {
				t.Fatalf("%s, which needs %+v, moved from %s to %s", node, need, was.Name, other.Name)
			}
		}
	}
	if len(moved) != 3 {
		t.Errorf("what was the late member's went to %v, want all three others", moved)
	}
	for i := range ms {
		ms[i].Keys = map[string][]string{"g": {"old"}}
	}
	if m, ok := New(ms).OwnerOf(Need{Key: "new"}, "n", "redfish", "g"); ok {
		t.Errorf("without any that has the key: %+v", m)
	}
}
