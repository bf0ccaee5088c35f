package api

import (
	"strings"
	"testing"
)

// TestWhichFaultIsNamed holds what is said of bodies in which more than one thing is wrong, as
// heard from a running Ironic.
func TestWhichFaultIsNamed(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const step = `{"interface":"deploy","step":"x","args":{},"priority":1}`
	const none = "77777777-2222-4333-8444-555555555555"
	post := func(path, version, body string, status int, text string) refusal {
		return refusal{"POST", "/v1/" + path, version, body, status, text}
	}
	b.refuse([]string{"/v1/nodes/detail", "/v1/ports", "/v1/chassis"},
		// What lacks or is strange comes before values, of these the last by name is named, and
		// all that a schema says comes before what a text means.
		post("nodes", "1.115", `{"driver":5,"bogus":1}`, 400, "'bogus' was unexpected"),
		post("nodes", "1.115", `{"extra":5,"shard":6,"chassis_uuid":"x"}`, 400, "'driver' is a required property"),
		post("nodes", "1.115", `{"driver":5,"shard":6,"chassis_uuid":"x"}`, 400, "6 is not of type 'string', 'null'"),
		post("nodes", "1.115", `{"driver":"x","chassis_uuid":"x","retired":"x"}`, 400, "Expected UUID for chassis_uuid: x"),
		post("chassis", "1.115", `{"uuid":"x","extra":5}`, 400, "5 is not of type 'object', 'null'"),
		post("volume/connectors", "1.115", `{"node_uuid":"x","type":"ip","connector_id":7}`, 400, "7 is not of type 'string'"),
		post("portgroups", "1.115", `{"node_uuid":"x","address":5}`, 400, "5 is not of type 'string', 'null'"),
		post("ports", "1.115", `{"node_uuid":"x","address":null,"vendor":5}`, 400, "5 is not of type 'string', 'null'"),
		// A link is a value: it is read before versions are looked at; a rule is asked last.
		post("ports", "1.20", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:00:01","local_link_connection":{"a":1},"physical_network":"p"}`, 400, "local_link_connection"),
		post("ports", "1.115", `{"node_uuid":"`+none+`","address":"52:54:00:00:00:01","physical_network":""}`, 400, "Node "+none+" could not be found."),
		post("ports", "1.115", `{"address":"52:54:00:00:00:01"}`, 400, "{'address': '52:54:00:00:00:01'} is not valid under any of the given schemas. Possible root cause: 'node_ident' is a required property"),
		post("ports", "1.115", `{"address":"52:54:00:00:00:01","node_uuid":"a","node_ident":"b"}`, 400, "is valid under each of"),
		// What is wrong inside of a value comes after whole values; of steps the last is named.
		post("deploy_templates", "1.115", `{"name":"CUSTOM_A","extra":5,"steps":[{}]}`, 400, "5 is not of type 'object', 'null'"),
		post("deploy_templates", "1.115", `{"name":"CUSTOM_A","steps":[`+step+`,{"interface":"x","step":"","args":{},"priority":1},{"interface":"bios","step":"y","args":5,"priority":-1}]}`, 400, "-1 is less than the minimum of 0"),
		post("deploy_templates", "1.115", `{"name":"CUSTOM_A","steps":[{"interface":"deploy","step":"x","args":{},"b":1,"a":2,"priority":1},{"interface":5,"step":"x","args":{},"priority":1}]}`, 400, "('a', 'b' were unexpected)"),
		// Allocations and inspection rules name the first by name, and what is strange last.
		post("allocations", "1.115", `{"name":5,"resource_class":6,"bogus":1}`, 400, "Schema error: 5 is not of type 'string', 'null'"),
		post("allocations", "1.115", `{"candidate_nodes":["a b"],"resource_class":6}`, 400, "'a b' is not valid under any of the given schemas. Possible root cause: 'a b' is not a 'uuid'"),
		post("allocations", "1.115", `{"candidate_nodes":["nobody"]}`, 400, "The resource_class field is mandatory"),
		post("allocations", "1.115", `{"uuid":5,"node":6}`, 400, "Schema error: 5 is not"),
		post("inspection_rules", "1.115", `{"actions":[{"op":"fail"}],"priority":-1,"bogus":1}`, 400, "'args' is a required property"),
		post("inspection_rules", "1.115", `{"actions":[{"op":"fail","args":{"msg":"x"}}],"phase":"x","sensitive":"x"}`, 400, "'x' is not of type 'boolean', 'null'"),
		post("inspection_rules", "1.115", `{"actions":[],"uuid":5}`, 400, "[] should be non-empty"),
		post("inspection_rules", "1.115", `{"actions":[{"op":"fail","args":{"msg":"x"}}],"phase":"x"}`, 400, "Invalid phase: x. Valid phases are: "),
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/extra","value":5},{"op":"add","path":"/shard","value":6},{"op":"add","path":"/description","value":7}]`, 400, "Schema error for patch: 6 is not of type 'string', 'null'"},
	)
}

// TestWhatCanBePatched holds the order in which a refusal names what a PATCH may change.
func TestWhatCanBePatched(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+portID+`","node_uuid":"`+nodeID+`","address":"52:54:00:00:00:01"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.want(201, "POST", "/v1/allocations", "1.115", `{"name":"a1","resource_class":"none"}`)
	b.want(201, "POST", "/v1/runbooks", "1.115", runbookBody)
	for path, want := range map[string]string{
		"ports/" + portID:       "pxe_enabled, name, description, vendor, category, available_for_dynamic_portgroup",
		"portgroups/" + groupID: "standalone_ports_supported, physical_network, category",
		"allocations/a1":        "updated: name, extra",
		"runbooks/CUSTOM_WASH":  "disable_ramdisk, extra, name, owner, public, steps, description",
	} {
		if said := b.want(400, "PATCH", "/v1/"+path, "1.115", `[{"op":"add","path":"/bogus","value":1}]`).fault(t); !strings.Contains(said, want) {
			t.Errorf("%s: said %q, want %q", path, said, want)
		}
	}
}

// TestFiltersBelow holds which of the filters of a list its parts below a node or a port group take.
func TestFiltersBelow(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+portID+`","node_uuid":"`+nodeID+`","address":"52:54:00:00:00:01","description":"left","portgroup_uuid":"`+groupID+`"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:00:02","description":"right","portgroup_uuid":"`+groupID+`"}`)
	const node, group = "/v1/nodes/n1/", "/v1/portgroups/" + groupID + "/"
	for path, want := range map[string]int{
		node + "ports": 2, node + "ports?node=nobody": 2, node + "ports?node_uuid=" + groupID: 2,
		node + "ports?description_contains=lef": 1, node + "ports/detail?description_contains=lef": 1,
		group + "ports": 2, group + "ports?portgroup=" + nodeID: 2, group + "ports/detail?description_contains=none": 0,
		node + "portgroups?node=nobody": 1, node + "volume/targets?node=nobody": 0,
	} {
		list := b.want(200, "GET", path, "1.115", "").object(t)
		for name, items := range list {
			if items := items.([]any); len(items) != want {
				t.Errorf("%s shows %d %s, want %d", path, len(items), name, want)
			}
		}
	}
	b.refuse([]string{"/v1/ports"},
		refusal{"GET", node + "ports?shard=s", "1.115", "", 403, "Operation not permitted."},
		refusal{"GET", node + "ports?portgroup=" + groupID, "1.115", "", 403, "Operation not permitted."},
		refusal{"GET", node + "ports?conductor_groups=g", "1.115", "", 400, "Filtering by conductor_groups cannot be combined"},
		refusal{"GET", node + "ports?bogus=1", "1.115", "", 400, "Unexpected arguments: bogus"},
		refusal{"GET", node + "ports?shard=s", "1.81", "", 406, ""},
		refusal{"GET", group + "ports?node=n1", "1.115", "", 403, "Operation not permitted."},
		refusal{"GET", node + "portgroups?address=52:54:00:00:00:01", "1.115", "", 400, "Filtering by node, address, or shard simultaneously is not supported."},
		// What is no text in UTF-8 is no argument, and no path.
		refusal{"GET", "/v1/nodes?owner=%ff", "1.115", "", 400, ""},
		refusal{"GET", "/v1/nodes/%ff", "1.115", "", 400, ""},
		refusal{"GET", "/v1/allocations/a%00", "1.115", "", 400, ""},
		refusal{"GET", "/v1/drivers/a%00", "1.115", "", 400, ""},
	)
}
