package view

import (
	"hash/maphash"
	"maps"

	"github.com/ironyard/ironyard/protocol/node"
)

// alike lets the documents of a rack share what is alike in them: the names of fields,
// the hardware's interfaces, the image that half of the machines run. That is nearly
// half of what ten thousand nodes take. It remembers what came last, in a fixed number
// of places, so that values which come once cost nothing. Not safe for concurrent use.
type alike struct {
	seed       maphash.Seed
	values     [4096]any // strings and numbers
	interfaces [64]map[string]string
}

func newAlike() *alike { return &alike{seed: maphash.MakeSeed()} }

// share makes n, which nobody else knows yet, hold what earlier documents hold.
func (a *alike) share(n *node.Document) {
	n.Group, n.Driver = a.text(n.Group), a.text(n.Driver)
	n.Interfaces = a.sharedInterfaces(n.Interfaces)
	for _, fields := range []*map[string]any{&n.DriverInfo, &n.Properties, &n.InstanceInfo} {
		*fields = a.fields(*fields)
	}
	for i, t := range n.Traits {
		n.Traits[i] = a.text(t)
	}
}

func (a *alike) text(s string) string { return a.value(s).(string) }

// value returns something equal to v, which is comparable.
func (a *alike) value(v any) any {
	at := &a.values[maphash.Comparable(a.seed, v)%uint64(len(a.values))]
	if *at != v {
		*at = v
	}
	return *at
}

func (a *alike) fields(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m)) // a map keeps the keys that it was made with
	for k, v := range m {
		out[a.text(k)] = a.any(v)
	}
	return out
}

func (a *alike) any(v any) any {
	switch v := v.(type) {
	case string, float64:
		return a.value(v)
	case map[string]any:
		return a.fields(v)
	case []any:
		for i := range v {
			v[i] = a.any(v[i])
		}
	}
	return v
}

// sharedInterfaces returns a map equal to m. Documents are not changed, so one map
// serves all.
func (a *alike) sharedInterfaces(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	var sum uint64 // of no order, like a map
	for kind, impl := range m {
		sum += maphash.Comparable(a.seed, [2]string{kind, impl})
	}
	at := &a.interfaces[sum%uint64(len(a.interfaces))]
	if *at == nil || !maps.Equal(*at, m) {
		*at = m
	}
	return *at
}
