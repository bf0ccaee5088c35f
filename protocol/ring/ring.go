// Package ring maps nodes to rackds by consistent hashing. It is the one place
// that decides who owns a node: central uses it to show the conductor of a node,
// rackds use it to know what to take.
//
// It may import nothing of the project. A join or a loss among N members moves
// about 1/N of the nodes.
package ring

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// PointsPerMember is how often each member stands on the ring. 128 keeps the
// largest share within about a quarter of the mean.
const PointsPerMember = 128

// Member is a live rackd as the ring sees it.
type Member struct {
	Name    string
	Group   string   // conductor group
	Drivers []string // enabled hardware types
	// Documents is the newest form of node documents that it reads.
	Documents int
	// Keys are the ids of the keys that it has of each conductor group, by group in lower case. Of a
	// group that is missing nothing is known.
	Keys map[string][]string
}

// Need is what a rackd needs so that it can read a node's document.
type Need struct {
	Form int    // of the document
	Key  string // id of the group's key with which the document is sealed; empty: any
}

// has reports whether the member has the key that a node of group needs, as far as is known.
func (m Member) has(group, key string) bool {
	ids, said := m.Keys[strings.ToLower(group)]
	return key == "" || !said || slices.Contains(ids, key)
}

// Ring is immutable and safe for concurrent use.
type Ring struct {
	members []Member
	rings   map[key][]point // one for each group and hardware type
}

type key struct{ group, driver string }

type point struct {
	hash   uint64
	member int
}

// New builds the rings of all groups and hardware types among members. The order
// of members does not matter; of two with one name in one group the later counts. Two of
// one name in two groups are two.
func New(members []Member) *Ring {
	type identity struct{ name, group string }
	each := map[identity]Member{}
	for _, m := range members {
		each[identity{m.Name, strings.ToLower(m.Group)}] = m
	}
	r := &Ring{rings: map[key][]point{}}
	for _, m := range each {
		r.members = append(r.members, m)
	}
	slices.SortFunc(r.members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(strings.ToLower(a.Group), strings.ToLower(b.Group)))
	})
	for i, m := range r.members {
		points := make([]point, PointsPerMember)
		for n := range points {
			points[n] = point{hash(m.Name + "#" + strconv.Itoa(n)), i}
		}
		for _, d := range m.Drivers {
			k := key{strings.ToLower(m.Group), d}
			r.rings[k] = append(r.rings[k], points...)
		}
	}
	for _, points := range r.rings {
		slices.SortFunc(points, func(a, b point) int {
			return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.member, b.member))
		})
	}
	return r
}

// Owner returns the member that serves a node: on the ring of the node's group
// and hardware type, else on those of the failover groups in order. ok is false
// when none of the groups has a live member with the hardware type.
func (r *Ring) Owner(node, driver, group string, failover ...string) (m Member, ok bool) {
	return r.OwnerOf(Need{}, node, driver, group, failover...)
}

// OwnerOf is Owner for a node whose document not all members can read. The ring passes by those
// that cannot: what would be theirs goes to the next on it that can.
func (r *Ring) OwnerOf(need Need, node, driver, group string, failover ...string) (m Member, ok bool) {
	for _, g := range append([]string{group}, failover...) {
		points := r.rings[key{strings.ToLower(g), driver}]
		if len(points) == 0 {
			continue
		}
		h := hash(node)
		i, _ := slices.BinarySearchFunc(points, h, func(p point, h uint64) int { return cmp.Compare(p.hash, h) })
		for step := range points {
			if m := r.members[points[(i+step)%len(points)].member]; m.Documents >= need.Form && m.has(group, need.Key) {
				return m, true
			}
		}
	}
	return Member{}, false
}

// Members returns the members in order of name; the caller must not change them.
func (r *Ring) Members() []Member { return r.members }

func hash(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:8])
}
