package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// answerOrder is the order of the members of Ironic 39's answers, of the newest version. Those
// of older versions leave members out.
var answerOrder = map[string]string{
	"nodes": "uuid created_at updated_at automated_clean bios_interface boot_interface boot_mode clean_step conductor_group console_enabled " +
		"console_interface disable_power_off deploy_interface deploy_step description driver driver_info driver_internal_info extra fault " +
		"firmware_interface health inspection_finished_at inspection_started_at inspect_interface instance_info instance_name instance_uuid " +
		"last_error lessee maintenance maintenance_reason management_interface name network_data network_interface owner parent_node " +
		"power_interface power_state properties protected protected_reason provision_state provision_updated_at raid_config raid_interface " +
		"rescue_interface reservation resource_class retired retired_reason secure_boot service_step shard storage_interface " +
		"target_power_state target_provision_state target_raid_config traits vendor_interface links conductor allocation_uuid chassis_uuid " +
		"ports states portgroups volume",
	"ports": "uuid created_at updated_at address extra internal_info is_smartnic local_link_connection physical_network pxe_enabled node_uuid " +
		"name description vendor category available_for_dynamic_portgroup links portgroup_uuid",
	"portgroups": "uuid created_at updated_at address extra internal_info mode name properties standalone_ports_supported node_uuid " +
		"physical_network category dynamic_portgroup links ports",
	"chassis":           "uuid created_at updated_at description extra links nodes",
	"volume/connectors": "uuid created_at updated_at connector_id extra type links node_uuid",
	"volume/targets":    "uuid created_at updated_at boot_index extra properties volume_id volume_type links node_uuid",
	"deploy_templates":  "uuid created_at updated_at name extra links steps",
	"runbooks":          "uuid created_at updated_at name extra public owner disable_ramdisk description links steps traits",
	"inspection_rules":  "uuid created_at updated_at description priority sensitive phase conditions actions links",
	"allocations":       "uuid created_at updated_at candidate_nodes extra last_error name owner resource_class state traits links node_uuid",
}

// otherOrder is that of answers that are not a resource's.
var otherOrder = map[string]string{
	"/v1/nodes/n1/states": "console_enabled last_error power_state provision_state target_power_state target_provision_state " +
		"provision_updated_at raid_config target_raid_config boot_mode secure_boot",
	"/v1/conductors/rack-1":                                             "created_at updated_at hostname conductor_group drivers links alive",
	"/v1/drivers/fake-hardware?fields=type,hosts,name":                  "name hosts links type",
	"/v1/nodes/n1?fields=owner,conductor,lessee,uuid,driver":            "uuid owner lessee driver links conductor",
	"/v1/ports/" + ownPort + "?fields=portgroup_uuid,name,uuid,address": "uuid address name links portgroup_uuid",
	"/v1/nodes/n1?fields=conductor":                                     "links conductor",
	"/v1": "id links media_types chassis nodes ports drivers version portgroups volume lookup heartbeat conductors allocations events " +
		"deploy_templates shards runbooks inspection_rules continue_inspection",
}

// members returns the names of the members of a JSON object, in their order.
func members(t *testing.T, object string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(object))
	var names []string
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		t.Fatalf("no object: %.100s (%v)", object, err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// Scripts print answers in the order in which they come.
func TestAnswersHaveIronicsOrder(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, item := range []struct{ path, body string }{
		{"ports", `{"uuid":"` + ownPort + `","node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:01"}`},
		{"portgroups", `{"node_uuid":"` + nodeID + `"}`},
		{"chassis", `{}`},
		{"volume/connectors", `{"node_uuid":"` + nodeID + `","type":"ip","connector_id":"c"}`},
		{"volume/targets", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","boot_index":0,"volume_id":"v"}`},
		{"deploy_templates", `{"name":"CUSTOM_A","steps":[{"interface":"bios","step":"factory_reset","args":{},"priority":1}]}`},
		{"runbooks", `{"name":"CUSTOM_A","steps":[{"interface":"bios","step":"factory_reset","args":{},"order":1}]}`},
		{"inspection_rules", `{"actions":[{"op":"fail","args":{"msg":"x"}}]}`},
		{"allocations", `{"resource_class":"x"}`},
	} {
		b.want(201, "POST", "/v1/"+item.path, "1.115", item.body)
	}
	for path, all := range answerOrder {
		order := strings.Fields(all)
		_, list, _ := strings.Cut("/"+path, "/volume/")
		if list == "" {
			list = path
		}
		for _, version := range []string{"1.1", "1.23", "1.31", "1.60", "1.96", "1.115"} {
			for _, query := range []string{"", "?detail=true"} {
				answer := b.do("GET", "/v1/"+path+query, version, "")
				if answer.StatusCode != 200 {
					if version == "1.115" && (query == "" || path != "allocations") {
						t.Errorf("GET %s%s: %d %s", path, query, answer.StatusCode, answer.body)
					}
					continue
				}
				var page map[string]json.RawMessage
				if err := json.Unmarshal([]byte(answer.body), &page); err != nil {
					t.Fatal(err)
				}
				var items []json.RawMessage
				if err := json.Unmarshal(page[list], &items); err != nil || len(items) == 0 {
					t.Fatalf("GET %s%s at %s lists nothing: %s (%v)", path, query, version, answer.body, err)
				}
				got := members(t, string(items[0]))
				want := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !slices.Contains(got, name) })
				switch {
				case path == "nodes" && query == "" && version != "1.1": // as Ironic names them to itself
					want = strings.Fields("uuid instance_uuid maintenance power_state provision_state name links")
				case version == "1.115" && query != "":
					want = order
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s%s at %s shows\n%v, Ironic\n%v", path, query, version, got, want)
				}
			}
		}
	}
	for path, want := range otherOrder {
		if got := strings.Join(members(t, b.want(200, "GET", path, "1.115", "").body), " "); got != want {
			t.Errorf("%s shows\n%s, Ironic\n%s", path, got, want)
		}
	}
}
