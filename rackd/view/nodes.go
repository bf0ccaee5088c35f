package view

import (
	"errors"
	"net"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/alike"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/ring"
)

// held is a node's document as it is in memory: as it came, packed. A rackd holds ten
// thousands of them, of which it reads few often.
type held struct {
	id   string
	kind *kind
	alike.Packed
	macs string // of its ports, addressSize bytes each
	// doc is the document of a node with work, which is read with each sign of life of
	// its agent; nil: it has not been read, or there are many such nodes. View.mu guards
	// it.
	doc *node.Document
	// form is that of the document on the bus. One that is newer than this rackd reads is not
	// kept: kind says whose node it was, as far as that is known, and nothing else counts.
	form int
	// key is the id of the key with which the document on the bus is sealed; empty if it does not say.
	// late: this rackd does not have that key, and what is held is what came before. blank: nothing was
	// held. View.mu guards the three.
	key         string
	late, blank bool
	// console: the document says that the node's console is enabled.
	console bool
}

// readable reports whether there is a document that this rackd reads.
func (h *held) readable() bool { return h.form <= node.Format && !h.blank }

// maxOpen bounds the documents that are kept unpacked.
const maxOpen = 4096

// addressSize is that of a MAC address, the only kind that ports have.
const addressSize = 6

type address [addressSize]byte

// addressOf reads a MAC address.
func addressOf(text string) (a address, ok bool) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != addressSize {
		return a, false
	}
	return address(hw), true
}

// each calls f with each address of the node's ports.
func (h *held) each(f func(address)) {
	for i := 0; i < len(h.macs); i += addressSize {
		f(address([]byte(h.macs[i : i+addressSize])))
	}
}

// open reads the document. It does not change h.
func (h *held) open() (n *node.Document, err error) {
	err = h.Read(func(body []byte) (err error) {
		n, err = node.Read(h.id, body)
		return err
	})
	if err != nil {
		return nil, err
	}
	n.Driver, n.Group = h.kind.driver, h.kind.group // one copy each
	return n, nil
}

func (v *View) applyNode(e jetstream.KeyValueEntry) {
	id := bus.NodeOfKey(e.Key())
	if e.Operation() != jetstream.KeyValuePut {
		v.mu.Lock()
		defer v.mu.Unlock()
		if old := v.nodes[id]; old != nil && bus.GroupToken(old.kind.group) == bus.GroupOfKey(e.Key()) { // else it has gone to another group
			v.dropNode(id)
			v.deleted.note(id, bus.GroupOfKey(e.Key()))
		}
		return
	}
	n, posted, err := bus.ReadNode(e.Key(), e.Value())
	if errors.Is(err, node.ErrFormat) {
		v.holdNewer(e, id, posted.Form())
		return
	}
	if err != nil {
		v.site.Refuse(v.log, bus.NodesBucket, e.Key(), err)
		return
	}
	body, made := v.prove(id, n.Group, e.Value(), posted)
	if !made && v.lacks(n.Group, posted.Key()) {
		v.holdLate(e.Key(), id, n, posted.Key())
		return
	}
	if !made {
		v.metrics.Forged(bus.NodesBucket)
		v.log.Error("a node document is not central's and is not used: its code does not fit the key of the node's group. "+
			"A party without that key wrote to the site's bus; look at who may. If it is for all nodes, this rackd's key is not that of central",
			"key", e.Key())
		return
	}
	h := &held{id: id, kind: v.kindOf(n.Driver, n.Group), form: posted.Form(), key: v.intern(posted.Key()), console: n.ConsoleEnabled}
	h.Packed = h.kind.Pack(body)
	var macs []byte
	for _, p := range n.Ports {
		if a, ok := addressOf(p.Address); ok {
			macs = append(macs, a[:]...)
		}
	}
	h.macs = string(macs)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropNode(id)
	v.nodes[id] = h
	h.each(func(a address) { v.byMAC[a] = h })
}

// prove is verify, and notes a refusal: who replaces the keys after that finds it.
func (v *View) prove(id, group string, body []byte, posted node.Posted) (document []byte, made bool) {
	for {
		replaced := v.keys.Replaced()
		if document, made = v.verify(id, group, body, posted); made {
			return document, true
		}
		v.mu.Lock()
		v.refused[bus.GroupToken(group)] = true
		v.mu.Unlock()
		select {
		case <-replaced: // meanwhile
		default:
			return nil, false
		}
	}
}

// verify reports whether central made a document of the group, and returns what is to be kept of it. A
// rackd without the group's key cannot tell, and opens nothing of such nodes either.
func (v *View) verify(id, group string, body []byte, posted node.Posted) (document []byte, made bool) {
	key := v.keys.Of(group)
	if key == nil {
		return body, true
	}
	return posted.Verify(id, key)
}

// holdNewer notes that a node's document is of a form that this rackd does not read. To this
// rackd the node is unknown from now on: others serve it.
func (v *View) holdNewer(e jetstream.KeyValueEntry, id string, form int) {
	v.log.Error("a node's document is of a form that this rackd does not read: others of the group serve the node; upgrade this rackd", "key", e.Key(), "form", form, "reads_up_to", node.Format)
	v.mu.Lock()
	old := v.nodes[id]
	v.mu.Unlock()
	h := &held{id: id, form: form}
	if group := bus.GroupOfKey(e.Key()); old != nil && bus.GroupToken(old.kind.group) == group {
		h.kind = old.kind
	} else {
		h.kind = v.kindOf("", group) // no rackd is for that hardware type
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropNode(id)
	v.nodes[id] = h
}

// lacks reports whether a group's key of that id is one that central hands out, as far as is known, and that
// this rackd does not have.
func (v *View) lacks(group, id string) bool {
	key, known := v.keys.Of(group), v.groups.Keys(group)
	return id != "" && key != nil && !slices.Contains(key.IDs(), id) && (len(known) == 0 || slices.Contains(known, id))
}

// holdLate notes that a node's document is sealed with a key that this rackd does not have: others serve
// the node. This rackd goes on with what it held before, which it was shown to be central's.
func (v *View) holdLate(place, id string, n node.Summary, key string) {
	v.log.Error("a node's document names a key that this rackd does not have, and is not used: others of the group that have it serve the node. "+
		"This rackd renews its keys by itself where it is a member; else put the group's new key into its key file. If central has no such key, "+
		"a party without it wrote to the site's bus", "key", place, "group", n.Group, "sealed_with", key)
	k, key := v.kindOf(n.Driver, n.Group), v.intern(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.nodes[id]
	if h == nil || !h.readable() || h.kind.group != k.group {
		v.dropNode(id)
		h = &held{id: id, kind: k, blank: true}
		v.nodes[id] = h
	}
	if !h.late {
		v.late++
	}
	h.key, h.late = key, true
}

// intern returns one copy of the id of a key, which thousands of documents name.
func (v *View) intern(key string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.keyIDs[key]; ok {
		return known
	}
	if len(v.keyIDs) >= maxKeyIDs {
		clear(v.keyIDs)
	}
	v.keyIDs[key] = key
	return key
}

// maxKeyIDs bounds what a party that writes to the bus can have remembered.
const maxKeyIDs = 1024

// Need returns what a rackd needs so that it can read a node's document on the bus.
func (v *View) Need(id string) ring.Need {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if h := v.nodes[id]; h != nil {
		return ring.Need{Form: h.form, Key: h.key}
	}
	return ring.Need{}
}

// Late returns how many documents on the bus are sealed with keys that this rackd does not have.
func (v *View) Late() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.late
}

// Newer returns how many documents on the bus are of forms that this rackd does not read.
func (v *View) Newer() (n int) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, h := range v.nodes {
		if h.form > node.Format {
			n++
		}
	}
	return n
}

func (v *View) kindOf(driver, group string) *kind {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.kinds[[2]string{driver, group}]
	if k == nil {
		k = &kind{driver: driver, group: group, token: bus.GroupToken(group), Packer: alike.Packer{Sample: enoughSample}}
		v.kinds[[2]string{driver, group}] = k
	}
	return k
}

// keepOpen keeps the unpacked document of a node that has work, unless there are many;
// the lock is held.
func (v *View) keepOpen(h *held, n *node.Document) {
	if h.doc == nil && v.opened < maxOpen && v.workOf(h.id) != nil && v.nodes[h.id] == h {
		h.doc = n
		v.opened++
	}
}

// closeNode drops the unpacked document of a node; the lock is held.
func (v *View) closeNode(id string) {
	if h := v.nodes[id]; h != nil && h.doc != nil {
		h.doc = nil
		v.opened--
	}
}

// dropNode is called with the lock held, also before a node that is not held is taken in.
func (v *View) dropNode(id string) {
	v.deleted.drop(id)
	old := v.nodes[id]
	if old == nil {
		return
	}
	old.each(func(a address) {
		if v.byMAC[a] == old {
			delete(v.byMAC, a)
		}
	})
	v.closeNode(id)
	delete(v.nodes, id)
	if old.late {
		v.late--
	}
}

// Node returns a node's document, nil when it is not known.
func (v *View) Node(id string) *node.Document {
	return v.document(func() *held { return v.nodes[id] })
}

// NodeByMAC returns the node with a port of that address.
func (v *View) NodeByMAC(mac string) *node.Document {
	a, ok := addressOf(mac)
	if !ok {
		return nil
	}
	return v.document(func() *held { return v.byMAC[a] })
}

// document returns the document of what find, called with the lock held, finds.
func (v *View) document(find func() *held) *node.Document {
	v.mu.RLock()
	h := find()
	if h == nil || h.doc != nil || !h.readable() {
		defer v.mu.RUnlock()
		if h == nil || !h.readable() {
			return nil
		}
		return h.doc
	}
	busy := v.workOf(h.id) != nil && v.opened < maxOpen
	v.mu.RUnlock()
	n, err := h.open()
	if err != nil {
		v.log.Error("unreadable node document: to this rackd its node is unknown", "node", h.id, "error", err)
		return nil
	}
	if busy {
		v.mu.Lock()
		v.keepOpen(h, n)
		v.mu.Unlock()
	}
	return n
}

// ConsoleEnabled reports whether a node's document says that its console is, for which it need not be read.
func (v *View) ConsoleEnabled(id string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	h := v.nodes[id]
	return h != nil && h.console && h.readable()
}

// Kind returns a node's hardware type and conductor group, for which its document need
// not be read.
func (v *View) Kind(id string) (driver, group string, known bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	h := v.nodes[id]
	if h == nil {
		return "", "", false
	}
	return h.kind.driver, h.kind.group, true
}

// Nodes returns the UUIDs of all nodes that have a document or work.
func (v *View) Nodes() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	ids := make([]string, 0, len(v.nodes))
	for id := range v.nodes {
		ids = append(ids, id)
	}
	for key := range v.works {
		if id := bus.NodeOfKey(key); v.nodes[id] == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
