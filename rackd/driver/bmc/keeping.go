package bmc

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
)

// Keeping is what a driver keeps of each node between calls (driver.Keeper): a T, and how often it was changed, under the name
// Counter. The node's document brings it to the other rackds. What others keep of the node stays: newer programs, and drivers of other
// interfaces. It is safe for concurrent use.
type Keeping[T comparable] struct {
	// Counter is the name of the field that counts the changes.
	Counter string

	mu   sync.Mutex
	news map[string]*news[T] // by node
}

// news is what this rackd has set since the node's document showed the change base.
type news[T comparable] struct {
	base, changes int64
	// said is each value by its change.
	said map[int64]T
}

// Of returns the newest that is known of n.
func (k *Keeping[T]) Of(n *node.Document) T {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, _ := k.newest(n)
	return v
}

// newest is Of, with the number of the change. k.mu is held. A document that shows another value than this rackd has set under that
// number is of a rackd that went on without it: what that has set counts.
func (k *Keeping[T]) newest(n *node.Document) (T, int64) {
	told, changes := k.inDocument(n)
	own := k.news[n.UUID]
	switch {
	case own == nil:
		return told, changes
	case changes < own.changes && (changes == own.base || changes > own.base && own.said[changes] == told):
		return own.said[own.changes], own.changes
	case changes == own.changes && own.said[changes] == told:
		return told, changes // an older document, as flows have, may still come
	}
	delete(k.news, n.UUID)
	return told, changes
}

func (k *Keeping[T]) inDocument(n *node.Document) (v T, changes int64) {
	var fields map[string]json.RawMessage
	if len(n.Kept) == 0 || json.Unmarshal(n.Kept, &fields) != nil || json.Unmarshal(fields[k.Counter], &changes) != nil || json.Unmarshal(n.Kept, &v) != nil {
		var none T
		return none, 0
	}
	return v, changes
}

// Change has do change what is kept of n.
func (k *Keeping[T]) Change(n *node.Document, do func(*T)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, changes := k.newest(n)
	before := v
	if do(&v); v == before {
		return
	}
	own := k.news[n.UUID]
	if own == nil {
		own = &news[T]{base: changes, said: map[int64]T{}}
		if k.news == nil {
			k.news = map[string]*news[T]{}
		}
		k.news[n.UUID] = own
	}
	own.changes = changes + 1
	own.said[own.changes] = v
}

// Kept is what driver.Keeper's method of that name returns.
func (k *Keeping[T]) Kept(n *node.Document) json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, changes := k.newest(n)
	if told, at := k.inDocument(n); at == changes && told == v {
		return nil
	}
	all := map[string]any{}
	var others map[string]json.RawMessage
	if json.Unmarshal(n.Kept, &others) == nil {
		for name, raw := range others {
			all[name] = raw
		}
	}
	maps.DeleteFunc(all, func(name string, _ any) bool { return k.owns(name) })
	own, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(own, &all)
	}
	all[k.Counter] = changes
	raw, marshalErr := json.Marshal(all)
	if err != nil || marshalErr != nil {
		panic("a struct of strings and numbers") // which always marshals
	}
	return raw
}

// owns reports whether a field is one of T's.
func (k *Keeping[T]) owns(field string) bool {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); strings.EqualFold(name, field) {
			return true
		}
	}
	return strings.EqualFold(field, k.Counter)
}
