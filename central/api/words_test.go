package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// TestWords holds refusals to what a running Ironic 39 says to the same requests, word for word:
// clients show these texts, and some compare them.
func TestWords(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"name":"p1"`)
	const (
		n       = "/v1/nodes/" + nodeID
		chassis = "cccccccc-2222-4333-8444-555555555555"
		event   = `"port_id":"` + portID + `","mac_address":"aa:bb:cc:dd:ee:01","status":"ACTIVE"`
		traits  = `"CUSTOM_0","CUSTOM_1","CUSTOM_2","CUSTOM_3","CUSTOM_4","CUSTOM_5","CUSTOM_6","CUSTOM_7","CUSTOM_8","CUSTOM_9"`
	)
	b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"`+chassis+`"}`)
	b.want(200, "PATCH", n, "1.115", `[{"op":"add","path":"/chassis_uuid","value":"`+chassis+`"}]`)
	many := `{"traits":[` + traits
	for _, tens := range []string{"1", "2", "3", "4", "5"} {
		for _, ones := range "0123456789" {
			many += `,"CUSTOM_` + tens + string(ones) + `"`
		}
	}
	many += `]}`
	for _, c := range []struct {
		status             int
		method, path, body string
		words              string
	}{
		{400, "POST", "/v1/chassis", `{"uuid":0}`, "Schema error for chassis: 0 is not of type 'string', 'null' in uuid"},
		{400, "PATCH", "/v1/ports/" + portID, `[{"op":"replace","path":"/address","value":1}]`, "Schema error for patch: 1 is not of type 'string' in address"},
		{400, "PATCH", "/v1/ports/" + portID, `[{"op":"replace","path":"/address","value":null}]`, "Schema error for patch: None is not of type 'string' in address"},
		{400, "PATCH", "/v1/ports/" + portID, `[{"op":"remove","path":"/address"}]`, "Schema error for patch: 'address' is a required property"},
		{400, "GET", n + "?fields=name,bogus,nothing", "", "Field bogus is not a valid field."},
		{400, "GET", "/v1/nodes?sort_key=traits", "", "The sort_key value traits is an invalid field for sorting"},
		{400, "GET", "/v1/nodes?sort_key=clean_step", "", "The sort_key value clean_step is an invalid field for sorting"},
		{400, "GET", "/v1/nodes?sort_key=chassis_uuid", "", `The sort_key value "chassis_uuid" is an invalid field for sorting`},
		{400, "GET", "/v1/ports?sort_key=portgroup_uuid", "", `The sort_key value "portgroup_uuid" is an invalid field for sorting`},
		{400, "GET", "/v1/nodes?fault=none", "", `Unrecognized fault "none" is specified, allowed faults are ('power failure', 'clean failure', 'rescue abort failure', 'service failure')`},
		{409, "POST", "/v1/ports", `{"uuid":"` + portID + `","node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:02"}`, "A port with UUID " + portID + " already exists."},
		{409, "PATCH", n, `[{"op":"add","path":"/protected","value":true}]`, "Node " + nodeID + " can only be made protected in provision states 'active' or 'rescue', the current state is 'enroll'"},
		{400, "DELETE", "/v1/chassis/" + chassis, "", "Cannot complete the requested action because chassis " + chassis + " contains nodes. remove them, or unset their chassis_uuid, first"},
		{404, "GET", "/v1/inspection_rules/" + chassis, "", "Rule " + chassis + " could not be found."},
		{400, "GET", n + "/management/indicators/x", "", `Malformed indicator name "x" it is NAME@COMPONENT`},
		{400, "PUT", n + "/states/power", `{"target":"power on","timeout":"x"}`, "Expected an integer for timeout: x"},
		{400, "PUT", n + "/states/power", `{"target":"power on","timeout":0}`, "timeout has to be positive integer"},
		{400, "PUT", n + "/states/boot_mode", `{"target":"x"}`, "Invalid boot mode x requested for node. Allowed boot modes are: bios, uefi"},
		{400, "PUT", n + "/states/boot_mode", `{"target":1}`, "Expected string for target: 1"},
		{400, "PATCH", n, `[{"op":"replace","path":"/parent_node","value":null}]`, "Unable to apply the requested parent_node 'None'. Requested value was invalid."},
		{400, "PATCH", n, `[{"op":"add","path":"/parent_node","value":true}]`, "Unable to apply the requested parent_node 'True'. Requested value was invalid."},
		{400, "PATCH", n, `[{"op":"replace","path":"/network_data","value":{"networks":[]}}]`, "Invalid network_data: 'links' is a required property "},
		{400, "PATCH", n, `[{"op":"replace","path":"/network_data","value":[1]}]`, "Invalid network_data: [1] is not of type 'object' "},
		{404, "GET", "/v1/nodes/detail/", "", "Resource could not be found."},
		{404, "GET", n + "/ports/detail/", "", "Resource could not be found."},
		{404, "GET", "/v1/nodes/detail/x", "", "Node detail could not be found."},
		{404, "GET", "/v1/portgroups/detail/x", "", "Portgroup detail could not be found."},
		{400, "GET", "/v1/nodes/states", "", "Missing mandatory parameter: node_ident"},
		{400, "PUT", n + "/states/raid", `"x"`, "Expected types <class 'dict'> for target_raid_config: x"},
		{400, "PUT", n + "/states/raid", `[]`, "Expected types <class 'dict'> for target_raid_config: []"},
		{400, "PUT", n + "/states/provision", `{"target":"manage","clean_steps":[{"interface":"deploy","step":"x"}]}`, `"clean_steps" is only valid when setting target provision state to clean not to manage`},
		{400, "PUT", n + "/states/provision", `{"target":"manage","disable_ramdisk":true}`, "disable_ramdisk is supported only with manual cleaning or servicing"},
		{400, "PUT", n + "/states/provision", `{"target":"manage","configdrive":"x"}`, "Adding a config drive is only supported when setting provision state to active, rebuild"},
		{400, "PUT", n + "/traits", `{"traits":[1]}`, "Schema error for body: 1 is not of type 'string'"},
		{400, "PUT", n + "/traits", `{"bogus":1}`, "Schema error for body: Additional properties are not allowed ('bogus' was unexpected)"},
		{400, "PUT", n + "/traits", many, "Could not modify traits for node " + nodeID + " as it would exceed the maximum number of traits per node (60 vs. 50)"},
		{400, "POST", n + "/vmedia", `{"device_type":"cdrom","image_url":"http://x/y","bogus":1}`, "Schema error for vmedia: Additional properties are not allowed ('bogus' was unexpected)"},
		{400, "POST", "/v1/events", `{"events":[],"bogus":1}`, "Schema error: Additional properties are not allowed ('bogus' was unexpected)"},
		{400, "POST", "/v1/inspection_rules", `{"actions":[{"op":"explode","args":{}}]}`, "Schema error: 'explode' is not one of ['fail', 'log', 'set-attribute', 'extend-attribute', 'del-attribute', 'set-capability', " +
			"'unset-capability', 'add-trait', 'remove-trait', 'set-plugin-data', 'extend-plugin-data', 'unset-plugin-data', 'set-port-attribute', 'extend-port-attribute', 'del-port-attribute', 'api-call'] in action 1"},
		{400, "POST", "/v1/inspection_rules", `{"actions":[{"op":"fail","args":{"msg":"x"}}],"conditions":[{"op":"eq"}]}`, "Schema error: 'args' is a required property in condition 1"},
		{400, "POST", "/v1/continue_inspection", `{"inventory":"x"}`, "Schema error for data: 'x' is not of type 'object' in inventory"},
		{400, "POST", "/v1/continue_inspection", `{"inventory":{}}`, "Schema error for data: 'interfaces' is a required property in inventory"},
		{400, "POST", "/v1/continue_inspection", `{"inventory":{"interfaces":[]}}`, "Schema error for data: [] should be non-empty in inventory/interfaces"},
		{400, "POST", "/v1/events", `{}`, "Schema error: 'events' is a required property"},
		{400, "GET", "/v1/ports?node=", "", "Expected UUID or name for node: "},
		{400, "GET", "/v1/ports?portgroup=", "", "Expected UUID or name for portgroup: "},
		{400, "GET", "/v1/ports?marker=", "", "Expected UUID for marker: "},
		{400, "GET", "/v1/ports?fields=x,uuid,y", "", "Field(s) \"x, y\" are not valid"},
		{400, "GET", "/v1/ports?sort_key=extra", "", "The sort_key value extra is an invalid field for sorting"},
		{400, "GET", "/v1/conductors?marker=", "", "Missing host in marker"},
		{400, "GET", "/v1/conductors?sort_dir=up", "", "Schema error: 'up' is not one of ['asc', 'desc']"},
		{400, "GET", "/v1/chassis?sort_dir=", "", "Schema error: '' is not one of ['asc', 'desc']"},
		{400, "GET", "/v1/chassis?fields=x", "", "Schema error: 'x' is not one of ['created_at', 'description', 'extra', 'links', 'nodes', 'updated_at', 'uuid']"},
		{400, "GET", "/v1/deploy_templates?fields=description", "", "Field(s) \"description\" are not valid"},
		{400, "GET", "/v1/portgroups?marker=x", "", "Schema error: 'x' is not a 'uuid'"},
		{400, "GET", "/v1/portgroups?address=x", "", "Schema error: 'x' is not a 'mac-address'"},
		{400, "GET", "/v1/portgroups?node=", "", "Schema error: '' is not valid under any of the given schemas. Possible root cause: '' is not a 'uuid'"},
		{400, "POST", "/v1/events", `{"events":"x"}`, "Schema error: 'x' is not of type 'array'"},
		{400, "POST", "/v1/events", `{"events":[]}`, "Schema error: [] should be non-empty"},
		{400, "POST", "/v1/events", `{"events":[1]}`, "Schema error: 1 is not of type 'object' event 1"},
		{400, "POST", "/v1/events", `{"events":[{"event":"network.bind_port"}]}`, "Schema error: 'port_id' is a required property in event 1"},
		{400, "POST", "/v1/events", `{"events":[{"event":"x",` + event + `}]}`, "Schema error: 'x' is not one of ['network.bind_port', 'network.unbind_port', 'network.delete_port'] in event 1"},
		{400, "POST", "/v1/events", `{"events":[{"event":"network.bind_port",` + event + `,"device_id":"x"}]}`, "Schema error: 'x' is not a 'uuid' in event 1"},
		{400, "POST", "/v1/events", `{"events":[{"event":"network.bind_port",` + event + `,"bogus":1}]}`, "Schema error: Additional properties are not allowed ('bogus' was unexpected) in event 1"},
	} {
		a := b.want(c.status, c.method, c.path, "1.115", c.body)
		if said := a.fault(t); said != c.words {
			t.Errorf("%s %s %s: said %q, want %q", c.method, c.path, c.body, said, c.words)
		}
	}
}

// TestWordsInUse holds the refusals that a node hears which somebody uses, and those of what is taken.
func TestWordsInUse(t *testing.T) {
	const second, instance = "22222222-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+second+`","driver":"fake-hardware"}`)
	b.want(200, "PATCH", "/v1/nodes/"+second, "1.115", `[{"op":"add","path":"/instance_uuid","value":"`+instance+`"}]`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/resource_class","value":"small"}]`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+groupID+`","node_uuid":"`+nodeID+`","standalone_ports_supported":false}`)
	b.move("n1", provision.Active, "", nil)
	b.refuse([]string{"/v1/nodes/detail", "/v1/ports"},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/bios_interface","value":"fake"}]`, 409, "Node " + nodeID +
			" can not have bios_interface updated unless it is in one of allowed (enroll, inspecting, inspect wait, manageable, available) states or in maintenance mode. Current state is 'active'."},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/resource_class","value":"large"}]`, 409, "Node " + nodeID +
			" can not have resource_class updated unless it is in one of allowed (enroll, inspecting, inspect wait, manageable, available) states. Current state is 'active'."},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/instance_uuid","value":"` + instance + `"}]`, 409, "Instance " + instance +
			" is already associated with a node, it cannot be associated with this other node " + nodeID},
		refusal{"DELETE", "/v1/nodes/n1", "1.115", "", 409, `Can not delete node "` + nodeID + `" while it is in provision state "active". Valid provision states to perform deletion are: ` +
			`"('manageable', 'enroll', 'adopt failed', 'available')", or set the node into maintenance mode`},
		refusal{"POST", "/v1/ports", "1.115", `{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:09","pxe_enabled":true,"portgroup_uuid":"` + groupID + `"}`, 409, "Port group " + groupID +
			" doesn't support standalone ports. This port cannot be created as a member of that portgroup as the port's 'pxe_enabled' field was set to True."},
		refusal{"POST", "/v1/allocations", "1.115", `{"node":"` + second + `","resource_class":"large"}`, 409, "Resource class None does not match the requested resource class large"},
	)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/protected","value":true}]`)
	b.refuse([]string{"/v1/nodes/n1"},
		refusal{"PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"deleted"}`, 403, "Node " + nodeID + " is protected and cannot be undeployed, rebuilt or deleted"},
		refusal{"DELETE", "/v1/nodes/n1", "1.115", "", 403, "Node " + nodeID + " is protected and cannot be undeployed, rebuilt or deleted"},
	)
	b.refuse([]string{"/v1/nodes/detail"},
		refusal{"POST", "/v1/nodes", "1.115", `{"uuid":"` + portID + `","driver":"fake-hardware","instance_uuid":"` + instance + `"}`, 409, "Instance " + instance +
			" is already associated with a node, it cannot be associated with this other node " + portID},
		refusal{"POST", "/v1/nodes", "1.115", `{"driver":"nobodys","name":"a b"}`, 400, "Cannot create node with invalid name 'a b'"},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/name","value":"a b"},{"op":"replace","path":"/uuid","value":"x"}]`, 400, "Cannot patch /uuid. Only the following can be updated: "},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"remove","path":"/driver"},{"op":"replace","path":"/driver","value":"fake-hardware"}]`, 400,
			"Couldn't apply patch '{'op': 'replace', 'path': '/driver', 'value': 'fake-hardware'}'. Reason: can't replace a non-existent object 'driver'"},
		refusal{"PATCH", "/v1/nodes/n1?reset_interfaces=true", "1.115", `[{"op":"remove","path":"/driver"}]`, 400, "The reset_interfaces parameter can only be used when changing the node's driver."},
		refusal{"PATCH", "/v1/nodes/nobody", "1.115", `[{"op":"add","path":"/uuid","value":"x"}]`, 400, "Cannot patch /uuid. Only the following can be updated: "},
		refusal{"PATCH", "/v1/nodes/nobody", "1.115", `[{"op":"add","path":"/name","value":"a b"}]`, 404, "Node nobody could not be found."},
	)
	b.move("n1", provision.Cleaning, provision.Available, nil)
	b.refuse([]string{"/v1/nodes/n1"},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/name","value":"a b"}]`, 409, "Node n1 can not be updated while a state transition is in progress."},
		refusal{"PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/description","value":1}]`, 409, "Node n1 can not be updated while a state transition is in progress."},
	)
}

// TestWordsOfVersions holds what is said of filters that are newer than a request. Of most Ironic says
// which version they need.
func TestWordsOfVersions(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ path, version, words string }{
		{"/v1/nodes?driver=x", "1.15", "Request not acceptable. The minimal required API version should be 1.16"},
		{"/v1/nodes?conductor_group=x", "1.45", "Request not acceptable. The minimal required API version should be 1.46"},
		{"/v1/nodes?shard=x", "1.81", "Request not acceptable. The minimal required API version should be 1.82"},
		{"/v1/nodes/detail?include_children=true", "1.82", "Request not acceptable. The minimal required API version should be 1.83"},
		{"/v1/nodes?instance_name=x", "1.103", "instance_name is not acceptable in this API version"},
		{"/v1/nodes?provision_state=active", "1.8", "Request not acceptable."},
		{"/v1/ports?shard=x", "1.81", "Request not acceptable. The minimal required API version should be 1.82"},
		{"/v1/ports?portgroup=x", "1.23", "Request not acceptable."},
		{"/v1/portgroups?shard=x", "1.105", "Request not acceptable. The minimal required API version should be 1.106"},
		{"/v1/allocations?owner=x", "1.59", "Request not acceptable."},
		{"/v1/drivers?type=dynamic", "1.29", "Request not acceptable. The minimal required API version should be 1.30"},
		{"/v1/drivers?detail=true", "1.29", "Request not acceptable. The minimal required API version should be 1.30"},
	} {
		if said := b.want(406, "GET", c.path, c.version, "").fault(t); !strings.HasPrefix(said, c.words) || len(c.words) < 30 && strings.Contains(said, "minimal") {
			t.Errorf("%s at %s: said %q, want %q", c.path, c.version, said, c.words)
		}
	}
}
