package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"

	"github.com/ironyard/ironyard/central/store"
)

const (
	connectorID = "eeeeeeee-0003-4333-8444-555555555555"
	targetID    = "eeeeeeee-0004-4333-8444-555555555555"
)

func TestVolumes(t *testing.T) {
	b := newBench(t)
	b.addNode()
	made := b.want(201, "POST", "/v1/volume/connectors", "1.32", `{"uuid":"`+connectorID+`","node_uuid":"`+nodeID+`","type":"iqn","connector_id":"iqn.2026-01:n1"}`)
	if got := made.Header.Get("Location"); got != "http://ironyard.example:6385/v1/volume/connectors/"+connectorID {
		t.Errorf("Location %q", got)
	}
	b.want(201, "POST", "/v1/volume/targets", "1.32", `{"uuid":"`+targetID+`","node_uuid":"`+nodeID+`","volume_type":"iscsi","volume_id":"v1","boot_index":0,
		"properties":{"target_iqn":"iqn.2026-01:storage","auth_password":"open sesame"}}`)
	for _, version := range []string{"1.1", "1.31", "1.32", "1.89", "1.115"} {
		for name, path := range map[string]string{"volume": "/v1/volume", "volume-connector": "/v1/volume/connectors/" + connectorID, "volume-connectors": "/v1/volume/connectors",
			"volume-target": "/v1/volume/targets/" + targetID, "volume-targets": "/v1/volume/targets", "volume-of-node": "/v1/nodes/n1/volume"} {
			golden(t, name+"@"+version, b.do("GET", path, version, "").body)
		}
	}
	for path, count := range map[string]int{"/v1/volume/connectors?node=n1": 1, "/v1/volume/targets?detail=true": 1, "/v1/nodes/n1/volume/connectors": 1,
		"/v1/nodes/n1/volume/targets?fields=uuid": 1} {
		list := b.want(200, "GET", path, "1.32", "").object(t)
		if items := append(listOf(list, "connectors"), listOf(list, "targets")...); len(items) != count {
			t.Errorf("%s: %v, want %d", path, list, count)
		}
	}
	const connector, target = "/v1/volume/connectors/" + connectorID, "/v1/volume/targets/" + targetID
	b.move(nodeID, provision.Available, provision.NoState, nil)
	for _, path := range []string{connector, target} {
		b.refused(path, []request{ // nobody has seen the node's power yet
			{400, "PATCH", path, "1.32", `[{"op":"add","path":"/extra/a","value":1}]`},
			{400, "DELETE", path, "1.32", ""},
		})
	}
	b.observe(nodeID, func(n *store.Node) { n.PowerState = "power on" })
	b.refused(target, []request{
		{404, "GET", "/v1/volume", "1.31", ""},
		{404, "GET", "/v1/nodes/n1/volume", "1.31", ""},
		{404, "GET", "/v1/nodes/n1/volume/targets", "1.31", ""},
		{400, "PATCH", target, "1.32", `[{"op":"add","path":"/extra/a","value":1}]`},
		{400, "DELETE", target, "1.32", ""},
		{400, "GET", "/v1/volume/targets/v1", "1.32", ""},
		{404, "GET", "/v1/volume/targets/" + connectorID, "1.32", ""},
		{404, "POST", "/v1/volume/targets", "1.31", `{}`},
		{400, "POST", "/v1/volume/targets", "1.32", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v1"}`},
		{400, "POST", "/v1/volume/targets", "1.32", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v1","boot_index":"0"}`},
		{400, "POST", "/v1/volume/targets", "1.32", `{"node_uuid":"` + nobodyID + `","volume_type":"iscsi","volume_id":"v1","boot_index":0}`},
		{409, "POST", "/v1/volume/targets", "1.32", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v2","boot_index":0}`},
		{409, "POST", "/v1/volume/targets", "1.32", `{"uuid":"` + targetID + `","node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v2","boot_index":1}`},
		{400, "GET", "/v1/volume/targets?fields=uuid&detail=true", "1.32", ""},
		{400, "GET", "/v1/volume/targets?sort_key=properties", "1.32", ""},
		{400, "GET", "/v1/volume/targets?colour=red", "1.32", ""},
	})
	b.refused(connector, []request{
		{400, "POST", "/v1/volume/connectors", "1.32", `{"node_uuid":"` + nodeID + `","type":"iqn"}`},
		{409, "POST", "/v1/volume/connectors", "1.32", `{"node_uuid":"` + nodeID + `","type":"iqn","connector_id":"iqn.2026-01:n1"}`},
		{405, "PUT", connector, "1.32", `{}`},
	})
	for _, q := range []struct {
		status                   int
		method, path, body, text string
	}{
		{400, "PATCH", connector, `[{"op":"add","path":"/extra/a","value":1}]`, `The requested action "volume connector update" can not be performed on node "` + nodeID + `" while it is in state "power on".`},
		{400, "DELETE", target, "", `The requested action "volume target deletion" can not be performed on node "` + nodeID + `" while it is in state "power on".`},
		{409, "POST", "/v1/volume/connectors", `{"node_uuid":"` + nodeID + `","type":"iqn","connector_id":"iqn.2026-01:n1"}`,
			"A volume connector with type iqn and connector ID iqn.2026-01:n1 already exists."},
		{409, "POST", "/v1/volume/targets", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","volume_id":"v2","boot_index":0}`,
			"A volume target with boot index '0' for the same node already exists."},
	} {
		if a := b.want(q.status, q.method, q.path, "1.32", q.body); !strings.Contains(a.fault(t), q.text) {
			t.Errorf("%s %s: %s, want %s", q.method, q.path, a.body, q.text)
		}
	}
	b.observe(nodeID, func(n *store.Node) { n.PowerState = "power off" })
	changed := b.want(200, "PATCH", target, "1.32", `[{"op":"replace","path":"/boot_index","value":1},{"op":"add","path":"/properties/target_lun","value":3}]`)
	if got := changed.object(t); got["boot_index"] != 1.0 || strings.Contains(changed.body, "sesame") {
		t.Errorf("changed target %s", changed.body)
	}
	kept, err := b.store.VolumeTarget(t.Context(), targetID)
	if err != nil || len(kept.Properties) != 3 || kept.Properties["auth_password"] == "open sesame" || kept.Properties["auth_password"] == hidden {
		t.Errorf("kept properties %v, error %v: the password must be sealed, and still be there", kept.Properties, err)
	}
	b.refused(target, []request{{400, "PATCH", target, "1.32", `[{"op":"replace","path":"/node_uuid","value":"` + nobodyID + `"}]`}})
	b.want(204, "DELETE", target, "1.32", "")
	b.move(nodeID, provision.Enroll, provision.NoState, nil)
	b.observe(nodeID, func(n *store.Node) { n.PowerState = "power on" })
	b.want(204, "DELETE", connector, "1.32", "") // nobody uses such a node
	b.want(404, "DELETE", target, "1.32", "")
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage"}`)
	c := b.want(201, "POST", "/v1/volume/connectors", "1.32", `{"node_uuid":"`+nodeID+`","type":"iqn","connector_id":"x"}`).object(t)["uuid"].(string)
	b.refused("/v1/nodes/n1", []request{{409, "DELETE", "/v1/volume/connectors/" + c, "1.32", ""}})
	b.move(nodeID, provision.Manageable, provision.NoState, nil)
}

func listOf(m map[string]any, key string) []any {
	list, _ := m[key].([]any)
	return list
}
