package api

import (
	"strings"
	"testing"
)

const (
	ruleID   = "99999999-2222-4333-8444-555555555555"
	ruleBody = `{"uuid":"` + ruleID + `","description":"Dell machines","priority":100,
		"conditions":[{"op":"contains","args":{"value":"{inventory[system_vendor]}","regex":"Dell"}},{"op":"!eq","args":[["{item}","b"]],"loop":["a"]}],
		"actions":[{"op":"set-attribute","args":["driver","idrac"]},{"op":"add-trait","args":["CUSTOM_{item}"],"loop":["A"]}]}`
)

// TestInspectionRules follows a rule from its creation to its end.
func TestInspectionRules(t *testing.T) {
	b := newBench(t)
	made := b.want(201, "POST", "/v1/inspection_rules", "1.96", ruleBody)
	if got, want := made.Header.Get("Location"), "http://ironyard.example:6385/v1/inspection_rules/"+ruleID; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	versions := []string{"1.1", "1.89", "1.95", "1.96", "1.115"}
	b.goldens(t, "inspection-rules", "/v1/inspection_rules", versions...)
	b.goldens(t, "inspection-rule", "/v1/inspection_rules/"+ruleID, versions...)
	const one = "/v1/inspection_rules/" + ruleID
	changed := b.want(200, "PATCH", one, "1.96", `[{"op":"replace","path":"/priority","value":7},{"op":"replace","path":"/actions/0/args/1","value":"redfish"},
		{"op":"replace","path":"/phase","value":"main"}]`).object(t)
	if changed["priority"] != 7.0 || changed["phase"] != "main" || changed["actions"].([]any)[0].(map[string]any)["args"].([]any)[1] != "redfish" {
		t.Errorf("changed rule: %v", changed)
	}
	for query, want := range map[string]int{"phase=early": 0, "phase=main": 1} {
		if list := b.want(200, "GET", "/v1/inspection_rules?"+query, "1.96", "").object(t)["inspection_rules"].([]any); len(list) != want {
			t.Errorf("%s: %d rules, want %d", query, len(list), want)
		}
	}
	hidden := b.want(200, "PATCH", one, "1.96", `[{"op":"replace","path":"/sensitive","value":true}]`)
	for _, a := range []answer{hidden, b.want(200, "GET", one, "1.96", ""), b.want(200, "GET", "/v1/inspection_rules?detail=true", "1.96", "")} {
		if strings.Contains(a.body, "redfish") || !strings.Contains(a.body, `"conditions":null`) || !strings.Contains(a.body, `"actions":null`) {
			t.Errorf("a sensitive rule shows: %s", a.body)
		}
	}
	b.want(200, "PATCH", one, "1.96", `[{"op":"replace","path":"/priority","value":8}]`)
	if rule, err := b.store.InspectionRule(t.Context(), ruleID); err != nil || len(rule.Actions) != 2 || rule.Priority != 8 {
		t.Errorf("a change of a sensitive rule: %+v, error %v", rule, err)
	}
	b.want(204, "DELETE", one, "1.96", "")
	b.want(404, "GET", one, "1.96", "")
	b.want(201, "POST", "/v1/inspection_rules", "1.96", `{"actions":[{"op":"fail","args":{"msg":"x"}}]}`)
	b.want(201, "POST", "/v1/inspection_rules", "1.96", `{"actions":[{"op":"fail","args":{"msg":"y"}}]}`)
	b.want(204, "DELETE", "/v1/inspection_rules", "1.96", "")
	if list := b.want(200, "GET", "/v1/inspection_rules", "1.96", "").object(t)["inspection_rules"].([]any); len(list) != 0 {
		t.Errorf("rules after all were deleted: %v", list)
	}
}

func TestInspectionRuleRefusals(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/inspection_rules", "1.96", strings.Replace(ruleBody, `"priority"`, `"sensitive":true,"priority"`, 1))
	const all, one = "/v1/inspection_rules", "/v1/inspection_rules/" + ruleID
	const fail = `"actions":[{"op":"fail","args":{"msg":"x"}}]`
	b.refuse([]string{all + "?detail=true"},
		refusal{"GET", all, "1.95", "", 404, ""},
		refusal{"POST", all, "1.95", ruleBody, 405, ""},
		refusal{"DELETE", all, "1.95", "", 405, ""},
		refusal{"PATCH", one, "1.95", `[]`, 405, ""},
		refusal{"DELETE", one, "1.95", "", 405, ""},
		refusal{"POST", all, "1.96", ruleBody, 409, "already exists"},
		refusal{"POST", all, "1.96", `{}`, 400, "'actions' is a required property"},
		refusal{"POST", all, "1.96", `{"actions":[]}`, 400, "[] should be non-empty"},
		refusal{"POST", all, "1.96", `{"actions":{}}`, 400, "array"},
		refusal{"POST", all, "1.96", `{"actions":[{"op":"explode","args":{}}]}`, 400, "is not one of"},
		refusal{"POST", all, "1.96", `{"actions":[{"op":"fail","args":{}}]}`, 400, "missing required argument(s): msg"},
		refusal{"POST", all, "1.96", `{"conditions":[{"op":"ne","args":{}}],` + fail + `}`, 400, "is not one of"},
		refusal{"POST", all, "1.96", `{"priority":-1,` + fail + `}`, 400, "priority"},
		refusal{"POST", all, "1.96", `{"priority":10000,` + fail + `}`, 400, "priority"},
		refusal{"POST", all, "1.96", `{"priority":"5",` + fail + `}`, 400, "integer"},
		refusal{"POST", all, "1.96", `{"priority":null,` + fail + `}`, 400, "None is not of type"},
		refusal{"POST", all, "1.96", `{"phase":null,` + fail + `}`, 400, "None is not of type"},
		refusal{"POST", all, "1.96", `{"conditions":null,` + fail + `}`, 400, "None is not of type"},
		refusal{"POST", all, "1.96", `{"conditions":[{"op":"! eq","args":{"values":[1,1]}}],` + fail + `}`, 400, "is not one of"},
		refusal{"POST", all, "1.96", `{"actions":[{"op":"fail","args":{"msg":"x"},"loop":null}]}`, 400, "None is not of type 'array', 'object'"},
		refusal{"POST", all, "1.96", `{"sensitive":"off",` + fail + `}`, 400, "boolean"},
		refusal{"PATCH", one, "1.96", `[{"op":"replace","path":"/priority","value":null}]`, 400, "None is not of type"},
		refusal{"POST", all, "1.96", `{"phase":"late",` + fail + `}`, 400, "late"},
		refusal{"POST", all, "1.96", `{"sensitive":5,` + fail + `}`, 400, "sensitive"},
		refusal{"POST", all, "1.96", `{"description":"` + strings.Repeat("x", 256) + `",` + fail + `}`, 400, "is too long"},
		refusal{"POST", all, "1.96", `{"scope":"x",` + fail + `}`, 400, "scope"},
		refusal{"POST", all, "1.96", `{"uuid":"x",` + fail + `}`, 400, "Expected UUID for uuid: x"},
		refusal{"PATCH", one, "1.96", `[{"op":"replace","path":"/sensitive","value":false}]`, 400, "cannot have the sensitive flag unset"},
		refusal{"PATCH", one, "1.96", `[{"op":"remove","path":"/actions"}]`, 400, "required"},
		refusal{"PATCH", one, "1.96", `[{"op":"replace","path":"/actions/0/op","value":"explode"}]`, 400, "is not one of"},
		refusal{"GET", "/v1/inspection_rules/rule", "1.96", "", 400, "Schema error: 'rule' is not a 'uuid'"},
		refusal{"GET", "/v1/inspection_rules/" + nodeID, "1.96", "", 404, "could not be found"},
		refusal{"GET", all + "?sort_key=actions", "1.96", "", 400, "sort"},
	)
	sortable(b, inspectionRuleTable, all, b.want(200, "GET", one, "1.115", "").object(t))
}
