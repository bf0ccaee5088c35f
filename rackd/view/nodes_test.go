package view

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// nodeEntry is a key of NODES.
type nodeEntry struct {
	jetstream.KeyValueEntry
	key  string
	body []byte // nil: a marker
}

func (e nodeEntry) Key() string   { return e.key }
func (e nodeEntry) Value() []byte { return e.body }
func (e nodeEntry) Operation() jetstream.KeyValueOp {
	if e.body == nil {
		return jetstream.KeyValuePurge
	}
	return jetstream.KeyValuePut
}

func newView() *View {
	return New(nil, keys{}, groups{"g"}, forged{}, func(string) {}, slog.New(slog.DiscardHandler))
}

// machine is a document of ordinary size and contents.
func machine(i int) *node.Document {
	return &node.Document{UUID: fmt.Sprintf("node-%d", i), Name: fmt.Sprintf("rack-%d-unit-%d", i/40, i%40), Group: "g", Driver: fmt.Sprintf("driver-%d", i%3), Revision: int64(i),
		Interfaces: map[string]string{"boot": "ipxe", "power": "redfish", "deploy": "direct", "management": "redfish", "storage": "noop"},
		DriverInfo: map[string]any{"redfish_address": fmt.Sprintf("https://10.0.%d.%d", i/250, i%250), "redfish_username": "operator",
			"redfish_password": "sealed:v1:" + strings.Repeat(fmt.Sprint(i), 10), "verify": false, "none": nil, "deploy_kernel": "file:///srv/ramdisk/kernel"},
		Properties: map[string]any{"cpus": float64(i % 64), "capabilities": "boot_mode:uefi", "root_device": map[string]any{"wwn": fmt.Sprintf("0x%08x", i), "list": []any{"a", 1.5, nil, true}}},
		Traits:     []string{"CUSTOM_GOLD", fmt.Sprintf("CUSTOM_%d", i%5)},
		Ports: []node.Port{{UUID: "p", Address: fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256), PXEEnabled: true},
			{UUID: "q", Address: fmt.Sprintf("52:54:01:00:%02x:%02x", i/256, i%256)}},
		Kept: json.RawMessage(fmt.Sprintf(`{"session":%d}`, i))}
}

// on is a document's entry on the bus.
func on(t testing.TB, d *node.Document) nodeEntry {
	t.Helper()
	body, err := d.AppendSigned(nil, testKey(d.Group))
	if err != nil {
		t.Fatal(err)
	}
	return nodeEntry{key: bus.NodeKey(d.Group, d.UUID), body: body}
}

func (v *View) put(t testing.TB, d *node.Document) {
	t.Helper()
	v.applyNode(on(t, d))
}

// What is packed is read as it came, whatever came before, by UUID and by each address;
// nearly all of it takes a fraction of its size.
func TestPackedDocumentsAreReadAsTheyCame(t *testing.T) {
	v := newView()
	const many = 2000
	plain, held := 0, 0
	for i := range many {
		d := machine(i)
		v.put(t, d)
		plain, held = plain+len(on(t, d).body), held+v.nodes[d.UUID].Taken()
	}
	for i := range many {
		want := machine(i)
		for _, got := range []*node.Document{v.Node(want.UUID), v.NodeByMAC(want.Ports[0].Address), v.NodeByMAC(strings.ToUpper(want.Ports[1].Address))} {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("node %d:\ngot  %+v\nwant %+v", i, got, want)
			}
		}
		if driver, group, known := v.Kind(want.UUID); !known || driver != want.Driver || group != "g" {
			t.Fatalf("node %d is of kind %q, %q", i, driver, group)
		}
	}
	if held > plain/3 {
		t.Errorf("%d bytes of documents take %d, want a third at most", plain, held)
	}
	if v.opened != 0 {
		t.Errorf("%d documents are kept unpacked, and no node has work", v.opened)
	}
	for i := range many {
		v.applyNode(nodeEntry{key: bus.NodeKey("g", machine(i).UUID)})
	}
	if len(v.nodes)+len(v.byMAC) > 0 || v.Node("node-1") != nil || v.NodeByMAC(machine(1).Ports[0].Address) != nil {
		t.Errorf("%d nodes and %d addresses are left of those that were deleted", len(v.nodes), len(v.byMAC))
	}
}

// An address belongs to whom it was given last, also after its owner of before has gone.
func TestAddressMoves(t *testing.T) {
	v := newView()
	a, b := machine(1), machine(2)
	b.Ports = append(b.Ports, a.Ports[0])
	v.put(t, a)
	v.put(t, b)
	v.applyNode(nodeEntry{key: bus.NodeKey("g", a.UUID)})
	if n := v.NodeByMAC(a.Ports[0].Address); n == nil || n.UUID != b.UUID {
		t.Errorf("the address leads to %+v, want %s", n, b.UUID)
	}
	for _, no := range []string{a.Ports[1].Address, "", "52:54", "52:54:00:00:00:00:00:01"} {
		if n := v.NodeByMAC(no); n != nil {
			t.Errorf("address %q leads to node %s", no, n.UUID)
		}
	}
}

// The document of a node with work is unpacked once; not longer than the work is there,
// and never an older one.
func TestDocumentsOfNodesWithWorkAreKeptOpen(t *testing.T) {
	v := newView()
	d := machine(1)
	v.put(t, d)
	for range 2 {
		v.Node(d.UUID)
	}
	if v.opened != 0 {
		t.Error("a node without work is kept unpacked")
	}
	w := work.Document{ID: "w", Node: d.UUID, Group: "g"}
	v.applyWork(workEntry(t, w, 1))
	first := v.Node(d.UUID)
	if v.Node(d.UUID) != first || v.NodeByMAC(d.Ports[0].Address) != first || v.opened != 1 {
		t.Error("a node with work is unpacked each time")
	}
	d.Name = "another"
	v.put(t, d)
	if n := v.Node(d.UUID); n.Name != "another" || v.opened != 1 {
		t.Errorf("after a change the node is called %q, %d open", n.Name, v.opened)
	}
	v.applyWork(keyed{entry{revision: 2}, bus.NodeKey("g", d.UUID)})
	if v.opened != 0 || v.nodes[d.UUID].doc != nil {
		t.Errorf("%d documents are open after the work has gone", v.opened)
	}
	v.applyWork(workEntry(t, w, 3))
	v.Node(d.UUID)
	v.forget("g")
	if v.opened != 0 || len(v.nodes) != 0 {
		t.Errorf("%d documents are open of a group that is not served any more", v.opened)
	}
}

// keyed is an entry of another key than n.
type keyed struct {
	entry
	key string
}

func (k keyed) Key() string { return k.key }

func workEntry(t *testing.T, d work.Document, revision uint64) jetstream.KeyValueEntry {
	t.Helper()
	return keyed{entry{revision: revision, doc: d}, bus.NodeKey(d.Group, d.Node)}
}

func TestOpenDocumentsAreBounded(t *testing.T) {
	v := newView()
	for i := range maxOpen + 10 {
		d := machine(i)
		v.put(t, d)
		v.applyWork(workEntry(t, work.Document{ID: "w", Node: d.UUID, Group: "g"}, uint64(i+1)))
		if n := v.Node(d.UUID); n == nil || n.UUID != d.UUID {
			t.Fatalf("node %d is %+v", i, n)
		}
	}
	if v.opened != maxOpen {
		t.Errorf("%d documents are open, want %d", v.opened, maxOpen)
	}
}

func BenchmarkNode(b *testing.B) {
	v := newView()
	for i := range 2000 {
		d := machine(i)
		v.put(b, d)
		if i < 1000 {
			doc := work.Document{ID: "w", Node: d.UUID, Group: "g"}
			v.applyWork(keyed{entry{revision: uint64(i + 1), doc: doc}, bus.NodeKey("g", d.UUID)})
		}
	}
	for name, first := range map[string]int{"with work": 0, "idle": 1000} {
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = machine(first + i).UUID
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				v.Node(ids[i%1000])
			}
		})
	}
}

// BenchmarkApply is what a document costs that comes from the bus.
func BenchmarkApply(b *testing.B) {
	v := newView()
	entries := make([]nodeEntry, 1000)
	for i := range entries {
		entries[i] = on(b, machine(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v.applyNode(entries[i%len(entries)])
	}
}

// A server of the site's bus can write any document. One that central did not make for that very node
// is not taken in: its machine, its BMC and its password stay where central said.
func TestForgedNodeDocumentsAreNotUsed(t *testing.T) {
	count, genuine, other := forged{}, machine(1), machine(2)
	later := *machine(1)
	later.Revision, later.DriverInfo = genuine.Revision+1, map[string]any{"redfish_address": "https://new"}
	edited := *machine(1)
	edited.Revision, edited.DriverInfo = genuine.Revision+1, map[string]any{"redfish_address": "https://thief", "redfish_password": genuine.DriverInfo["redfish_password"]}
	plain, err := edited.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	was, field := string(on(t, genuine).body), `"node":`
	signed, node, _ := strings.Cut(was, field) // its code stands before it
	_, theirs, _ := strings.Cut(string(plain), field)
	own, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	ofThief, err := edited.AppendSigned(nil, own)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"without a code":           string(plain),
		"the code of another":      signed + field + theirs,
		"made with another key":    string(ofThief),
		"of another node":          string(on(t, other).body),
		"the field twice":          signed + field + strings.TrimSuffix(node, "}") + `,` + field + theirs,
		"and in capital letters":   signed + field + strings.TrimSuffix(node, "}") + `,"NODE":` + theirs,
		"a field more in the node": signed + field + strings.TrimSuffix(node, "}}") + `,"driver_info":{"redfish_address":"https://thief"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			clear(count)
			site := &bus.Site{Refused: func(bucket string, _ bool) { count[bucket]++ }}
			v := New(site, keys{}, groups{"g"}, count, func(string) {}, slog.New(slog.DiscardHandler))
			v.put(t, genuine)
			v.applyNode(nodeEntry{key: bus.NodeKey("g", genuine.UUID), body: []byte(body)})
			if n := v.Node(genuine.UUID); n == nil || n.DriverString("redfish_address") != genuine.DriverString("redfish_address") || n.Revision != genuine.Revision {
				t.Errorf("the view shows %+v", n)
			}
			if count[bus.NodesBucket] != 1 {
				t.Errorf("%d forged documents were counted", count[bus.NodesBucket])
			}
			v.put(t, &later)
			if n := v.Node(genuine.UUID); n == nil || n.DriverString("redfish_address") != "https://new" {
				t.Errorf("central's next document is not used: %+v", n)
			}
		})
	}
}
