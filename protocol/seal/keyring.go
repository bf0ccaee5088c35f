package seal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Keyring holds the keys of the conductor groups that a rackd may serve: its own,
// and those for which its group is a failover. It is immutable and safe for
// concurrent use.
type Keyring struct{ keys map[string]*Key }

// NewKeyring holds one group's key.
func NewKeyring(group string, key *Key) *Keyring {
	return &Keyring{keys: map[string]*Key{strings.ToLower(group): key}}
}

// noGroup stands in a key file for the group of nodes that have none.
const noGroup = "="

// ParseKeyring reads a key file: a line of KEY for the rackd's own group, lines of
// "GROUP KEY" for others. A further line for a group is an older generation of its
// key, and = as GROUP is the group without a name. Empty lines and those that begin with # are left out.
func ParseKeyring(text, own string) (*Keyring, error) {
	r := &Keyring{keys: map[string]*Key{}}
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
		if newer := r.keys[group]; newer != nil {
			key = newer.WithOlder(key)
		}
		r.keys[group] = key
	}
	if r.keys[strings.ToLower(own)] == nil {
		return nil, fmt.Errorf("no key of conductor group %q", own)
	}
	return r, nil
}

// Text is the keyring as ParseKeyring reads it, own being the rackd's group: keep it
// out of logs.
func (r *Keyring) Text(own string) string {
	var b strings.Builder
	own = strings.ToLower(own)
	for _, g := range append([]string{own}, slices.Sorted(maps.Keys(r.keys))...) {
		if r.keys[g] == nil || g == own && b.Len() > 0 {
			continue
		}
		for line := range strings.Lines(r.keys[g].Text()) {
			if g != own {
				b.WriteString(cmp.Or(g, noGroup) + " ")
			}
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return b.String()
}

// Groups returns the groups whose keys are there, in order of name.
func (r *Keyring) Groups() []string { return slices.Sorted(maps.Keys(r.keys)) }

// With returns a keyring that has another group's key besides.
func (r *Keyring) With(group string, key *Key) *Keyring {
	out := &Keyring{keys: map[string]*Key{strings.ToLower(group): key}}
	for g, k := range r.keys {
		if _, there := out.keys[g]; !there {
			out.keys[g] = k
		}
	}
	return out
}

// Of returns a group's key, nil when this rackd does not have it.
func (r *Keyring) Of(group string) *Key { return r.keys[strings.ToLower(group)] }
