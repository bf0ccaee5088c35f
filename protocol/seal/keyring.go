package seal

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// Keyring holds the keys of the conductor groups that a rackd may serve: its own,
// and those for which its group is a failover. It is safe for concurrent use. Only Adopt
// changes it.
type Keyring struct {
	held atomic.Pointer[heldKeys]
}

// heldKeys does not change.
type heldKeys struct {
	byGroup map[string]*Key
	over    chan struct{} // closed when others have taken their place
}

func newKeyring(keys map[string]*Key) *Keyring {
	r := new(Keyring)
	r.held.Store(&heldKeys{keys, make(chan struct{})})
	return r
}

// all are the keys by group, which nothing changes.
func (r *Keyring) all() map[string]*Key { return r.held.Load().byGroup }

// Replaced is closed when other keys have taken the place of those that are there now.
func (r *Keyring) Replaced() <-chan struct{} { return r.held.Load().over }

// NewKeyring holds one group's key.
func NewKeyring(group string, key *Key) *Keyring {
	return newKeyring(map[string]*Key{strings.ToLower(group): key})
}

// Adopt takes over another keyring's keys. It refuses one whose groups are others, or which has
// no generation of a group's key that is there now: agents that run would lose their rackd unasked.
func (r *Keyring) Adopt(from *Keyring) error {
	old, fresh := r.all(), from.all()
	if !slices.Equal(r.Groups(), from.Groups()) {
		return fmt.Errorf("keys of the groups %q take the place of those of %q", from.Groups(), r.Groups())
	}
	for group, key := range fresh {
		if !slices.ContainsFunc(key.Generations(), old[group].has) {
			return fmt.Errorf("no generation of the key of group %q has stayed", group)
		}
	}
	close(r.held.Swap(&heldKeys{fresh, make(chan struct{})}).over)
	return nil
}

// has reports whether the newest generation of g is one of k's.
func (k *Key) has(g *Key) (has bool) {
	for _, own := range k.Generations() {
		has = has || subtle.ConstantTimeCompare(own.raw, g.raw) == 1
	}
	return has
}

// noGroup stands in a key file for the group of nodes that have none.
const noGroup = "="

// ParseKeyring reads a key file: a line of KEY for the rackd's own group, lines of
// "GROUP KEY" for others. A further line for a group is an older generation of its
// key, and = as GROUP is the group without a name. Empty lines and those that begin with # are left out.
func ParseKeyring(text, own string) (*Keyring, error) {
	keys := map[string]*Key{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		group, secret := own, line
		if g, s, two := strings.Cut(line, " "); two {
			group, secret = strings.TrimPrefix(g, noGroup), s
		}
		key, err := ParseKey(secret)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		group = strings.ToLower(group)
		if newer := keys[group]; newer != nil {
			key = newer.WithOlder(key)
		}
		keys[group] = key
	}
	if keys[strings.ToLower(own)] == nil {
		return nil, fmt.Errorf("no key of conductor group %q", own)
	}
	return newKeyring(keys), nil
}

// Text is the keyring as ParseKeyring reads it, own being the rackd's group: keep it
// out of logs.
func (r *Keyring) Text(own string) string {
	var b strings.Builder
	own = strings.ToLower(own)
	keys := r.all()
	for _, g := range append([]string{own}, r.Groups()...) {
		if keys[g] == nil || g == own && b.Len() > 0 {
			continue
		}
		for line := range strings.Lines(keys[g].Text()) {
			if g != own {
				b.WriteString(cmp.Or(g, noGroup) + " ")
			}
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return b.String()
}

// Groups returns the groups whose keys are there, in order of name.
func (r *Keyring) Groups() []string { return slices.Sorted(maps.Keys(r.all())) }

// With returns a keyring that has another group's key besides.
func (r *Keyring) With(group string, key *Key) *Keyring {
	keys := map[string]*Key{strings.ToLower(group): key}
	for g, k := range r.all() {
		if _, there := keys[g]; !there {
			keys[g] = k
		}
	}
	return newKeyring(keys)
}

// Of returns a group's key, nil when this rackd does not have it.
func (r *Keyring) Of(group string) *Key { return r.all()[strings.ToLower(group)] }
