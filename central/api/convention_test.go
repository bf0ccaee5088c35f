package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// snapshot is all that requests could have changed: the rows of every table but those
// that tell of requests.
func (b *bench) snapshot() string {
	b.t.Helper()
	var out strings.Builder
	for _, table := range b.strings("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") {
		if table == "audit" {
			continue
		}
		out.WriteString("\n" + table + ":")
		for _, row := range slices.Sorted(slices.Values(b.strings("SELECT * FROM " + table))) {
			out.WriteString("\n" + row)
		}
	}
	return out.String()
}

// strings reads rows past the store, each as one text.
func (b *bench) strings(query string) (list []string) {
	b.t.Helper()
	rows, err := b.db.Query(query)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		b.t.Fatal(err)
	}
	for rows.Next() {
		values, at := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			b.t.Fatal(err)
		}
		text := make([]string, len(values))
		for i, v := range values {
			text[i] = fmt.Sprint(v)
		}
		list = append(list, strings.Join(text, "|"))
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// TestRefusals holds what a server must refuse, how, and that it changes nothing.
func TestRefusals(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"aa:bb:cc:dd:ee:01"}`)
	const inChassisID, chassisID = "22222222-2222-4333-8444-555555555556", "22222222-2222-4333-8444-555555555557"
	const n = "/v1/nodes/n1"
	tests := []struct {
		method, path, version, body string
		status                      int
		text                        string
	}{
		// Versions.
		{"GET", "/v1/nodes", "1.116", "", 406, "The supported version range is: [1.1, 1.115]"},
		{"GET", "/v1/nodes", "1.0", "", 406, "not supported"},
		{"GET", "/v1/nodes", "2.1", "", 406, "Version 2.1 requested"},
		{"GET", "/v1/nodes", "abc", "", 406, "Invalid value for X-OpenStack-Ironic-API-Version header"},
		{"GET", "/v1/nodes", "1.-5", "", 406, "Invalid value"},
		{"GET", "/v1/nodes", "1.99999999999999999999", "", 406, "Invalid value"},
		{"GET", "/v1/nodes?fields=owner", "1.49", "", 406, "1.50"},
		{"GET", "/v1/nodes?sort_key=owner", "1.49", "", 406, "1.50"},
		{"GET", "/v1/nodes?owner=x", "1.49", "", 406, "1.50"},
		{"GET", "/v1/nodes?fields=uuid", "1.7", "", 406, "1.8"},
		{"GET", "/v1/nodes?detail=true", "1.42", "", 400, "detail"},
		{"POST", "/v1/nodes", "1.49", `{"driver":"fake-hardware","owner":"x"}`, 406, "owner"},
		{"POST", "/v1/nodes", "1.4", `{"driver":"fake-hardware","name":"x"}`, 406, "name"},
		{"POST", "/v1/nodes", "1.4", `{"driver":"fake-hardware","name":""}`, 406, "name"},
		{"PATCH", n, "1.49", `[{"op":"add","path":"/owner","value":"x"}]`, 406, "owner"},
		{"PATCH", "/v1/nodes/" + inChassisID, "1.24", `[{"op":"remove","path":"/chassis_uuid"}]`, 406, "chassis_uuid"},
		{"PATCH", "/v1/nodes/" + inChassisID, "1.24", `[{"op":"replace","path":"/chassis_uuid","value":null}]`, 406, "chassis_uuid"},
		{"PATCH", "/v1/nodes/" + nodeID, "1.4", `[{"op":"add","path":"/name","value":"x"}]`, 406, "name"},
		{"PUT", n + "/states/provision", "1.5", `{"target":"inspect"}`, 406, "1.6"},
		{"PUT", n + "/states/power", "1.26", `{"target":"soft power off"}`, 406, "1.27"},
		{"PUT", n + "/states/power", "1.26", `{"target":"power off","timeout":5}`, 406, "1.27"},
		{"PUT", n + "/states/power", "1.26", `{"target":"power on","timeout":0}`, 400, "positive integer"},
		{"PUT", n + "/states/power", "1.26", `{"target":"soft power off","timeout":0}`, 406, "1.27"},
		{"GET", "/v1/conductors", "1.48", "", 404, "not supported for this version"},
		{"GET", n + "/history", "1.77", "", 404, ""},
		{"GET", n + "/inventory", "1.80", "", 404, ""},
		{"PUT", n + "/management/inject_nmi", "1.28", "", 404, ""},
		{"GET", n + "/traits", "1.36", "", 406, "not acceptable"},
		{"PUT", n + "/traits", "1.36", `{"traits":[]}`, 405, ""},
		{"PUT", n + "/traits/CUSTOM_A", "1.36", "", 405, ""},
		{"DELETE", n + "/traits", "1.36", "", 404, ""},
		{"DELETE", n + "/traits/CUSTOM_A", "1.36", "", 404, ""},
		{"PUT", n + "/states/raid", "1.11", "{}", 406, "not acceptable"},
		{"GET", n + "/bios?fields=name", "1.73", "", 400, "Invalid query parameter ?fields=name received."},
		{"GET", n + "/bios?detail=true", "1.73", "", 400, "Invalid query parameter ?detail=True received."},
		// Routes.
		{"GET", "/v1/nothing", "1.115", "", 404, "Not Found"},
		{"GET", n + "/nothing", "1.115", "", 400, "nothing"},
		{"GET", n + "/nothing", "1.7", "", 406, ""},
		{"GET", n + "/extra?fields=uuid", "1.115", "", 404, ""},
		{"GET", n + "/management", "1.115", "", 405, ""},
		{"GET", n + "/states/nothing", "1.115", "", 404, ""},
		{"PUT", n + "/nothing", "1.115", "", 405, ""},
		{"POST", n + "/nothing", "1.115", "", 400, "Schema error: 'nothing' is not of type 'object'"},
		{"PATCH", n + "/nothing", "1.115", "[]", 400, "reset_interfaces"},
		{"DELETE", n + "/nothing", "1.115", "", 404, ""},
		{"DELETE", n + "/states/nothing", "1.115", "", 405, ""},
		{"POST", n, "1.115", "{}", 400, "is not of type 'object'"},
		{"PATCH", "/v1/nodes", "1.115", "[]", 400, "Missing mandatory parameter: node_ident"},
		{"DELETE", "/v1/nodes", "1.115", "", 400, "Missing mandatory parameter: node_ident"},
		{"DELETE", n + "/vifs", "1.115", "", 400, "Missing mandatory parameter: vif_id"},
		{"DELETE", "/v1/ports", "1.115", "", 400, "Missing mandatory parameter: port_uuid"},
		{"PATCH", "/v1/ports", "1.115", "[]", 400, "Missing mandatory parameter: port_ident"},
		{"DELETE", "/v1/chassis", "1.115", "", 400, "Missing mandatory parameter: chassis_uuid"},
		{"PATCH", "/v1/inspection_rules", "1.115", "[]", 400, "Missing mandatory parameter: inspection_rule_uuid"},
		{"PATCH", "/v1/volume/connectors", "1.115", "[]", 400, "Missing mandatory parameter: connector_uuid"},
		{"DELETE", "/v1/volume/targets", "1.115", "", 400, "Missing mandatory parameter: target_uuid"},
		{"DELETE", "/v1/runbooks", "1.115", "", 400, "Missing mandatory parameter: runbook_ident"},
		{"POST", "/v1/heartbeat", "1.115", "{}", 400, "Missing mandatory parameter"},
		{"PUT", "/v1/conductors", "1.11", "", 405, ""},
		{"POST", n + "/history", "1.77", "", 404, ""},
		{"GET", "/v1/drivers/fake-hardware/nothing", "1.115", "", 400, "nothing"},
		{"GET", n + "/ports/xyz", "1.5", "", 400, "Expected UUID"},
		{"GET", "/v1/ports/xyz", "1.87", "", 404, "Port xyz could not be found."},
		{"PATCH", "/v1/ports/xyz", "1.1", "[]", 404, "Port xyz could not be found."},
		{"DELETE", "/v1/ports/xyz", "1.115", "", 400, "Expected UUID for port_uuid: xyz"},
		{"GET", "/v2/nodes", "1.115", "", 404, ""},
		{"PUT", "/v1/nodes", "1.115", "{}", 405, "Method Not Allowed"},
		{"POST", "/v1", "1.115", `{}`, 405, "either malformed or otherwise incorrect"},
		{"POST", "/", "1.115", "{}", 405, "Method Not Allowed"},
		// What is listed there is changed elsewhere.
		{"POST", "/v1/nodes/ports", "1.115", "{}", 404, ""},
		{"POST", n + "/ports", "1.5", "{}", 400, "Malformed request URI."},
		{"GET", n + "/allocation/" + nodeID, "1.115", "", 405, "Method Not Allowed"},
		{"GET", n + "/allocation/" + nodeID, "1.51", "", 404, "Not Found"},
		{"PATCH", n + "/ports", "1.5", "[]", 400, "Missing mandatory parameter"},
		{"GET", n + "/ports/" + nodeID, "1.5", "", 400, "Malformed request URI."},
		{"PATCH", n + "/ports/" + nodeID, "1.5", "[]", 400, "Malformed request URI."},
		{"DELETE", n + "/ports/" + nodeID, "1.5", "", 400, "Malformed request URI."},
		{"PUT", n + "/ports", "1.5", "", 405, ""},
		{"PUT", n + "/states/target_raid_config", "1.70", "{}", 405, ""},
		{"PUT", n + "/states/boot_mode", "1.75", `{"target":"uefi"}`, 404, "supported starting with the API version 1.76"},
		{"POST", n + "/portgroups", "1.24", "{}", 400, "Malformed request URI."},
		{"POST", n + "/portgroups", "1.23", "{}", 404, ""},
		{"POST", "/v1/portgroups/" + nodeID + "/ports", "1.24", "{}", 400, "Malformed request URI."},
		{"GET", n + "/portgroups/" + nodeID + "/ports", "1.24", "", 403, "Operation not permitted."},
		{"GET", "/v1/nodes?fields=uuid,conductor", "1.115", "", 400, "conductor cannot be asked for in a list"},
		{"GET", "/v1/nodes?fields=conductor", "1.48", "", 406, ""},
		// Not the field "detail" of an item.
		{"GET", n + "/detail", "1.1", "", 404, "Resource could not be found."},
		{"GET", "/v1/ports/" + nodeID + "/detail", "1.115", "", 404, "Resource could not be found."},
		{"GET", "/v1/portgroups/" + nodeID + "/detail", "1.115", "", 404, "Resource could not be found."},
		{"GET", "/v1/chassis/" + nodeID + "/detail", "1.115", "", 404, "Resource could not be found."},
		{"DELETE", n + "/volume/targets/" + nodeID, "1.32", "", 400, "Malformed request URI."},
		{"POST", "/v1/chassis/" + chassisID + "/nodes", "1.1", "{}", 400, "Malformed request URI."},
		// Queries.
		{"GET", "/v1/nodes?foo=1&bar=2", "1.115", "", 400, "Unexpected arguments: bar, foo"},
		{"GET", "/v1/nodes?limit=0", "1.115", "", 400, "Limit must be positive"},
		{"GET", "/v1/nodes?limit=x", "1.115", "", 400, "limit"},
		{"GET", "/v1/nodes?limit=-1", "1.115", "", 400, "Limit must be positive"},
		{"GET", "/v1/nodes?marker=" + strings.Replace(nodeID, "1", "2", 1), "1.115", "", 404, "could not be found"},
		{"GET", "/v1/nodes?marker=", "1.115", "", 400, "Expected UUID for marker: "},
		{"GET", "/v1/nodes?marker=zzz", "1.115", "", 400, "Expected UUID for marker: zzz"},
		{"GET", "/v1/chassis?marker=zzz", "1.115", "", 400, "Expected UUID for marker: zzz"},
		{"GET", "/v1/deploy_templates?marker=", "1.115", "", 400, "Expected name for marker: "},
		{"GET", "/v1/deploy_templates/detail", "1.115", "", 404, "Deploy template detail could not be found"},
		{"PATCH", "/v1/chassis/zzz", "1.115", `[]`, 400, "Schema error: 'zzz' is not a 'uuid'"},
		{"GET", "/v1/drivers?detail=zzz", "1.1", "", 400, "Invalid detail: Unrecognized value 'zzz'"},
		{"GET", "/v1/nodes?sort_dir=up", "1.115", "", 400, "sort direction"},
		{"GET", "/v1/nodes?sort_key=driver_info", "1.115", "", 400, "sort_key"},
		{"GET", "/v1/nodes?sort_key=nope", "1.115", "", 400, "sort_key"},
		{"GET", "/v1/nodes?fields=nope", "1.115", "", 400, "nope"},
		{"GET", "/v1/nodes?fields=uuid&detail=True", "1.115", "", 400, "Can not specify ?detail=True and fields"},
		{"GET", "/v1/nodes?maintenance=maybe", "1.115", "", 400, "maintenance"},
		{"GET", "/v1/nodes?provision_state=nope", "1.115", "", 400, "Provision state \"nope\" is not valid"},
		{"GET", "/v1/nodes?fault=nope", "1.115", "", 400, "fault"},
		{"GET", "/v1/nodes?fault=none", "1.115", "", 400, "fault"},
		{"PUT", n + "/management/inject_nmi", "1.115", `{"a":1}`, 400, "a"},
		{"GET", "/v1/nodes?instance_uuid=nope", "1.115", "", 400, "Expected UUID for instance_uuid: nope"},
		{"GET", "/v1/nodes?instance_uuid=", "1.115", "", 400, "Expected UUID for instance_uuid"},
		{"GET", "/v1/nodes?associated=", "1.115", "", 400, "Invalid associated"},
		{"GET", "/v1/nodes?sort_dir=", "1.115", "", 400, "sort direction"},
		{"GET", "/v1/nodes?%zz", "1.115", "", 400, "query"},
		{"GET", "/v1/nodes?limit=1&limit=2", "1.115", "", 400, "limit"},
		{"GET", "/v1/ports?address=nope", "1.115", "", 400, "MAC"},
		{"GET", "/v1/ports?node=nope", "1.115", "", 404, "Node nope could not be found"},
		{"GET", "/v1/ports?node=volume", "1.115", "", 404, "Node volume could not be found"},
		{"GET", "/v1/drivers?type=odd", "1.115", "", 400, "\"type\" filter must be"},
		{"GET", "/v1/drivers?detail=true", "1.29", "", 406, "1.30"},
		{"GET", "/v1/nodes/validate?node=n1", "1.4", "", 406, "1.5"},
		{"GET", "/v1/nodes/validate", "1.115", "", 400, "Missing mandatory parameter: node"},
		{"GET", n + "/history/nope", "1.115", "", 404, "nope could not be found"},
		{"GET", n + "/history/a@b", "1.115", "", 400, "Expected UUID or name for event: a@b"},
		{"GET", "/v1/drivers/nope", "1.115", "", 404, "nope"},
		{"GET", "/v1/conductors/nope", "1.115", "", 404, "Conductor nope could not be found"},
		{"GET", "/v1/conductors?marker=nope", "1.115", "", 404, "Conductor nope could not be found"},
		// Names.
		{"GET", "/v1/nodes/nope", "1.115", "", 404, "Node nope could not be found"},
		{"GET", "/v1/nodes/n1", "1.4", "", 404, "Node n1 could not be found."},
		{"PATCH", "/v1/nodes/n1", "1.4", `[{"op":"add","path":"/extra/b","value":1}]`, 404, "Node n1 could not be found."},
		{"GET", "/v1/nodes/ports", "1.115", "", 404, "Not Found"},
		{"GET", "/v1/nodes/vifs", "1.28", "", 404, "Not Found"},
		{"GET", "/v1/nodes/a~b", "1.9", "", 400, "Expected UUID or name for node: a~b"},
		{"GET", "/v1/nodes/a@b", "1.115", "", 400, "Expected UUID or name for node: a@b"},
		{"DELETE", "/v1/ports/p1", "1.115", "", 400, "Expected UUID for port_uuid: p1"},
		// Bodies.
		{"POST", "/v1/nodes", "1.115", ``, 400, "'driver' is a required property"},
		{"POST", "/v1/nodes", "1.115", `null`, 400, "JSON object"},
		{"POST", "/v1/nodes", "1.115", `[]`, 400, "JSON object"},
		{"POST", "/v1/nodes", "1.115", `{"driver":`, 400, "not valid JSON"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware"}{}`, 400, "more after"},
		{"POST", "/v1/nodes", "1.115", `{}`, 400, "'driver' is a required property"},
		{"POST", "/v1/nodes", "1.115", `{"driver":null}`, 400, "None is not of type 'string'"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","colour":"red"}`, 400, "colour"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","provision_state":"active"}`, 400, "provision_state"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","traits":["CUSTOM_A"]}`, 400, "traits"},
		{"POST", "/v1/nodes", "1.115", `{"driver":5}`, 400, "not of type 'string'"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","extra":"x"}`, 400, "not of type 'object'"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","maintenance":"perhaps"}`, 400, "Invalid maintenance: Unrecognized value 'perhaps'"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":"no spaces"}`, 400, "invalid name"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":"detail"}`, 400, "The word \"detail\" is reserved"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":""}`, 400, "Cannot create node with invalid name ''"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","instance_name":""}`, 400, "should be non-empty"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","protected":true}`, 400, "('protected' was unexpected)"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":"22222222-2222-4333-8444-555555555555"}`, 400, "invalid name"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","uuid":"x"}`, 400, "Expected UUID for uuid: x"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","uuid":"` + nodeID + `"}`, 409, "A node with UUID " + nodeID + " already exists"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","name":"n1"}`, 409, "A node with name n1 already exists."},
		{"POST", "/v1/nodes", "1.115", `{"driver":"nope"}`, 400, "No valid host was found. Reason: No conductor service registered which supports driver nope"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","conductor_group":"west"}`, 400, "No valid host"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","conductor_group":"w.>"}`, 400, "conductor"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","boot_interface":"nope"}`, 400, "ironic.hardware.interfaces.boot"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","chassis_uuid":"` + nodeID + `"}`, 400, "Chassis"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","parent_node":"33333333-2222-4333-8444-555555555555"}`, 400, "Unable to apply the requested parent_node"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","owner":"a","parent_node":"n1"}`, 400, "Unable to apply the requested parent_node 'n1'"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","extra":{"a":1e999}}`, 400, "out of range"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","extra":{"a":"\u0000"}}`, 400, "NUL"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","driver_info":{"redfish_password":"******"}}`, 400, "mask"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","driver_info":{"redfish_password":"sealed:v2:AAAA"}}`, 400, "sealed"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","driver_info":{"x":[{"password":"p"}]}}`, 400, "list"},
		{"POST", "/v1/ports", "1.115", `{"node_uuid":"` + nodeID + `"}`, 400, "'address' is a required property"},
		{"POST", "/v1/ports", "1.115", `{"node_uuid":"` + nodeID + `","address":"nope"}`, 400, "Expected valid MAC address for address: nope"},
		{"POST", "/v1/ports", "1.115", `{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:01"}`, 409, "A port with MAC address aa:bb:cc:dd:ee:01 already exists."},
		{"POST", "/v1/ports", "1.115", `{"node_uuid":"33333333-2222-4333-8444-555555555555","address":"aa:bb:cc:dd:ee:02"}`, 400, "could not be found"},
		// What is wrong comes first, then the node that is not there, then what is too new, then rules.
		{"POST", "/v1/ports", "1.1", `{"node_uuid":"` + nodeID + `","address":"nope","description":"x"}`, 400, "Expected valid MAC address"},
		{"POST", "/v1/ports", "1.1", `{"node_uuid":"33333333-2222-4333-8444-555555555555","address":"aa:bb:cc:dd:ee:02","description":"x"}`, 400, "could not be found"},
		{"POST", "/v1/ports", "1.1", `{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:02","physical_network":""}`, 406, "physical_network"},
		{"POST", "/v1/portgroups", "1.23", `{"node_uuid":"` + nodeID + `","mode":"x","extra":7}`, 400, "7 is not of type 'object', 'null'"},
		{"POST", "/v1/portgroups", "1.23", `{"node_uuid":"33333333-2222-4333-8444-555555555555","mode":"x"}`, 400, "could not be found"},
		{"POST", "/v1/portgroups", "1.23", `{"node_uuid":"` + nodeID + `","mode":"x","name":"a b"}`, 406, "mode"},
		{"POST", "/v1/portgroups", "1.26", `{"node_uuid":"33333333-2222-4333-8444-555555555555","name":"a b"}`, 400, "could not be found"},
		{"POST", "/v1/volume/targets", "1.32", `{"node_uuid":"33333333-2222-4333-8444-555555555555","volume_type":"iscsi","boot_index":0,"volume_id":"v"}`, 400,
			"Invalid input for field/attribute node_uuid. Value: '33333333-2222-4333-8444-555555555555'."},
		{"POST", "/v1/nodes", "1.31", `{"driver":"fake-hardware","boot_interface":"","description":"x"}`, 406, "description"},
		{"POST", "/v1/nodes", "1.10", `{"driver":"fake-hardware","uuid":"x","description":"x"}`, 400, "Expected UUID for uuid: x"},
		{"POST", "/v1/ports", "1.93", `{"node_ident":"n1","address":"aa:bb:cc:dd:ee:02"}`, 406, "node_ident"},
		// JSON PATCH.
		{"PATCH", n, "1.115", `{}`, 400, "{} is not of type 'array'"},
		{"PATCH", n, "1.115", ``, 400, "None is not of type 'array'"},
		{"PATCH", n, "1.115", `[{"op":"test","path":"/name","value":"n1"}]`, 400, "'add', 'replace', 'remove'"},
		{"PATCH", n, "1.115", `[{"op":"move","path":"/name","from":"/extra"}]`, 400, "from"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"/name","value":"x","extra":1}]`, 400, "extra"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"name","value":"x"}]`, 400, "'name' does not match"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/name"}]`, 400, "value"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"/colour","value":"x"}]`, 400, "Cannot patch /colour. Only the following can be updated: automated_clean"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"/parent_node","value":"n1"}]`, 400, "its own parent"},
		{"GET", n + "?fields=links", "1.115", "", 400, "Field links is not a valid field."},
		{"GET", "/v1/drivers?fields=default_boot_interface,name", "1.115", "", 400, "Field(s) \"default_boot_interface\" are not valid"},
		{"GET", "/v1/drivers/fake-hardware?fields=default_firmware_interface", "1.85", "", 400, "'default_firmware_interface' is not one of ['hosts', 'links', 'name', 'default_boot"},
		{"GET", n + "/firmware?detail=true", "1.115", "", 400, "'true' is not of type 'boolean'"},
		{"GET", n + "/firmware?fields=links", "1.115", "", 400, "'links' is not one of ['created_at'"},
		{"GET", n + "/bios/a%20b", "1.115", "", 400, "'a b' does not match '(?i)^[A-Z0-9-._~]+$'"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/name","value":"a b"}]`, 400, "Node n1: Cannot change name to invalid name 'a b'"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/name","value":null}]`, 400, "invalid name 'None'"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/name","value":"states"}]`, 400, "The word \"states\" is reserved"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/provision_state","value":"active"}]`, 400, "Cannot patch /provision_state"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/traits","value":[]}]`, 400, "Cannot patch /traits"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/uuid","value":"x"}]`, 400, "Cannot patch /uuid"},
		{"PATCH", n, "1.115", `[{"op":"remove","path":"/driver"}]`, 400, "'driver' is a required property"},
		{"PATCH", n, "1.115", `[{"op":"remove","path":"/extra/nope"}]`, 400, "can't remove a non-existent object 'nope'"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/extra/a/7","value":1}]`, 400, "can't replace outside of list"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"/description","value":"kept?"},{"op":"add","path":"/extra/x/y/z","value":1}]`, 400, "member 'x' not found in {"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/driver_info","value":"x"}]`, 400, "not of type 'object'"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/protected","value":true}]`, 409, "protected"},
		{"PATCH", n, "1.115", `[{"op":"add","path":"/properties/memory_mb","value":"much"},{"op":"add","path":"/properties/local_gb","value":-1}]`, 400,
			"The following properties for node " + nodeID + " should be non-negative integers, but provided values are: local_gb=-1, memory_mb=much"},
		{"POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","tail":1,"ears":2}`, 400, "Schema error for node: Additional properties are not allowed ('ears', 'tail' were unexpected)"},
		{"POST", "/v1/allocations", "1.115", `{"resource_class":"x","ears":2}`, 400, "Schema error: Additional properties are not allowed ('ears' was unexpected)"},
		{"POST", "/v1/ports", "1.23", `{"node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:03","portgroup_uuid":null}`, 406, "portgroup_uuid"},
		{"PATCH", n + "?reset_interfaces=true", "1.115", `[{"op":"replace","path":"/name","value":"x"}]`, 400, "reset_interfaces"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/driver","value":"redfish"}]`, 400, "entrypoint"},
		{"PATCH", n, "1.115", `[{"op":"replace","path":"/driver","value":"nope"}]`, 400, "No valid host"},
		{"GET", n + "/management/foo", "1.115", "", 405, "Method Not Allowed"},
		{"GET", n + "/maintenance/foo", "1.115", "", 405, "Method Not Allowed"},
		{"GET", "/v1/lookup/x", "1.115", "", 405, "Method Not Allowed"},
		{"GET", "/v1/events/x", "1.115", "", 405, "Method Not Allowed"},
		// Actions.
		{"PUT", n + "/states/provision", "1.115", `{"target":"dance"}`, 400, "The requested action \"dance\" can not be performed on node \"" + nodeID + "\" while it is in state \"enroll\""},
		{"PUT", n + "/states/provision", "1.115", `{"target":7}`, 400, "Expected string for target: 7"},
		{"PUT", n + "/states/provision", "1.115", `{}`, 400, "Missing mandatory parameter: target"},
		{"PUT", "/v1/nodes/nope/states/provision", "1.5", `{"target":"manage"}`, 404, "Node nope could not be found"},
		{"PUT", n + "/states/provision", "1.115", `{"target":"manage","foo":1}`, 400, "Unexpected arguments: foo"},
		{"PUT", n + "/states/provision", "1.115", `{"target":"active"}`, 400, "can not be performed on node"},
		{"PUT", n + "/states/provision", "1.115", `{"target":"manage","configdrive":"http://x/y"}`, 400, "config drive"},
		{"PUT", n + "/states/power", "1.115", `{"target":"dance"}`, 400, "The requested action \"dance\" can not be performed on node \"n1\" while it is in state \"None\""},
		{"PUT", n + "/states/power", "1.115", `{}`, 400, "Missing mandatory parameter: target"},
		{"PUT", n + "/states/power", "1.115", `{"target":"power on","foo":1}`, 400, "Unexpected arguments: foo"},
		{"PUT", "/v1/nodes/nope/states/power", "1.115", `{"target":"soft power off"}`, 404, "Node nope could not be found"},
		{"PUT", n + "/management/boot_device", "1.115", `{}`, 400, "Missing mandatory parameter: boot_device"},
		{"PUT", n + "/states/console", "1.115", `{}`, 400, "Missing mandatory parameter: enabled"},
		{"PUT", n + "/states/power", "1.115", `{"target":"power on","timeout":0}`, 400, "timeout"},
		{"PUT", n + "/states/power", "1.115", `{"target":"power on","timeout":0.5}`, 400, "timeout"},
		{"PUT", n + "/states/power", "1.115", `{"target":"power on","timeout":86401}`, 400, "timeout is 86400 seconds at most"},
		{"PUT", n + "/management/boot_device", "1.115", `{"boot_device":"tape"}`, 400, "tape"},
		{"PUT", n + "/maintenance", "1.115", `{"reason":5}`, 400, "reason"},
		{"PUT", n + "/traits", "1.115", `{"traits":["bad"]}`, 400, "CUSTOM_"},
		{"PUT", n + "/traits", "1.115", `[]`, 400, "Schema error for body: [] is not of type 'object'"},
		{"PUT", n + "/traits", "1.115", `null`, 400, "or all node traits may be replaced via PUT"},
		{"PUT", n + "/traits/CUSTOM_A", "1.115", `{"traits":[]}`, 400, "A single node trait may be added via PUT"},
		{"PUT", n + "/traits/CUSTOM_A", "1.115", `{"a":1}`, 400, "Schema error for body: Additional properties are not allowed ('a' was unexpected)"},
		{"PUT", "/v1/nodes/nobody/traits", "1.115", `{}`, 404, "Node nobody could not be found"},
		{"PUT", n + "/traits/bad", "1.115", ``, 400, "CUSTOM_"},
		{"DELETE", n + "/traits/CUSTOM_NOPE", "1.115", ``, 404, "CUSTOM_NOPE"},
	}
	b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"`+chassisID+`"}`)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+inChassisID+`","chassis_uuid":"`+chassisID+`","driver":"fake-hardware"}`)
	before := b.snapshot()
	for _, tt := range tests {
		a := b.do(tt.method, tt.path, tt.version, tt.body)
		what := tt.method + " " + tt.path + " at " + tt.version + " " + tt.body
		if a.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d: %s", what, a.StatusCode, tt.status, a.body)
			continue
		}
		if text := a.fault(t); !strings.Contains(text, tt.text) {
			t.Errorf("%s: said %q, want %q in it", what, text, tt.text)
		}
		checkHeaders(t, what, a, tt.status == 406 && !strings.HasPrefix(a.Header.Get("X-Openstack-Ironic-Api-Version"), "1."))
	}
	if after := b.snapshot(); after != before {
		t.Errorf("refused requests changed something:\n%s\n%s", before, after)
	}
}

// checkHeaders holds what every answer bears.
func checkHeaders(t *testing.T, what string, a answer, unversioned bool) {
	t.Helper()
	want := map[string]string{"X-Openstack-Ironic-Api-Minimum-Version": "1.1", "X-Openstack-Ironic-Api-Maximum-Version": "1.115"}
	for name, value := range want {
		if got := a.Header.Get(name); got != value {
			t.Errorf("%s: header %s is %q, want %q", what, name, got, value)
		}
	}
	if got := a.Header.Get("X-Openstack-Ironic-Api-Version"); got == "" && !unversioned {
		t.Errorf("%s: no version header", what)
	}
	id := a.Header.Get("Openstack-Request-Id")
	if !strings.HasPrefix(id, "req-") || a.Header.Get("X-Openstack-Request-Id") != id {
		t.Errorf("%s: request ids %q and %q", what, id, a.Header.Get("X-Openstack-Request-Id"))
	}
	if a.body != "" && a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: content type %q", what, a.Header.Get("Content-Type"))
	}
}

func TestVersionNegotiation(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct{ header, value, want string }{
		{"X-OpenStack-Ironic-API-Version", "1.31", "1.31"},
		{"X-OpenStack-Ironic-API-Version", "latest", "1.115"},
		{"OpenStack-API-Version", "baremetal 1.50", "1.50"},
		{"OpenStack-API-Version", "compute 2.1, baremetal latest", "1.115"},
		{"OpenStack-API-Version", "compute 2.1", "1.1"},
		{"X-OpenStack-Ironic-API-Version", "", "1.1"},
		{"X-Nothing", "", "1.1"},
	} {
		a := b.do("GET", "/v1/nodes", "", "", tt.header, tt.value)
		if got := a.Header.Get("X-OpenStack-Ironic-API-Version"); a.StatusCode != 200 || got != tt.want {
			t.Errorf("%s: %s: status %d, version %q, want %q", tt.header, tt.value, a.StatusCode, got, tt.want)
		}
	}
	a := b.do("GET", "/", "9.9", "")
	if a.StatusCode != 406 {
		t.Errorf("GET / with an unknown version: status %d, want 406, as Ironic", a.StatusCode)
	}
}

func TestPaths(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"twin.json","driver":"fake-hardware"}`)
	for _, tt := range []struct {
		path, version string
		status        int
	}{
		{"/nodes", "1.115", 200}, {"/v1/nodes/", "1.115", 200}, {"/nodes/n1", "1.115", 200},
		{"/v1/nodes/n1.json", "1.90", 200}, {"/v1/nodes/n1.json", "1.91", 404}, {"/v1/nodes/n1.json", "", 404},
		{"/v1/nodes.json", "1.50", 200}, {"/v1/nodes/twin.json", "1.90", 200}, {"/v1/nodes/twin.json", "1.91", 200},
		{"/v1/nodes/" + strings.ReplaceAll(nodeID, "-", ""), "1.1", 200}, {"/v1//nodes", "1.115", 404},
	} {
		if a := b.do("GET", tt.path, tt.version, ""); a.StatusCode != tt.status {
			t.Errorf("GET %s at %q: status %d, want %d: %s", tt.path, tt.version, a.StatusCode, tt.status, a.body)
		}
	}
}

func TestBodyLimits(t *testing.T) {
	b := newBench(t)
	b.addNode()
	big := `{"driver":"` + strings.Repeat("x", 1<<20) + `"}`
	deep := `{"driver":"fake-hardware","extra":` + strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 31)
	for _, tt := range []struct {
		body   string
		status int
	}{{big, 413}, {deep, 400}} {
		a := b.do("POST", "/v1/nodes", "1.115", tt.body)
		if a.StatusCode != tt.status || !strings.HasPrefix(a.body, `{"faultcode":"Client","faultstring":`) {
			t.Errorf("status %d, want %d and a bare fault: %.200s", a.StatusCode, tt.status, a.body)
		}
	}
	a := b.do("PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"manage","configdrive":"`+strings.Repeat("A", 2<<20)+`"}`)
	if a.StatusCode != 400 {
		t.Errorf("a config drive of 2 MiB: status %d, want it read and refused for its verb", a.StatusCode)
	}
}

func TestBrowsers(t *testing.T) {
	b := newBench(t)
	b.addNode()
	a := b.do("DELETE", "/v1/nodes/n1", "1.115", "", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != http.StatusForbidden || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another site's request: status %d, headers %v", a.StatusCode, a.Header)
	}
	if a = b.do("DELETE", "/v1/nodes/n1", "1.115", "", "Origin", "https://ui.example", "Sec-Fetch-Site", "cross-site"); a.StatusCode != 204 {
		t.Errorf("a trusted page's request: status %d: %s", a.StatusCode, a.body)
	}
}

// TestOrigins holds what browsers are told: pages of configured origins may use the API with
// credentials, others get nothing, and caches know that answers differ.
func TestOrigins(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const ui, evil = "https://ui.example", "https://evil.example"
	for _, c := range []struct {
		method, path, origin string
		allowed              bool
	}{
		{"GET", "/v1/nodes", ui, true},
		{"GET", "/v1/nodes/none-such", ui, true},
		{"GET", "/", ui, true},
		{"GET", "/healthcheck", ui, true},
		{"OPTIONS", "/v1/nodes", ui, true},
		{"OPTIONS", "/v1/nodes/n1", ui, true},
		{"GET", "/v1/nodes", "", false},
		{"GET", "/v1/nodes", evil, false},
		{"GET", "/v1/nodes", "null", false},
		{"GET", "/v1/nodes", ui + ":8443", false},
		{"OPTIONS", "/v1/nodes", evil, false},
	} {
		headers := []string{"Access-Control-Request-Method", "PATCH"}
		if c.origin != "" {
			headers = append(headers, "Origin", c.origin)
		}
		a := b.do(c.method, c.path, "1.115", "", headers...)
		origin, credentials := a.Header.Get("Access-Control-Allow-Origin"), a.Header.Get("Access-Control-Allow-Credentials")
		exposed := strings.Contains(a.Header.Get("Access-Control-Expose-Headers"), "X-OpenStack-Ironic-API-Maximum-Version")
		may := strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), "PATCH") && strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "X-Auth-Token")
		preflight := c.method == "OPTIONS"
		if want := c.allowed; (origin == c.origin) != want && c.origin != "" || (credentials == "true") != want ||
			exposed != (want && !preflight) || may != (want && preflight) {
			t.Errorf("%s %s of %q: status %d, headers %v", c.method, c.path, c.origin, a.StatusCode, a.Header)
		}
		if preflight && a.StatusCode != http.StatusOK {
			t.Errorf("%s %s of %q: status %d", c.method, c.path, c.origin, a.StatusCode)
		}
		if vary := a.Header.Values("Vary"); !slices.Contains(vary, "Origin") {
			t.Errorf("%s %s of %q: Vary is %q", c.method, c.path, c.origin, vary)
		}
	}
}

func TestPages(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"c", "a", "b"} {
		b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"`+name+`","driver":"fake-hardware","conductor_group":"`+map[string]string{"a": "EAST"}[name]+`"}`)
	}
	var names []string
	path := "/v1/nodes?limit=2&sort_key=name&sort_dir=desc&fields=name"
	for path != "" {
		page := b.want(200, "GET", path, "1.115", "").object(t)
		for _, n := range page["nodes"].([]any) {
			names = append(names, n.(map[string]any)["name"].(string))
		}
		next, _ := page["next"].(string)
		if next != "" && !strings.Contains(next, "sort_dir=desc") {
			t.Errorf("next %q does not repeat the question", next)
		}
		path = strings.TrimPrefix(next, "http://ironyard.example:6385")
	}
	if got := strings.Join(names, ""); got != "cba" {
		t.Errorf("pages gave %s, want cba", got)
	}
	next, _ := b.want(200, "GET", "/v1/nodes?limit=2&associated=false&fields=uuid,name", "1.115", "").object(t)["next"].(string)
	if !strings.Contains(next, "associated=False") || !strings.Contains(next, "fields=uuid,name") {
		t.Errorf("next %q does not repeat the question as Ironic does", next)
	}
	for path, says := range map[string]string{
		"/v1/nodes?limit=2":                  "fields=instance_uuid,maintenance,power_state,provision_state,uuid,name&limit=2",
		"/v1/nodes?limit=2&sort_dir=desc":    "sort_dir=desc&sort_key=id",
		"/v1/nodes/detail?limit=2":           "/v1/nodes/detail?limit=2",
		"/v1/conductors?limit=1":             "fields=hostname,conductor_group,alive&limit=1",
		"/v1/nodes?limit=2&sort_key=uuid":    "sort_dir=asc&sort_key=uuid",
		"/v1/nodes?limit=2&detail=true":      "detail=True&limit=2",
		"/v1/nodes?limit=2&fields=uuid,name": "fields=uuid,name&limit=2",
	} {
		next, _ := b.want(200, "GET", path, "1.115", "").object(t)["next"].(string)
		if !strings.Contains(next, says) || !strings.Contains(next, "sort_key=") {
			t.Errorf("%s: next %q does not tell its order and fields: want %q in it", path, next, says)
		}
	}
	if next, _ := b.want(200, "GET", "/v1/nodes?limit=2", "1.7", "").object(t)["next"].(string); strings.Contains(next, "fields") {
		t.Errorf("next %q names fields at a version that cannot choose them", next)
	}
	for query, want := range map[string]int{"conductor_group=east": 1, "conductor_group=": 2, "conductor=rack-2": 1, "conductor=": 3, "parent_node=": 0, "parent_node=&include_children=true": 3, "driver=redfish": 0,
		"associated=false": 3, "maintenance=1": 0, "provision_state=enroll": 3} {
		page := b.want(200, "GET", "/v1/nodes?"+query, "1.115", "").object(t)
		if got := len(page["nodes"].([]any)); got != want {
			t.Errorf("%s: %d nodes, want %d", query, got, want)
		}
	}
}

func TestOldVersionsSeeOldStates(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.InspectWait, provision.Manageable, nil)
	for version, want := range map[string]any{"1.38": "inspecting", "1.39": "inspect wait"} {
		if got := b.want(200, "GET", "/v1/nodes/n1/states", version, "").object(t)["provision_state"]; got != want {
			t.Errorf("at %s the state is %v, want %v", version, got, want)
		}
	}
	a := b.want(201, "POST", "/v1/nodes", "1.10", `{"driver":"fake-hardware"}`)
	if got := a.object(t)["provision_state"]; got != "available" {
		t.Errorf("a node created at 1.10 starts %v, want available", got)
	}
}
