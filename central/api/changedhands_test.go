package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// countingAsker answers every question, and counts those that do something.
type countingAsker struct{ done int }

func (a *countingAsker) Ask(_ context.Context, _ bus.Member, q ask.Request) (json.RawMessage, error) {
	if !q.Method.FromMemory() {
		a.done++
	}
	return json.RawMessage(`{}`), nil
}

type askerFunc func(ask.Request) (json.RawMessage, error)

func (f askerFunc) Ask(_ context.Context, _ bus.Member, q ask.Request) (json.RawMessage, error) {
	return f(q)
}

// ownersRequests are requests of a node's owner that are carried out, by route: all that may
// change something of a node, or of what belongs to it, and that a project may make.
var ownersRequests = []struct{ method, route, path, body string }{
	{"PATCH", "nodes/{node}", "/v1/nodes/" + nodeID, `[{"op":"replace","path":"/extra","value":{"a":"b"}}]`},
	{"DELETE", "nodes/{node}", "/v1/nodes/" + nodeID, ``},
	{"DELETE", "nodes/{node}", "/v1/nodes/n1", ``},
	{"PUT", "nodes/{node}/maintenance", "/v1/nodes/" + nodeID + "/maintenance", `{"reason":"r"}`},
	{"DELETE", "nodes/{node}/maintenance", "/v1/nodes/" + nodeID + "/maintenance", ``},
	{"PUT", "nodes/{node}/management/boot_device", "/v1/nodes/" + nodeID + "/management/boot_device", `{"boot_device":"pxe"}`},
	{"PUT", "nodes/{node}/management/inject_nmi", "/v1/nodes/" + nodeID + "/management/inject_nmi", `{}`},
	{"PUT", "nodes/{node}/management/indicators/{indicator}", "/v1/nodes/" + nodeID + "/management/indicators/led@chassis", `{"state":"ON"}`},
	{"PUT", "nodes/{node}/states/power", "/v1/nodes/" + nodeID + "/states/power", `{"target":"power on"}`},
	{"PUT", "nodes/{node}/states/power", "/v1/nodes/n1/states/power", `{"target":"power on"}`},
	{"PUT", "nodes/{node}/states/provision", "/v1/nodes/" + nodeID + "/states/provision", `{"target":"provide"}`},
	{"PUT", "nodes/{node}/states/boot_mode", "/v1/nodes/" + nodeID + "/states/boot_mode", `{"target":"uefi"}`},
	{"PUT", "nodes/{node}/states/secure_boot", "/v1/nodes/" + nodeID + "/states/secure_boot", `{"target":true}`},
	{"PUT", "nodes/{node}/states/raid", "/v1/nodes/" + nodeID + "/states/raid", `{"logical_disks":[{"size_gb":1,"raid_level":"1"}]}`},
	{"PUT", "nodes/{node}/states/console", "/v1/nodes/" + nodeID + "/states/console", `{"enabled":true}`},
	{"PUT", "nodes/{node}/traits", "/v1/nodes/" + nodeID + "/traits", `{"traits":["CUSTOM_A"]}`},
	{"PUT", "nodes/{node}/traits/{trait}", "/v1/nodes/" + nodeID + "/traits/CUSTOM_A", `{}`},
	{"DELETE", "nodes/{node}/traits/{trait}", "/v1/nodes/" + nodeID + "/traits/CUSTOM_T", ``},
	{"POST", "nodes/{node}/vifs", "/v1/nodes/" + nodeID + "/vifs", `{"id":"11111111-aaaa-4333-8444-555555555555"}`},
	{"DELETE", "nodes/{node}/vifs/{vif}", "/v1/nodes/" + nodeID + "/vifs/11111111-bbbb-4333-8444-555555555555", ``},
	{"POST", "ports", "/v1/ports", `{"node_uuid":"` + nodeID + `","address":"52:54:00:00:00:09"}`},
	{"PATCH", "ports/{port}", "/v1/ports/" + ownPort, `[{"op":"replace","path":"/extra","value":{"a":"b"}}]`},
	{"DELETE", "ports/{port}", "/v1/ports/" + freePort, ``},
	{"POST", "portgroups", "/v1/portgroups", `{"node_uuid":"` + nodeID + `"}`},
	{"PATCH", "portgroups/{portgroup}", "/v1/portgroups/" + ownGroup, `[{"op":"replace","path":"/extra","value":{"a":"b"}}]`},
	{"DELETE", "portgroups/{portgroup}", "/v1/portgroups/" + ownGroup, ``},
	{"POST", "volume/connectors", "/v1/volume/connectors", `{"node_uuid":"` + nodeID + `","type":"ip","connector_id":"d"}`},
	{"PATCH", "volume/connectors/{volume}", "/v1/volume/connectors/" + connectorID, `[{"op":"replace","path":"/extra","value":{"a":"b"}}]`},
	{"DELETE", "volume/connectors/{volume}", "/v1/volume/connectors/" + connectorID, ``},
	{"POST", "volume/targets", "/v1/volume/targets", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","boot_index":1,"volume_id":"w"}`},
	{"PATCH", "volume/targets/{volume}", "/v1/volume/targets/" + targetID, `[{"op":"replace","path":"/extra","value":{"a":"b"}}]`},
	{"DELETE", "volume/targets/{volume}", "/v1/volume/targets/" + targetID, ``},
}

// freePort is a port of that node without a VIF.
const freePort = "aaaaaaaa-3333-4333-8444-555555555555"

// newOwned is a bench with a node of a project that all of ownersRequests may be made of.
func newOwned(t *testing.T) (*bench, *countingAsker) { return ownedOn(newGuarded(t)) }

func ownedOn(b *bench) (*bench, *countingAsker) {
	admin := "system " + adminRoles
	b.wantAs(201, admin, "POST", "/v1/volume/connectors", `{"uuid":"`+connectorID+`","node_uuid":"`+nodeID+`","type":"ip","connector_id":"c"}`)
	b.wantAs(201, admin, "POST", "/v1/volume/targets", `{"uuid":"`+targetID+`","node_uuid":"`+nodeID+`","volume_type":"iscsi","boot_index":0,"volume_id":"v"}`)
	b.wantAs(204, admin, "PUT", "/v1/nodes/"+nodeID+"/traits", `{"traits":["CUSTOM_T"]}`)
	b.wantAs(204, admin, "POST", "/v1/nodes/"+nodeID+"/vifs", `{"id":"11111111-bbbb-4333-8444-555555555555"}`)
	b.wantAs(201, admin, "POST", "/v1/ports", `{"uuid":"`+freePort+`","node_uuid":"`+nodeID+`","address":"52:54:00:00:00:08"}`)
	b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Lessee = "" })
	b.observe(nodeID, func(n *store.Node) { n.PowerState = "power off" })
	return b, b.counted()
}

// counted counts what racks are asked from now on.
func (b *bench) counted() *countingAsker {
	asker := &countingAsker{}
	b.server.Ask, b.server.dispatch.Ask = asker, asker
	return asker
}

// before makes hook run before the handler of a route: when the request was judged.
func (b *bench) before(method, path string, hook func()) *Route {
	methods, _ := b.server.router.find(split(path))
	route := methods[method]
	if route == nil {
		b.t.Fatalf("there is no route %s %s", method, path)
		return nil
	}
	handle := route.Handle
	route.Handle = func(r *Request) (Reply, error) {
		hook()
		return handle(r)
	}
	return route
}

// The node changes hands after the handler has read it, while its rack is asked.
func TestANodeThatChangesHandsWhileItsRackIsAsked(t *testing.T) {
	b, _ := newOwned(t)
	b.server.dispatch.Ask = askerFunc(func(ask.Request) (json.RawMessage, error) {
		b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Owner = foreignProject })
		return json.RawMessage(`{"power":{"result":true}}`), nil
	})
	a := b.as(ownerProject+" "+adminRoles, "PUT", "/v1/nodes/"+nodeID+"/states/power", `{"target":"power off"}`)
	if n := b.node(nodeID); a.StatusCode != 404 || n.WorkID != "" || n.Owner != foreignProject {
		t.Errorf("power of the former owner: status %d, work %q of the node of %s: %s", a.StatusCode, n.WorkID, n.Owner, a.body)
	}
}

// The transaction that gives the node away is open when the former owner's request is judged, by
// the row as it was.
func TestANodeThatChangesHandsInAnOpenTransaction(t *testing.T) {
	b, _ := newOwned(t)
	gave, goOn, given := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		given <- b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			n, err := tx.Node(ctx, nodeID)
			if err != nil {
				return err
			}
			n.Owner, n.Lessee = foreignProject, ownerProject // who may read the node, and not delete it
			if err := tx.UpdateNode(ctx, n); err != nil {
				return err
			}
			close(gave)
			<-goOn
			return nil
		})
	}()
	<-gave
	b.before("DELETE", "nodes/{node}", func() { close(goOn) })
	a := b.as(ownerProject+" "+adminRoles, "DELETE", "/v1/nodes/"+nodeID, "")
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	if a.StatusCode != 403 {
		t.Errorf("deleted by the former owner: status %d: %s", a.StatusCode, a.body)
	}
	b.node(nodeID)
}

// A request that waits for a node's lock is judged by whose the node is when it has it.
func TestTheLockIsWaitedForInVain(t *testing.T) {
	b, _ := newOwned(t)
	b.server.LockWait = DefaultLockWait
	b.wantAs(202, "system "+adminRoles, "PUT", "/v1/nodes/"+nodeID+"/states/power", `{"target":"power on"}`)
	answered := make(chan answer)
	go func() {
		answered <- b.as(ownerProject+" "+adminRoles, "PUT", "/v1/nodes/"+nodeID+"/states/power", `{"target":"power off"}`)
	}()
	for b.server.lockWaits.now.Load() == 0 { // it has been judged and refused once, and waits
		select {
		case a := <-answered:
			t.Fatalf("it does not wait: status %d: %s", a.StatusCode, a.body)
		default:
		}
	}
	b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Owner = foreignProject })
	if a := <-answered; a.StatusCode != 404 || b.node(nodeID).WorkID != "" {
		t.Errorf("power of a former owner: status %d, work %q: %s", a.StatusCode, b.node(nodeID).WorkID, a.body)
	}
}

// A name that another node bears by the time a request is carried out does not lead it there.
func TestANameThatGoesToAnotherNode(t *testing.T) {
	b, _ := newOwned(t)
	owner := ownerProject + " " + adminRoles
	b.move(elsewhere, provision.Manageable, provision.NoState, func(n *store.Node) { n.Owner = ownerProject })
	b.before("PUT", "nodes/{node}/states/power", func() {
		b.move(nodeID, provision.Manageable, provision.NoState, func(n *store.Node) { n.Name = "n3" })
		b.move(elsewhere, provision.Manageable, provision.NoState, func(n *store.Node) { n.Name = "n1" })
	})
	if a := b.as(owner, "PUT", "/v1/nodes/n1/states/power", `{"target":"power on"}`); a.StatusCode != 409 || !strings.Contains(a.body, "was given to another node") {
		t.Errorf("status %d: %s", a.StatusCode, a.body)
	}
	if b.node(nodeID).WorkID+b.node(elsewhere).WorkID != "" {
		t.Error("a node has work")
	}
}
