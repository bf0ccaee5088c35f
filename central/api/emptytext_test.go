package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Texts that are set to "" are not null, where Ironic makes that difference: as answers, lists and
// what a PATCH starts from show them.
func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addNode()
	for _, c := range []struct {
		list, body    string
		kept, dropped []string // when the item is made with ""; those that are dropped are kept by a PATCH
		fixed         bool     // the fields cannot be null
	}{
		{"nodes", `"driver":"fake-hardware"`, []string{"description", "lessee", "retired_reason", "shard"}, []string{"owner", "resource_class"}, false},
		{"ports", `"node_uuid":"` + nodeID + `","address":"52:54:00:00:00:%02x"`, []string{"name", "category", "description", "vendor"}, nil, false},
		{"portgroups", `"node_uuid":"` + nodeID + `"`, []string{"name", "category", "physical_network"}, nil, false},
		{"chassis", `"extra":{}`, []string{"description"}, nil, false},
		{"allocations", `"resource_class":"x"`, []string{"name"}, nil, false},
		{"runbooks", `"name":"CUSTOM_%d","steps":[{"interface":"bios","step":"s","args":{},"order":1}]`, []string{"description"}, []string{"owner"}, false},
		{"inspection_rules", `"actions":[{"op":"fail","args":{"msg":"x"}}]`, []string{"description"}, nil, false},
		{"volume/connectors", `"node_uuid":"` + nodeID + `","type":"","connector_id":""`, []string{"type", "connector_id"}, nil, true},
		{"volume/targets", `"node_uuid":"` + nodeID + `","volume_type":"","volume_id":"","boot_index":0`, []string{"volume_type", "volume_id"}, nil, true},
	} {
		for i, field := range slices.Concat(c.kept, c.dropped) {
			dropped := i >= len(c.kept)
			body := c.body
			if slices.Contains([]string{"ports", "runbooks"}, c.list) {
				body = fmt.Sprintf(body, i)
			}
			if !c.fixed {
				body += `,"` + field + `":""`
			} else if i > 0 {
				continue // as made for the first
			}
			made := b.want(201, "POST", "/v1/"+c.list, "1.115", "{"+body+"}").object(t)
			if got, want := made[field], any(""); dropped && got != nil || !dropped && got != want {
				t.Errorf("%s: %s is %v in a new one", c.list, field, got)
			}
			if c.fixed {
				continue
			}
			path := "/v1/" + c.list + "/" + made["uuid"].(string)
			for _, step := range []struct {
				op   string
				want any
			}{
				{`{"op":"replace","path":"/` + field + `","value":"CUSTOM.text"}`, "CUSTOM.text"},
				{`{"op":"replace","path":"/` + field + `","value":""}`, ""},
				{`{"op":"add","path":"/extra/k","value":"v"}`, ""}, // which leaves it
				{`{"op":"remove","path":"/` + field + `"}`, nil},
				{`{"op":"add","path":"/` + field + `","value":""}`, ""},
			} {
				if c.list == "inspection_rules" && strings.Contains(step.op, "/extra") {
					continue
				}
				if field == "retired_reason" && step.want == "CUSTOM.text" {
					step.op += `,{"op":"add","path":"/retired","value":true}`
				}
				if got := b.want(200, "PATCH", path, "1.115", "["+step.op+"]").object(t)[field]; got != step.want {
					t.Errorf("%s after %s: %v, want %v", path, step.op, got, step.want)
				}
				if got := b.want(200, "GET", path, "1.115", "").object(t)[field]; got != step.want {
					t.Errorf("%s after %s: %v, want %v", path, step.op, got, step.want)
				}
			}
		}
	}
}

// Booleans that a PATCH makes null are null and not false until they are set, where Ironic makes
// that difference; in a new item null says nothing.
func TestNullBooleans(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, c := range []struct{ list, body, field string }{
		{"nodes", `"driver":"fake-hardware"`, "retired"},
		{"nodes", `"driver":"fake-hardware"`, "disable_power_off"},
		{"ports", `"node_uuid":"` + nodeID + `","address":"52:54:00:00:00:01"`, "is_smartnic"},
	} {
		made := b.want(201, "POST", "/v1/"+c.list, "1.115", `{`+c.body+`,"`+c.field+`":null}`).object(t)
		if made[c.field] != false {
			t.Errorf("%s is %v in a new one", c.field, made[c.field])
		}
		path := "/v1/" + c.list + "/" + made["uuid"].(string)
		for _, step := range []struct {
			op   string
			want any
		}{
			{`{"op":"remove","path":"/` + c.field + `"}`, nil},
			{`{"op":"add","path":"/extra/k","value":"v"}`, nil}, // which leaves it
			{`{"op":"replace","path":"/` + c.field + `","value":true}`, true},
			{`{"op":"replace","path":"/` + c.field + `","value":null}`, nil},
			{`{"op":"add","path":"/` + c.field + `","value":"no"}`, false},
		} {
			if got := b.want(200, "PATCH", path, "1.115", "["+step.op+"]").object(t)[c.field]; got != step.want {
				t.Errorf("%s after %s: %v, want %v", path, step.op, got, step.want)
			}
			if got := b.want(200, "GET", path, "1.115", "").object(t)[c.field]; got != step.want {
				t.Errorf("%s after %s: %v, want %v", path, step.op, got, step.want)
			}
		}
	}
	if nodes := b.want(200, "GET", "/v1/nodes?retired=true", "1.115", "").object(t)["nodes"].([]any); len(nodes) != 0 {
		t.Errorf("%v are retired", nodes)
	}
}

// A reason for maintenance that is "" is not none, and goes with the maintenance. What a node's
// place cannot be is refused.
func TestEmptyTextsOfNodes(t *testing.T) {
	b := newBench(t)
	b.addNode()
	reason := func(want any) {
		t.Helper()
		if got := b.want(200, "GET", "/v1/nodes/n1", "1.115", "").object(t)["maintenance_reason"]; got != want {
			t.Errorf("reason %v, want %v", got, want)
		}
	}
	for _, step := range []struct {
		method, body string
		want         any
	}{{"PUT", `{"reason":""}`, ""}, {"PUT", `{}`, nil}, {"PUT", `{"reason":"x"}`, "x"}, {"PUT", `{"reason":""}`, ""}, {"DELETE", "", nil}} {
		b.want(202, step.method, "/v1/nodes/n1/maintenance", "1.115", step.body)
		reason(step.want)
	}
	b.want(400, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/parent_node","value":""}]`)
	group := b.want(201, "POST", "/v1/portgroups", "1.115", `{"node_uuid":"`+nodeID+`","mode":""}`).object(t)
	if group["mode"] != defaultMode {
		t.Errorf("mode %v of a port group that is made with none", group["mode"])
	}
	changed := b.want(200, "PATCH", "/v1/portgroups/"+group["uuid"].(string), "1.115", `[{"op":"replace","path":"/mode","value":""}]`).object(t)
	if changed["mode"] != "" {
		t.Errorf("mode %v of a port group whose mode was set to none", changed["mode"])
	}
}
