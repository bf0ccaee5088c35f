package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

func (b *bench) node(ident string) *store.Node {
	b.t.Helper()
	n, err := b.store.Node(b.t.Context(), ident)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// work returns the open work of a node.
func (b *bench) work(ident string) *store.Work {
	b.t.Helper()
	w, err := b.store.Work(b.t.Context(), b.node(ident).WorkID)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func TestCreateAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.want(201, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","boot_interface":"ipxe"}`)
	n := a.object(t)
	if want := "http://ironyard.example:6385/v1/nodes/" + n["uuid"].(string); a.Header.Get("Location") != want {
		t.Errorf("Location %q, want %q", a.Header.Get("Location"), want)
	}
	if n["boot_interface"] != "ipxe" || n["deploy_interface"] != "fake" || n["provision_state"] != "enroll" {
		t.Errorf("node %v", n)
	}
	if b.told != 1 {
		t.Errorf("the relay was told %d times, want once", b.told)
	}
}

func TestProvisionAnswers202WithoutABody(t *testing.T) {
	b := newBench(t)
	b.addNode()
	a := b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	if a.body != "" || a.Header.Get("Content-Type") != "" || a.Header.Get("Location") != "http://ironyard.example:6385/v1/nodes/n1/states" {
		t.Errorf("body %q, headers %v", a.body, a.Header)
	}
	if w := b.work("n1"); w.Verb != work.Manage || w.RequestID != a.Header.Get("Openstack-Request-Id") {
		t.Errorf("work %+v", w)
	}
	for _, verb := range []string{"manage", "active"} {
		a = b.want(409, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"`+verb+`"}`)
		if !strings.Contains(a.fault(t), "Node "+nodeID+" is locked by host rack-1, please retry after the current operation is completed.") {
			t.Errorf("%s on a reserved node: %s", verb, a.body)
		}
	}
	states := b.want(200, "GET", "/v1/nodes/n1/states", "1.115", "").object(t)
	if states["provision_state"] != "verifying" || states["target_provision_state"] != "manageable" {
		t.Errorf("states %v", states)
	}
}

func TestProvisionArguments(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115",
		`{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase","args":{"n":1}}],"disable_ramdisk":true}`)
	if w := b.work("n1"); len(w.Args.Steps) != 1 || w.Args.Steps[0].Step != "erase" || !w.Args.DisableRamdisk || w.EntryTarget != provision.Manageable {
		t.Errorf("clean: %+v", w)
	}
	b.move("n1", provision.Active, provision.NoState, nil)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"rescue","rescue_password":"hush"}`)
	if v, _ := b.node("n1").InstanceInfo["rescue_password"].(string); !seal.Sealed(v) {
		t.Errorf("the rescue password is kept as %q", v)
	}
	for _, drive := range []string{`"http://drive/x"`, `"QUJD"`, `{"meta_data":{"a":1},"user_data":"#!/bin/sh","vendor_data":{}}`} {
		b.move("n1", provision.Available, provision.NoState, nil)
		b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"active","configdrive":`+drive+`}`)
		if w := b.work("n1"); w.Args.ConfigDrive != w.ID {
			t.Errorf("config drive %s: %+v", drive, w.Args)
		}
	}
	if strings.Contains(b.do("GET", "/v1/nodes/n1", "1.115", "").body, "hush") || strings.Contains(b.log.String(), "hush") {
		t.Error("a secret shows")
	}
}

func TestSecretsAreSealedMaskedAndKept(t *testing.T) {
	b := newBench(t)
	b.addNode()
	stored := func() string {
		v, _ := b.node("n1").DriverInfo["redfish_password"].(string)
		return v
	}
	first := stored()
	if plain, err := b.server.Key.Open(seal.Label{Kind: seal.DriverInfo, Of: nodeID, Field: "redfish_password"}, first); err != nil || plain != "open sesame" {
		t.Fatalf("stored %q opens to %q, %v", first, plain, err)
	}
	a := b.want(200, "PATCH", "/v1/nodes/n1", "1.115",
		`[{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://new","redfish_password":"******"}}]`)
	if info := a.object(t)["driver_info"].(map[string]any); info["redfish_password"] != "******" || info["redfish_address"] != "https://new" {
		t.Errorf("driver_info %v", info)
	}
	if stored() != first {
		t.Error("the mask sent back replaced the secret")
	}
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/driver_info/redfish_password","value":12345}]`)
	if plain, _ := b.server.Key.Open(seal.Label{Kind: seal.DriverInfo, Of: nodeID, Field: "redfish_password"}, stored()); plain != "12345" {
		t.Errorf("a number as a password opens to %q", plain)
	}
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/driver_info/snmp_auth_key","value":"******"}]`)
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/driver_info/token","value":"`+first+`"}]`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115",
		`[{"op":"add","path":"/instance_info","value":{"image_source":"http://i","image_url":"http://u","configdrive":"x","deep":{"api_token":"t"}}}]`)
	info := b.want(200, "GET", "/v1/nodes/n1?fields=instance_info", "1.115", "").object(t)["instance_info"].(map[string]any)
	if info["image_source"] != "http://i" || info["image_url"] != hidden || info["configdrive"] != hidden || info["deep"].(map[string]any)["api_token"] != hidden {
		t.Errorf("instance_info %v", info)
	}
	shown := b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/instance_info/image_url","value":""}]`).object(t)
	if info := shown["instance_info"].(map[string]any); info["image_url"] != "" {
		t.Errorf("an empty image_url is shown as %q", info["image_url"])
	}
}

func TestPatch(t *testing.T) {
	b := newBench(t)
	b.addNode()
	a := b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[
		{"op":"replace","path":"/name","value":"n2"},
		{"op":"add","path":"/extra/b","value":{"c":[]}},
		{"op":"add","path":"/extra/b/c/-","value":1},
		{"op":"add","path":"/extra/b/c/0","value":0},
		{"op":"remove","path":"/extra/a"},
		{"op":"add","path":"/extra/x.y~1z","value":"dots"},
		{"op":"remove","path":"/description"},
		{"op":"add","path":"/properties/capabilities","value":"boot_mode:uefi"},
		{"op":"replace","path":"/maintenance","value":"yes"},
		{"op":"add","path":"/retired","value":true}]`)
	n := a.object(t)
	extra, _ := json.Marshal(n["extra"])
	if n["reservation"] != "rack-1" { // who held the node for the change
		t.Errorf("the answer to a change shows the reservation %v", n["reservation"])
	}
	if n["name"] != "n2" || string(extra) != `{"b":{"c":[0,1]},"x.y/z":"dots"}` || n["maintenance"] != true || n["retired"] != true {
		t.Errorf("patched to %s and %v", extra, n)
	}
	n = b.want(200, "PATCH", "/v1/nodes/n2?reset_interfaces=true", "1.115", `[{"op":"replace","path":"/driver","value":"redfish"}]`).object(t)
	if n["driver"] != "redfish" || n["power_interface"] != "redfish" || n["bios_interface"] != nil {
		t.Errorf("after the driver's change: %v", n)
	}
}

func TestPatchInTransition(t *testing.T) {
	b := newBench(t)
	b.addNode()
	id := `[{"op":"add","path":"/instance_uuid","value":"99999999-2222-4333-8444-555555555555"}]`
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", id)
	b.move("n1", provision.Deploying, provision.Active, nil)
	a := b.want(409, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/extra/a","value":1}]`)
	if !strings.Contains(a.fault(t), "can not be updated while a state transition is in progress") {
		t.Errorf("said %s", a.body)
	}
	remove := `[{"op":"remove","path":"/instance_uuid"}]`
	b.want(409, "PATCH", "/v1/nodes/n1", "1.115", remove)
	b.move("n1", provision.Deploying, provision.Active, func(n *store.Node) { n.SetMaintenance(true, "") })
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", remove)
	b.move("n1", provision.Inspecting, provision.Manageable, nil)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.38", `[{"op":"add","path":"/extra/a","value":1}]`)
	b.want(409, "PATCH", "/v1/nodes/n1", "1.39", `[{"op":"add","path":"/extra/a","value":1}]`)
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.SetMaintenance(false, "") })
	b.want(409, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/boot_interface","value":"ipxe"}]`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/resource_class","value":"first"}]`)
	b.want(409, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/resource_class","value":"second"}]`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", id)
	b.want(409, "PATCH", "/v1/nodes/n1", "1.115", strings.Replace(id, "9999", "8888", 1))
}

func TestDelete(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_ident":"n1","address":"aa:bb:cc:dd:ee:01"}`)
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.InstanceUUID, n.Protected = nodeID, true })
	b.want(409, "DELETE", "/v1/nodes/n1", "1.115", "") // what it is used for is asked about first
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.InstanceUUID = "" })
	b.want(403, "DELETE", "/v1/nodes/n1", "1.115", "")
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.InstanceUUID, n.Protected = nodeID, false })
	if a := b.want(409, "DELETE", "/v1/nodes/n1", "1.115", ""); !strings.Contains(a.fault(t), "is associated with instance") {
		t.Errorf("said %s", a.body)
	}
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.InstanceUUID = "" })
	b.want(409, "DELETE", "/v1/nodes/n1", "1.115", "")
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{"reason":"scrap"}`)
	b.want(202, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"power on"}`)
	b.want(409, "DELETE", "/v1/nodes/n1", "1.115", "") // work is open
	b.move("n1", provision.Active, provision.NoState, nil)
	a := b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
	if a.body != "" || a.Header.Get("Content-Type") != "" {
		t.Errorf("body %q, headers %v", a.body, a.Header)
	}
	b.want(404, "GET", "/v1/nodes/"+nodeID, "1.115", "")
	if a := b.want(200, "GET", "/v1/ports", "1.115", ""); a.body != `{"ports":[]}` {
		t.Errorf("its ports are left: %s", a.body)
	}
}

func TestMaintenance(t *testing.T) {
	b := newBench(t)
	b.addNode()
	if a := b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", `{"reason":"fan"}`); a.body != "" {
		t.Errorf("body %q", a.body)
	}
	n := b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t)
	if n["maintenance"] != true || n["maintenance_reason"] != "fan" {
		t.Errorf("node %v", n)
	}
	b.want(202, "PUT", "/v1/nodes/"+nodeID+"/maintenance", "1.1", "")
	b.want(202, "DELETE", "/v1/nodes/n1/maintenance", "1.115", "")
	n = b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t)
	if n["maintenance"] != false || n["maintenance_reason"] != nil {
		t.Errorf("node %v", n)
	}
}

func TestTraits(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(204, "PUT", "/v1/nodes/n1/traits", "1.37", `{"traits":["CUSTOM_B","CUSTOM_A","CUSTOM_A"]}`)
	a := b.want(204, "PUT", "/v1/nodes/n1/traits/HW_CPU_X86_VMX", "1.37", "")
	if a.Header.Get("Location") != "http://ironyard.example:6385/v1/nodes/n1/traits/HW_CPU_X86_VMX" {
		t.Errorf("Location %q", a.Header.Get("Location"))
	}
	b.want(204, "DELETE", "/v1/nodes/n1/traits/CUSTOM_B", "1.37", "")
	if a := b.want(200, "GET", "/v1/nodes/n1/traits", "1.37", ""); a.body != `{"traits":["CUSTOM_A","HW_CPU_X86_VMX"]}` {
		t.Errorf("traits %s", a.body)
	}
	b.want(204, "DELETE", "/v1/nodes/n1/traits", "1.37", "")
	if a := b.want(200, "GET", "/v1/nodes/n1/traits", "1.37", ""); a.body != `{"traits":[]}` {
		t.Errorf("traits %s", a.body)
	}
}

func TestPorts(t *testing.T) {
	b := newBench(t)
	b.addNode()
	p := b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"AA:BB:CC:DD:EE:01","name":"p1","pxe_enabled":"no"}`).object(t)
	if p["address"] != "aa:bb:cc:dd:ee:01" || p["pxe_enabled"] != false {
		t.Errorf("port %v", p)
	}
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_ident":"n1","address":"aa:bb:cc:dd:ee:02"}`)
	p = b.want(200, "PATCH", "/v1/ports/p1", "1.115", `[{"op":"replace","path":"/address","value":"AA:BB:CC:DD:EE:03"},{"op":"add","path":"/extra/a","value":1}]`).object(t)
	if p["address"] != "aa:bb:cc:dd:ee:03" {
		t.Errorf("port %v", p)
	}
	if old := b.want(200, "GET", "/v1/ports/p1", "1.1", "").object(t); old["uuid"] != p["uuid"] || old["name"] != nil {
		t.Errorf("by its name, at a version that shows none: %v", old)
	}
	b.want(200, "PATCH", "/v1/ports/p1", "1.87", `[{"op":"add","path":"/extra/b","value":1}]`)
	b.want(404, "GET", "/v1/ports/p2", "1.1", "")
	b.want(409, "PATCH", "/v1/ports/p1", "1.115", `[{"op":"replace","path":"/address","value":"aa:bb:cc:dd:ee:02"}]`)
	b.want(400, "PATCH", "/v1/ports/p1", "1.115", `[{"op":"replace","path":"/node_uuid","value":"88888888-2222-4333-8444-555555555555"}]`)
	list := b.want(200, "GET", "/v1/nodes/n1/ports?limit=1&sort_key=address", "1.115", "").object(t)
	if next, _ := list["next"].(string); len(list["ports"].([]any)) != 1 || !strings.HasPrefix(next, "http://ironyard.example:6385/v1/nodes/n1/ports?") {
		t.Errorf("list %v", list)
	}
	if list := b.want(200, "GET", "/v1/ports?address=AA:BB:CC:DD:EE:03&fields=uuid,name", "1.115", "").object(t)["ports"].([]any); len(list) != 1 {
		t.Errorf("by address: %v", list)
	}
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	b.want(409, "DELETE", "/v1/ports/"+p["uuid"].(string), "1.115", "")
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(204, "DELETE", "/v1/ports/"+p["uuid"].(string), "1.115", "")
}

func TestRackQuestions(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(204, "PUT", "/v1/nodes/n1/management/boot_device", "1.115", `{"boot_device":"disk","persistent":true}`)
	b.want(204, "PUT", "/v1/nodes/n1/management/inject_nmi", "1.115", `{}`)
	delete(b.ask, ask.GetBootDevice)
	a := b.want(503, "GET", "/v1/nodes/n1/management/boot_device", "1.115", "")
	if !strings.Contains(a.body, `\"faultcode\":\"Server\"`) {
		t.Errorf("said %s", a.body)
	}
	b.server.Roster, b.server.dispatch.Roster = fakeRoster{}, fakeRoster{}
	b.want(503, "GET", "/v1/nodes/n1/validate", "1.115", "")
}

func TestPanicIsA500ThatTellsNothing(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.server.Ask, b.server.dispatch.Ask = nil, nil
	a := b.want(500, "GET", "/v1/nodes/n1/validate", "1.115", "")
	if strings.Contains(a.fault(t), "nil") || !strings.Contains(b.log.String(), a.Header.Get("Openstack-Request-Id")) {
		t.Errorf("said %s", a.body)
	}
	// The id that a client gives to what it does is in the log, beside the request's own.
	for given, logged := range map[string]string{
		"req-11111111-2222-4333-8444-555555555555":      "global_request_id=req-11111111-2222-4333-8444-555555555555",
		"11111111-2222-4333-8444-555555555555":          `global_request_id=""`,
		"req-{11111111-2222-4333-8444-555555555555}":    `global_request_id=""`,
		"req-11111111-2222-4333-8444-555555555555\tx=1": `global_request_id=""`,
	} {
		b.log.Reset()
		a := b.do("GET", "/v1/nodes/n1/validate", "1.115", "", "X-OpenStack-Request-Id", given)
		if a.StatusCode != 500 || a.Header.Get("X-Openstack-Request-Id") == given || !strings.Contains(b.log.String(), logged) {
			t.Errorf("%q: status %d, logged %s", given, a.StatusCode, b.log.String())
		}
	}
}

func TestInventory(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(404, "GET", "/v1/nodes/n1/inventory", "1.115", "")
	err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.SetInventory(ctx, nodeID, store.Inventory{Data: []byte(`{"cpu":{"count":4}}`)})
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := b.want(200, "GET", "/v1/nodes/n1/inventory", "1.115", ""); a.body != `{"inventory":{"cpu":{"count":4}},"plugin_data":{}}` {
		t.Errorf("inventory %s", a.body)
	}
}
