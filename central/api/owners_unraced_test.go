//go:build !race

package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A node changes hands after a request of its former owner was judged: the request does what the former
// owner may do then, which is nothing, or what a lessee may.
func TestTheNewOwnersNodeIsNotTheFormerOwners(t *testing.T) {
	t.Parallel()
	const owner = ownerProject + " " + adminRoles
	rules := policy.Default("").For(&auth.Caller{Project: ownerProject, Roles: strings.Split(adminRoles, ",")})
	covered, refused := map[string]bool{}, 0
	for _, q := range ownersRequests {
		covered[q.method+" "+q.route] = true
		t.Run(q.method+" "+q.path+" of the owner", func(t *testing.T) {
			b, _ := newOwned(t)
			if a := b.as(owner, q.method, q.path, q.body); a.StatusCode >= 300 {
				t.Errorf("status %d: %s", a.StatusCode, a.body)
			}
		})
		for _, lessee := range []string{"", ownerProject} {
			t.Run(q.method+" "+q.path+" lent to "+lessee, func(t *testing.T) {
				b, asker := newOwned(t)
				var after string
				route := b.before(q.method, q.route, func() {
					b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Owner, n.Lessee = foreignProject, lessee })
					after = b.snapshot()
				})
				of := &policy.Target{NodeOwner: foreignProject, NodeLessee: lessee}
				may := rules.Allows(route.Policy, of) || route.Own != "" && rules.Allows(route.Own, of)
				a := b.as(owner, q.method, q.path, q.body)
				if now := b.snapshot(); !may && (a.StatusCode != 404 && a.StatusCode != 403 || now != after || asker.done > 0) {
					t.Errorf("the former owner: status %d, want 403 or 404; changed: %v; questions to the rack that do something: %d; %s",
						a.StatusCode, now != after, asker.done, a.body)
				} else if may && a.StatusCode >= 300 {
					t.Errorf("the lessee: status %d: %s", a.StatusCode, a.body)
				} else if !may {
					refused++
				}
			})
		}
	}
	for _, row := range matrix {
		method, _, _ := strings.Cut(row.route, " ")
		if may, _, _ := strings.Cut(row.owner, "/"); may != "" && recorded(method) && !covered[row.route] {
			t.Errorf("%s may change something of a node's owner, and is not tried here", row.route)
		}
	}
	if refused < len(ownersRequests) {
		t.Errorf("%d requests were refused, want %d at least", refused, len(ownersRequests))
	}
}
