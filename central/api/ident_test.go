package api

import "testing"

// TestMisnamed holds the words with which what can be no item's name or UUID is refused: each part
// of Ironic that reads one has its own.
func TestMisnamed(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const (
		logical   = "Expected a logical name or UUID but received a@b."
		node      = "Expected UUID or name for node: a@b"
		nodeIdent = "Expected UUID or name for node_ident: a@b"
		portgroup = "Expected UUID or name for portgroup: a@b"
		schema    = "Schema error: 'a@b' is not a 'uuid'"
		either    = "Schema error: 'a@b' is not valid under any of the given schemas. Possible root cause: 'a@b' is not a 'uuid'"
	)
	b.refuse([]string{"/v1/nodes/detail"},
		refusal{"GET", "/v1/nodes/a@b", "1.115", "", 400, node},
		refusal{"PATCH", "/v1/nodes/a@b", "1.115", "[]", 400, node},
		refusal{"DELETE", "/v1/nodes/a@b", "1.4", "", 400, node},
		refusal{"GET", "/v1/nodes/a@b/ports", "1.115", "", 400, node},
		refusal{"GET", "/v1/nodes/a@b/traits", "1.115", "", 400, node},
		refusal{"GET", "/v1/nodes/a@b/volume/targets", "1.115", "", 400, node},
		refusal{"GET", "/v1/nodes/a@b/states", "1.115", "", 400, nodeIdent},
		refusal{"PUT", "/v1/nodes/a@b/states/power", "1.115", `{"target":"power on"}`, 400, nodeIdent},
		refusal{"GET", "/v1/nodes/a@b/management/boot_device", "1.115", "", 400, nodeIdent},
		refusal{"GET", "/v1/nodes/a@b/vendor_passthru/methods", "1.115", "", 400, nodeIdent},
		refusal{"DELETE", "/v1/nodes/a@b/maintenance", "1.115", "", 400, nodeIdent},
		refusal{"POST", "/v1/heartbeat/a@b", "1.115", `{"callback_url":"http://x","agent_token":"x"}`, 400, nodeIdent},
		refusal{"GET", "/v1/nodes/validate?node=a@b", "1.115", "", 400, node},
		refusal{"GET", "/v1/ports?node=a@b", "1.115", "", 400, node},
		refusal{"GET", "/v1/volume/connectors?node=a@b", "1.115", "", 400, node},
		refusal{"GET", "/v1/portgroups?node=a@b", "1.115", "", 400, either},
		refusal{"GET", "/v1/allocations?node=a@b", "1.115", "", 400, either},
		refusal{"POST", "/v1/allocations", "1.115", `{"node":"a@b"}`, 400, logical},
		refusal{"POST", "/v1/ports", "1.115", `{"node_ident":"a@b","address":"52:54:00:00:00:91"}`, 400, logical},
		refusal{"GET", "/v1/nodes/n1/history/a@b", "1.115", "", 400, "Expected UUID or name for event: a@b"},
		refusal{"POST", "/v1/nodes/n1/vifs", "1.115", `{"id":"a@b"}`, 400, "Expected UUID or name for id: a@b"},
		refusal{"DELETE", "/v1/nodes/n1/vifs/a@b", "1.115", "", 400, "Expected UUID or name for vif_id: a@b"},
		refusal{"GET", "/v1/portgroups/a@b", "1.115", "", 400, portgroup},
		refusal{"DELETE", "/v1/portgroups/a@b", "1.115", "", 400, portgroup},
		refusal{"GET", "/v1/portgroups/a@b/ports", "1.115", "", 400, portgroup},
		refusal{"GET", "/v1/ports?portgroup=a@b", "1.115", "", 400, portgroup},
		refusal{"GET", "/v1/allocations/a@b", "1.115", "", 400, logical},
		refusal{"PATCH", "/v1/allocations/a@b", "1.115", "[]", 400, logical},
		refusal{"GET", "/v1/deploy_templates/a@b", "1.115", "", 400, "Expected UUID or name for template_ident: a@b"},
		refusal{"GET", "/v1/runbooks/a@b", "1.115", "", 400, "Expected UUID or name for runbook_ident: a@b"},
		refusal{"GET", "/v1/chassis/a@b", "1.115", "", 400, "Expected UUID for chassis_uuid: a@b"},
		refusal{"PATCH", "/v1/chassis/a@b", "1.115", "[]", 400, schema},
		refusal{"GET", "/v1/inspection_rules/a@b", "1.115", "", 400, schema},
		refusal{"DELETE", "/v1/inspection_rules/a@b", "1.115", "", 400, schema},
		refusal{"PATCH", "/v1/inspection_rules/a@b", "1.115", "[]", 400, "Expected UUID for inspection_rule_uuid: a@b"},
		refusal{"GET", "/v1/portgroups?address=a@b", "1.115", "", 400, "Schema error: 'a@b' is not a 'mac-address'"},
		// An escaped slash is no end of a name.
		refusal{"GET", "/v1/nodes/n1%2Fstates", "1.115", "", 400, "Expected UUID or name for node: n1%2Fstates"},
		refusal{"DELETE", "/v1/nodes%2fn1", "1.115", "", 404, ""},
		refusal{"PATCH", "/v1/nodes/n1%2F", "1.115", "[]", 400, "Expected UUID or name for node: n1%2F"},
		refusal{"GET", "/v1/nodes/n%31%2fvifs/vifs", "1.115", "", 400, "Expected UUID or name for node: n1%2fvifs"},
		refusal{"GET", "/v1/ports/%252F", "1.115", "", 400, "Expected UUID or name for port_ident: %2F"},
		// Markers.
		refusal{"GET", "/v1/nodes?marker=a@b", "1.115", "", 400, "Expected UUID for marker: a@b"},
		refusal{"GET", "/v1/ports?marker=", "1.115", "", 400, "Expected UUID for marker: "},
		refusal{"GET", "/v1/allocations?marker=a@b", "1.115", "", 400, schema},
		refusal{"GET", "/v1/portgroups?marker=", "1.115", "", 400, "Schema error: '' is not a 'uuid'"},
		refusal{"GET", "/v1/runbooks?marker=a@b", "1.115", "", 400, "Expected name for marker: a@b"},
		refusal{"GET", "/v1/inspection_rules?marker=a@b", "1.115", "", 404, "Rule a@b could not be found."},
	)
	b.want(200, "GET", "/v1/inspection_rules?marker=", "1.115", "")
}
