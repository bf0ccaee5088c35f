package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/inspection"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/central/store/storetest"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// inspect inserts a node whose inspection has been accepted.
func (f *fixture) inspect(name string) (*store.Node, *store.Work) {
	f.Helper()
	n := storetest.NewNode(name)
	n.AcceptedState = provision.Manageable
	storetest.Insert(f, f.store, n)
	return n, f.inspectAgain(n.UUID)
}

// inspectAgain accepts another inspection of a node.
func (f *fixture) inspectAgain(node string) *store.Work {
	f.Helper()
	n := f.node(node)
	n.Accept(provision.Inspecting, provision.Manageable, time.Now())
	w := storetest.NewWork(n, work.Inspect)
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(tx.UpdateNode(ctx, n), tx.InsertWork(ctx, w))
	})
	if err != nil {
		f.Fatal(err)
	}
	return w
}

func (f *fixture) rule(priority int64, conditions, actions []any) {
	f.Helper()
	err := f.store.Update(f.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.InsertInspectionRule(ctx, &store.InspectionRule{UUID: uuid.NewString(), Phase: "main", Priority: priority, Conditions: conditions, Actions: actions})
	})
	if err != nil {
		f.Fatal(err)
	}
}

func op(name string, args ...any) any { return map[string]any{"op": name, "args": args} }

// end publishes what an inspection found, and that it has ended.
func (f *fixture) end(w *work.Event, inventory *agentapi.Inventory) {
	f.Helper()
	data := *w
	data.Kind, data.Inventory = work.InventoryFound, inventory
	f.publish(data)
	w.Seq++
	w.State = provision.Manageable
	f.publish(*w)
	f.drained()
}

// The rackd names the source of an inspection. For a rackd that does not name it yet, central takes the source from the node's interfaces.
func TestSourceOfAnInspection(t *testing.T) {
	f := newFixture(t)
	f.follow()
	for name, c := range map[string]struct {
		says       work.Source
		interfaces map[string]string
		size       bool // local_gb is set, as by a BMC
		state      provision.State
	}{
		"by the BMC":     {work.FromBMC, map[string]string{"inspect": "another-bmc"}, true, provision.Manageable},
		"by the ramdisk": {work.FromRamdisk, map[string]string{"inspect": "redfish"}, false, provision.InspectFail},
		"not said":       {"", map[string]string{"inspect": "redfish"}, false, provision.InspectFail},
	} {
		n := storetest.NewNode(name)
		n.AcceptedState, n.Interfaces = provision.Manageable, c.interfaces
		storetest.Insert(f, f.store, n)
		e := about(f.inspectAgain(n.UUID), work.WorkEnded, 1)
		e.Source = c.says
		found := machine()
		found.CPU.Architecture, found.Memory.PhysicalMB = "", 1024 // few BMCs tell the architecture, and each ramdisk does
		f.end(&e, found)
		got := f.node(n.UUID)
		if _, sized := got.Properties["local_gb"]; sized != c.size || got.ProvisionState != c.state {
			t.Errorf("%s: state %q, error %q, properties %v", name, got.ProvisionState, got.LastError, got.Properties)
		}
	}
}

func machine() *agentapi.Inventory {
	return &agentapi.Inventory{CPU: agentapi.CPU{Count: 8, Architecture: "x86_64"}, Boot: agentapi.Boot{PXEInterface: "52:54:00:aa:bb:01"},
		Interfaces: []agentapi.NIC{{Name: "eth0", MACAddress: "52:54:00:aa:bb:01"}, {Name: "eth1", MACAddress: "52:54:00:aa:bb:02"}}}
}

// TestInspectionIsProcessed holds that hooks and rules have done their work when the
// node is seen to be manageable.
func TestInspectionIsProcessed(t *testing.T) {
	called := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	t.Cleanup(server.Close)
	f := newFixture(t)
	f.rule(1, nil, []any{op("set-attribute", "extra/last", "{node.resource_class}")})
	f.rule(2, []any{op("eq", []any{"{inventory[cpu][count]}", "8"})}, []any{op("set-attribute", "resource_class", "large"), op("add-trait", "CUSTOM_BIG"),
		op("set-plugin-data", "size", "{inventory[cpu][count]}"), op("api-call", server.URL+"/{node.name}")})
	f.rule(3, []any{op("eq", []any{"{inventory[cpu][count]}", "4"})}, []any{op("fail", "too small")})
	n, w := f.inspect("n")
	f.follow()
	e := about(w, work.WorkEnded, 1)
	f.end(&e, machine())
	got := f.node(n.UUID)
	if got.ProvisionState != provision.Manageable || got.LastError != "" || got.InspectionFinished.IsZero() {
		t.Errorf("state %q, error %q, finished %v", got.ProvisionState, got.LastError, got.InspectionFinished)
	}
	if got.ResourceClass != "large" || got.Extra["last"] != "large" || !slices.Equal(got.Traits, []string{"CUSTOM_BIG"}) || got.Properties["cpu_arch"] != "x86_64" {
		t.Errorf("node %+v", got)
	}
	ports, err := f.store.Ports(t.Context(), store.PortQuery{Nodes: []string{n.UUID}})
	if err != nil || len(ports) != 1 || ports[0].Address != "52:54:00:aa:bb:01" || !ports[0].PXEEnabled {
		t.Errorf("ports %+v, error %v: the one that it booted from is wanted", ports, err)
	}
	found, err := f.store.Inventory(t.Context(), n.UUID)
	if err != nil || !strings.Contains(string(found.Plugin), `"size":"8"`) || !strings.Contains(string(found.Plugin), `"macs"`) {
		t.Errorf("plugin data %s, error %v", found.Plugin, err)
	}
	select {
	case path := <-called:
		if path != "/n" {
			t.Errorf("called %s", path)
		}
	case <-time.After(30 * time.Second):
		t.Error("the rule's call was not made")
	}
}

// TestARulesConfigDriveIsSealed holds that a config drive that a rule sets is kept as one that a
// client sets is, and that the mask of one is refused.
func TestARulesConfigDriveIsSealed(t *testing.T) {
	f := newFixture(t)
	f.rule(1, nil, []any{op("set-attribute", "instance_info/configdrive", "words that nobody shall read")})
	n, w := f.inspect("n")
	f.follow()
	e := about(w, work.WorkEnded, 1)
	f.end(&e, machine())
	if got := f.node(n.UUID); got.ProvisionState != provision.Manageable || got.InstanceInfo[store.DriveKey] != store.DriveKept {
		t.Errorf("state %q, error %q, instance_info %v", got.ProvisionState, got.LastError, got.InstanceInfo)
	}
	kept, err := f.store.ConfigDrives(t.Context(), "", 2)
	if err != nil || len(kept) != 1 || kept[0].Node != n.UUID {
		t.Fatalf("drives %+v, error %v", kept, err)
	}
	if drive, err := f.key.Open(seal.Label{Kind: seal.StoredDrive, Of: n.UUID}, kept[0].Drive); err != nil || drive != "words that nobody shall read" || kept[0].Drive == drive {
		t.Errorf("kept %q, which holds %q, error %v", kept[0].Drive, drive, err)
	}

	f.rule(0, nil, []any{op("set-attribute", "instance_info/configdrive", store.DriveKept)})
	m, w := f.inspect("m")
	e = about(w, work.WorkEnded, 1)
	f.end(&e, machine())
	if got := f.node(m.UUID); got.ProvisionState != provision.InspectFail || !strings.Contains(got.LastError, "mask") || got.InstanceInfo[store.DriveKey] != nil {
		t.Errorf("state %q, error %q, instance_info %v", got.ProvisionState, got.LastError, got.InstanceInfo)
	}
}

// TestWhatARamdiskSendsIsKept holds that an inventory is shown as it was sent, with what
// nobody here knows, and that hooks find and keep what was sent beside it; until the next.
func TestWhatARamdiskSendsIsKept(t *testing.T) {
	f := newFixture(t)
	f.rule(1, []any{op("eq", []any{"{plugin_data[rack]}", "r7"})}, []any{op("set-attribute", "extra/rack", "{plugin_data[rack]}")})
	n, w := f.inspect("n")
	f.follow()
	const sent = `{"cpu":{"count":2,"architecture":"x86_64"},"interfaces":[{"name":"eth0","mac_address":"52:54:00:aa:bb:01"}],"usb":[{"bus":1}]}`
	var inv agentapi.Inventory
	if err := inv.Read([]byte(sent), []byte(`{"rack":"r7","size":12345678901234567890}`)); err != nil {
		t.Fatal(err)
	}
	e := about(w, work.WorkEnded, 1)
	f.end(&e, inv.Carried())
	found, err := f.store.Inventory(t.Context(), n.UUID)
	if err != nil || string(found.Data) != sent || !strings.Contains(string(found.Plugin), `"rack":"r7"`) ||
		!strings.Contains(string(found.Plugin), `"macs"`) || !strings.Contains(string(found.Plugin), "12345678901234567890") {
		t.Errorf("inventory %s, plugin data %s, error %v", found.Data, found.Plugin, err)
	}
	if got := f.node(n.UUID); got.Extra["rack"] != "r7" || got.Properties["cpu_arch"] != "x86_64" {
		t.Errorf("hooks and rules have made %v, %v", got.Extra, got.Properties)
	}
}

// TestNullBesideTheInventory holds that nothing, said as null, is nothing.
func TestNullBesideTheInventory(t *testing.T) {
	f := newFixture(t)
	f.rule(1, nil, []any{op("set-plugin-data", "size", "8")})
	n, w := f.inspect("n")
	f.follow()
	inv := machine()
	inv.PluginData = []byte("null")
	e := about(w, work.WorkEnded, 1)
	f.end(&e, inv)
	if found, err := f.store.Inventory(t.Context(), n.UUID); err != nil || !strings.Contains(string(found.Plugin), `"size":"8"`) {
		t.Errorf("plugin data %s, error %v", found.Plugin, err)
	}
}

// TestInspectionThatIsRefused holds that a rule's no is the node's: it is inspect failed,
// says why, and nothing that rules before it did is kept.
func TestInspectionThatIsRefused(t *testing.T) {
	f := newFixture(t)
	f.rule(2, nil, []any{op("set-attribute", "resource_class", "large"), op("add-trait", "CUSTOM_BIG")})
	f.rule(1, nil, []any{op("fail", "not on my watch")})
	n, w := f.inspect("n")
	f.follow()
	e := about(w, work.WorkEnded, 1)
	f.end(&e, machine())
	got := f.node(n.UUID)
	if got.ProvisionState != provision.InspectFail || got.LastError != "Failed to inspect hardware. Reason: not on my watch" || !got.InspectionFinished.IsZero() {
		t.Errorf("state %q, error %q, finished %v", got.ProvisionState, got.LastError, got.InspectionFinished)
	}
	if got.ResourceClass != "" || len(got.Traits) != 0 || got.Properties["cpu_arch"] != nil {
		t.Errorf("what the rules did before is kept: %+v", got)
	}
	lines, err := f.store.History(t.Context(), store.HistoryQuery{Node: n.UUID})
	for _, l := range lines {
		if strings.Contains(l.Event, "the node is manageable") {
			t.Errorf("the history says %q", l.Event)
		}
	}
	if err != nil || len(lines) == 0 || !strings.Contains(lines[len(lines)-1].Event, "not on my watch") {
		t.Errorf("history %v, %v", lines, err)
	}
	if ports, err := f.store.Ports(t.Context(), store.PortQuery{Nodes: []string{n.UUID}}); err != nil || len(ports) != 0 {
		t.Errorf("ports %v, error %v", ports, err)
	}
	done, err := f.store.Work(t.Context(), w.ID)
	if err != nil || done.State != store.WorkEnded || !strings.Contains(done.Error, "not on my watch") {
		t.Errorf("work %+v, error %v", done, err)
	}
	if _, err := f.store.Inventory(t.Context(), n.UUID); err != nil {
		t.Errorf("what was found is gone: %v", err)
	}
}

// TestInspectionThatFindsTooMuch holds that no inspection makes a node so large that its rack could not be told of it.
func TestInspectionThatFindsTooMuch(t *testing.T) {
	f := newFixture(t)
	piece := "{plugin_data[much]}"
	for i := range 40 { // of 32 KiB each
		f.rule(int64(i), nil, []any{op("set-attribute", fmt.Sprintf("properties/much%d", i), piece)})
	}
	n, w := f.inspect("n")
	f.follow()
	e := about(w, work.WorkEnded, 1)
	found := machine()
	found.PluginData = []byte(`{"much":"` + strings.Repeat("x", 32<<10) + `"}`)
	f.end(&e, found)
	got := f.node(n.UUID)
	if got.ProvisionState != provision.InspectFail || !strings.Contains(got.LastError, "more than the 983040 that a rack can be sent") {
		t.Errorf("state %q, error %q", got.ProvisionState, got.LastError)
	}
	if len(got.Properties) != len(n.Properties) {
		t.Errorf("%d properties, want the %d that there were", len(got.Properties), len(n.Properties))
	}
}

// TestTheMachineOfTheLastInspectionIsKept holds that the rack is told which machine the last inspection
// that was not refused has found, and nothing where that said nothing.
func TestTheMachineOfTheLastInspectionIsKept(t *testing.T) {
	f := newFixture(t)
	f.rule(1, []any{op("eq", []any{"{plugin_data[bad]}", "True"})}, []any{op("fail", "not now")})
	n, w := f.inspect("n")
	f.follow()
	const one, two = "4c4c4544-0038-4d10-8058-b4c04f4d3433", "4c4c4544-0038-4d10-8058-b4c04f4d3434"
	for i, c := range []struct {
		vendor, plugin string
		kept           any
	}{
		{`{"system_uuid":"` + one + `","serial_number":"A1"}`, `{}`, map[string]any{"uuid": one, "serial": "A1"}},
		{`{"system_uuid":"` + two + `","serial_number":"B2"}`, `{"bad":true}`, map[string]any{"uuid": one, "serial": "A1"}},
		{`{"system_uuid":"` + two + `","serial_number":"Default string"}`, `{}`, map[string]any{"uuid": two}},
		{`{"system_uuid":7,"serial_number":"None"}`, `{}`, nil},
	} {
		if i > 0 {
			w = f.inspectAgain(n.UUID)
		}
		var inv agentapi.Inventory
		if err := inv.Read([]byte(`{"cpu":{"architecture":"x86_64"},"interfaces":[{"name":"eth0","mac_address":"52:54:00:aa:bb:01"}],"system_vendor":`+c.vendor+`}`), []byte(c.plugin)); err != nil {
			t.Fatal(err)
		}
		e := about(w, work.WorkEnded, 1)
		f.end(&e, inv.Carried())
		if got := f.node(n.UUID).DriverInternalInfo[node.MachineKey]; !reflect.DeepEqual(got, c.kept) {
			t.Errorf("inspection %d keeps %v, want %v", i, got, c.kept)
		}
	}
}

// TestDisksOfTheLastInspectionAreKnown holds that hooks learn which disks the last inspection that
// was not refused found, whatever came since: the root device is the one that is new since then.
func TestDisksOfTheLastInspectionAreKnown(t *testing.T) {
	p, err := inspection.New(inspection.Settings{Hooks: []string{"validate-interfaces", "raid-device"}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixtureWith(t, p)
	f.rule(1, []any{op("eq", []any{"{plugin_data[bad]}", "True"})}, []any{op("fail", "not now")})
	n, w := f.inspect("n")
	f.follow()
	for i, c := range []struct {
		disks, plugin string // disks: within the inventory
		state         provision.State
		root          any
	}{
		{`,"disks":[{"serial":"A"}]`, `{}`, provision.Manageable, nil},
		{`,"disks":[{"serial":"A"},{"serial":"B"}]`, `{"bad":true}`, provision.InspectFail, nil},
		{``, `{}`, provision.Manageable, nil}, // it does not tell of disks
		{`,"disks":[{"serial":"A"},{"serial":"B"}]`, `{}`, provision.Manageable, map[string]any{"serial": "B"}},
	} {
		if i > 0 {
			w = f.inspectAgain(n.UUID)
		}
		var inv agentapi.Inventory
		if err := inv.Read([]byte(`{"cpu":{"architecture":"x86_64"},"interfaces":[{"name":"eth0","mac_address":"52:54:00:aa:bb:01"}]`+c.disks+`}`), []byte(c.plugin)); err != nil {
			t.Fatal(err)
		}
		e := about(w, work.WorkEnded, 1)
		f.end(&e, inv.Carried())
		if got := f.node(n.UUID); got.ProvisionState != c.state || !reflect.DeepEqual(got.Properties["root_device"], c.root) {
			t.Errorf("inspection %d: state %q, error %q, root device %v; want %s, %v", i, got.ProvisionState, got.LastError, got.Properties["root_device"], c.state, c.root)
		}
	}
}
