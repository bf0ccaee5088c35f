package api

import (
	"strings"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/alike"
)

// encodedNodes keeps nodes as answers show them, to be shown again while the database
// says that they are in the same state (store.Stamp): so what is shown is never older
// than the request, whoever wrote. They are as callers see them who see everything but
// secrets; others' answers are made anew. It is safe for concurrent use.
type encodedNodes struct {
	now func() time.Time

	mu         sync.RWMutex
	young, old map[encodedKey]*encodedNode
	size       int           // of young, in bytes
	born       time.Time     // of young
	packer     *alike.Packer // of young: what its first nodes say is what all others say
}

// What is kept is bounded: two generations, of which the older goes when the younger is
// as large, or as old. The age is for a database that was put back behind our back: its
// stamps may come again. A generation of ordinary nodes is some 10,000, which are packed
// into a fifth or less.
const (
	maxGeneration    = 6 << 20
	maxGenerationAge = time.Minute
)

type encodedKey struct {
	uuid    string
	version microversion.Version
}

// encodedNode is one node: its whole fields without links, which hold the name that the
// client called us by.
type encodedNode struct {
	stamp         store.Stamp
	driver, group string
	conductor     string // that the fields name, which is not the database's to know
	fields        alike.Packed
	behind        int // bytes of the fields that come after the links
}

// overhead is about what an encodedNode takes besides its fields.
const overhead = 256

// find returns what is kept of a node, nil for nothing.
func (e *encodedNodes) find(uuid string, v microversion.Version) *encodedNode {
	e.mu.RLock()
	defer e.mu.RUnlock()
	key := encodedKey{uuid, v}
	if n := e.young[key]; n != nil {
		return n
	}
	return e.old[key]
}

// age begins a new generation when it is time to, and reports whether anything is kept.
func (e *encodedNodes) age() (some bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := e.now(); e.size > maxGeneration || now.Sub(e.born) > maxGenerationAge {
		e.old, e.young, e.size, e.born, e.packer = e.young, map[encodedKey]*encodedNode{}, 0, now, new(alike.Packer)
	}
	return len(e.young) > 0 || len(e.old) > 0
}

// packs returns the packer of the generation that is being kept.
func (e *encodedNodes) packs() *alike.Packer {
	e.age()
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.packer
}

// keep keeps the fields of a node as they were read, the last bytes of which, behind, come after
// the links, and returns the node as it is kept.
func (e *encodedNodes) keep(v microversion.Version, n *store.Node, conductor string, fields []byte, behind int) *encodedNode {
	kept := &encodedNode{stamp: n.Stamp(), driver: strings.Clone(n.Driver), group: strings.Clone(n.ConductorGroup),
		conductor: conductor, fields: e.packs().Pack(fields), behind: behind}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.young[encodedKey{strings.Clone(n.UUID), v}] = kept
	e.size += kept.fields.Taken() + overhead
	return kept
}
