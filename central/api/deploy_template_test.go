package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

// goldens holds what a path answers at each of the versions.
func (b *bench) goldens(t *testing.T, name, path string, versions ...string) {
	t.Helper()
	for _, version := range versions {
		golden(t, name+"@"+version, b.do("GET", path, version, "").body)
	}
}

// refusal is a request that must be refused.
type refusal struct {
	method, path, version, body string
	status                      int
	text                        string
}

// refuse holds that all the requests are refused as they should, and that what the
// paths show stays as it was.
func (b *bench) refuse(paths []string, tests ...refusal) {
	b.t.Helper()
	state := func() string {
		var all strings.Builder
		for _, path := range paths {
			all.WriteString(b.do("GET", path, "1.115", "").body)
		}
		return all.String()
	}
	before := state()
	for _, c := range tests {
		a := b.do(c.method, c.path, c.version, c.body)
		if a.StatusCode != c.status || !strings.Contains(a.fault(b.t), c.text) {
			b.t.Errorf("%s %s %s at %s: status %d %s, want %d with %q", c.method, c.path, c.body, c.version, a.StatusCode, a.body, c.status, c.text)
		}
		if after := state(); after != before {
			b.t.Fatalf("%s %s %s was refused and changed something:\n%s\nbefore:\n%s", c.method, c.path, c.body, after, before)
		}
	}
}

const (
	templateID   = "dddddddd-2222-4333-8444-555555555555"
	raidStep     = `{"interface":"raid","step":"create_configuration","args":{"level":"1"},"priority":10}`
	templateBody = `{"uuid":"` + templateID + `","name":"CUSTOM_RAID1","extra":{"a":1},"steps":[` + raidStep +
		`,{"interface":"bios","step":"apply_configuration","args":{"password":"hush"},"priority":"150"}]}`
)

// TestDeployTemplates follows a template from its creation to its end.
func TestDeployTemplates(t *testing.T) {
	b := newBench(t)
	made := b.want(201, "POST", "/v1/deploy_templates", "1.55", templateBody)
	if got, want := made.Header.Get("Location"), "http://ironyard.example:6385/v1/deploy_templates/"+templateID; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	b.goldens(t, "deploy-templates", "/v1/deploy_templates", "1.1", "1.54", "1.55", "1.89", "1.115")
	b.goldens(t, "deploy-template", "/v1/deploy_templates/CUSTOM_RAID1", "1.1", "1.54", "1.55", "1.89", "1.115")
	b.goldens(t, "deploy-templates-detail", "/v1/deploy_templates?detail=true", "1.115")
	const one = "/v1/deploy_templates/" + templateID
	if got := b.want(200, "GET", one+"?fields=name", "1.55", "").object(t); len(got) != 2 || got["name"] != "CUSTOM_RAID1" {
		t.Errorf("chosen fields: %v", got)
	}
	changed := b.want(200, "PATCH", "/v1/deploy_templates/CUSTOM_RAID1", "1.55",
		`[{"op":"replace","path":"/name","value":"CUSTOM_RAID_1"},{"op":"replace","path":"/steps/0/priority","value":42}]`).object(t)
	steps, _ := changed["steps"].([]any)
	if first, _ := steps[0].(map[string]any); changed["name"] != "CUSTOM_RAID_1" || first["priority"] != 42.0 || changed["updated_at"] == nil {
		t.Errorf("changed template: %v", changed)
	}
	d, err := b.store.DeployTemplate(t.Context(), "CUSTOM_RAID_1")
	if err != nil {
		t.Fatal(err)
	}
	if args, err := openListed(b.server.Key, d.UUID, d.Steps[1]); err != nil || args["password"] != "hush" || d.Steps[1].Rank != 150 {
		t.Errorf("a patch of one step changed another: %+v, error %v", d, err)
	}
	b.want(204, "DELETE", one, "1.55", "")
	b.want(404, "GET", one, "1.55", "")
	b.want(404, "DELETE", "/v1/deploy_templates/CUSTOM_RAID_1", "1.55", "")
}

func TestDeployTemplateRefusals(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/deploy_templates", "1.55", templateBody)
	b.want(201, "POST", "/v1/deploy_templates", "1.55", `{"name":"CUSTOM_OTHER","steps":[`+raidStep+`]}`)
	const all, one = "/v1/deploy_templates", "/v1/deploy_templates/CUSTOM_RAID1"
	with := func(steps string) string { return `{"name":"CUSTOM_X","steps":` + steps + `}` }
	b.refuse([]string{all + "?detail=true"},
		refusal{"GET", all, "1.54", "", 404, ""},
		refusal{"POST", all, "1.54", templateBody, 405, ""},
		refusal{"PATCH", one, "1.54", `[]`, 405, ""},
		refusal{"DELETE", one, "1.54", "", 405, ""},
		refusal{"POST", all, "1.55", templateBody, 409, "already exists"},
		refusal{"POST", all, "1.55", `{"name":"CUSTOM_RAID1","steps":[` + raidStep + `]}`, 409, "A deploy template with name CUSTOM_RAID1 already exists."},
		refusal{"POST", all, "1.55", `{"steps":[` + raidStep + `]}`, 400, "'name' is a required property"},
		refusal{"POST", all, "1.55", `{"name":"raid","steps":[` + raidStep + `]}`, 400, "'raid' does not match '^CUSTOM_[A-Z0-9_]+$'"},
		refusal{"POST", all, "1.55", `{"name":"CUSTOM_` + strings.Repeat("X", 249) + `","steps":[` + raidStep + `]}`, 400, "is too long"},
		refusal{"POST", all, "1.55", `{"name":"CUSTOM_X","steps":[{"interface":"foo","step":"s","args":{},"priority":1}]}`, 400, "'foo' is not one of"},
		refusal{"POST", all, "1.55", `{"name":null,"steps":[` + raidStep + `]}`, 400, "name"},
		refusal{"POST", all, "1.55", `{"name":"CUSTOM_X"}`, 400, "'steps' is a required property"},
		refusal{"POST", all, "1.55", with(`[]`), 400, "Schema error for template: [] should be non-empty"},
		refusal{"POST", all, "1.55", with(`{}`), 400, "{} is not of type 'array'"},
		refusal{"POST", all, "1.55", with(`null`), 400, "None is not of type"},
		refusal{"POST", all, "1.55", with(`[5]`), 400, "object"},
		refusal{"POST", all, "1.55", with(`[` + raidStep + `,` + raidStep + `]`), 400, "Duplicates: interface: raid, step: create_configuration"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","args":{}}]`), 400, "'priority' is a required property"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","priority":1}]`), 400, "'args' is a required property"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","args":{},"priority":1}]`), 400, "'step' is a required property"},
		refusal{"POST", all, "1.55", with(`[{"step":"s","args":{},"priority":1}]`), 400, "'interface' is a required property"},
		refusal{"POST", all, "1.55", with(`[{"interface":"network","step":"s","args":{},"priority":1}]`), 400, "'network' is not one of ['vendor', 'power'"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"","args":{},"priority":1}]`), 400, "step"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","args":[],"priority":1}]`), 400, "[] is not of type 'object'"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","args":{},"priority":-1}]`), 400, "-1 is less than the minimum of 0"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","args":{},"priority":"x"}]`), 400, "'x' does not match '^[0-9]+$'"},
		refusal{"POST", all, "1.55", with(`[{"interface":"raid","step":"s","args":{},"priority":1,"order":1}]`), 400, "order"},
		refusal{"POST", all, "1.55", `{"name":"CUSTOM_X","steps":[` + raidStep + `],"colour":1}`, 400, "colour"},
		refusal{"PATCH", one, "1.55", `[{"op":"remove","path":"/name"}]`, 400, "required"},
		refusal{"PATCH", one, "1.55", `[{"op":"remove","path":"/steps"}]`, 400, "required"},
		refusal{"PATCH", one, "1.55", `[{"op":"replace","path":"/name","value":"CUSTOM_OTHER"}]`, 409, "already exists"},
		refusal{"PATCH", one, "1.55", `[{"op":"replace","path":"/uuid","value":"` + nodeID + `"}]`, 400, "uuid"},
		refusal{"PATCH", one, "1.55", `[{"op":"add","path":"/foo","value":"bar"}]`, 400, "foo"},
		refusal{"PATCH", "/v1/deploy_templates/CUSTOM_NONE", "1.55", `[{"op":"remove","path":"/extra"}]`, 404, "could not be found"},
		refusal{"GET", all + "?fields=colour", "1.55", "", 400, "colour"},
		refusal{"GET", all + "?sort_key=steps", "1.55", "", 400, "sort"},
		refusal{"GET", all + "?marker=CUSTOM_NONE", "1.55", "", 404, "could not be found"},
		refusal{"GET", all + "?fields=name&detail=true", "1.55", "", 400, "detail"},
	)
	sortable(b, deployTemplateTable, all, b.want(200, "GET", one, "1.115", "").object(t))
	page := b.want(200, "GET", all+"?limit=1&sort_key=name", "1.55", "").object(t)
	if next, _ := page["next"].(string); !strings.Contains(next, "marker=") {
		t.Errorf("a full page without a link to the next: %v", page)
	}
}

// TestTemplatesOfAnInstance holds that a deployment gets the steps of the templates
// that are named like the instance's traits, those of the request before all.
func TestTemplatesOfAnInstance(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/deploy_templates", "1.55", templateBody)
	b.want(204, "PUT", "/v1/nodes/n1/traits", "1.115", `{"traits":["CUSTOM_NONE","CUSTOM_RAID1","CUSTOM_UNASKED"]}`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/instance_info/traits","value":["CUSTOM_NONE","CUSTOM_RAID1"]}]`)
	for body, want := range map[string][]string{
		`{"target":"active"}`: {"raid.create_configuration@10 template CUSTOM_RAID1", "bios.apply_configuration@150 template CUSTOM_RAID1"},
		`{"target":"active","deploy_steps":[{"interface":"raid","step":"create_configuration","args":{},"priority":0}]}`: {
			"raid.create_configuration@0 ", "bios.apply_configuration@150 template CUSTOM_RAID1"},
	} {
		b.move("n1", provision.Available, provision.NoState, nil)
		b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", body)
		if got := b.steps("n1"); !slices.Equal(got, want) {
			t.Errorf("%s: steps %q, want %q", body, got, want)
		}
	}
}

// TestInstanceTraitsAreTheNodes holds that a node becomes no instance that asks for a trait
// which the node has not.
func TestInstanceTraitsAreTheNodes(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(204, "PUT", "/v1/nodes/n1/traits", "1.115", `{"traits":["CUSTOM_A","CUSTOM_B"]}`)
	for traits, text := range map[string]string{
		`["CUSTOM_A","CUSTOM_C","CUSTOM_D"]`: "Cannot specify instance traits that are not also set on the node. Node " + nodeID + " is missing traits CUSTOM_C, CUSTOM_D",
		`"CUSTOM_A"`:                         "A list of strings is expected.",
		`["CUSTOM_A",7]`:                     "A list of strings is expected.",
	} {
		b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/instance_info/traits","value":`+traits+`}]`)
		deploy := b.want(200, "GET", "/v1/nodes/n1/validate", "1.115", "").object(t)["deploy"].(map[string]any)
		if reason, _ := deploy["reason"].(string); deploy["result"] != false || !strings.Contains(reason, text) {
			t.Errorf("traits %s: validation says %v, want %q in it", traits, deploy, text)
		}
		for state, verb := range map[provision.State]string{provision.Available: "active", provision.Active: "rebuild"} {
			b.move("n1", state, provision.NoState, nil)
			before := b.snapshot()
			a := b.want(400, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"`+verb+`"}`)
			if got := a.fault(t); !strings.Contains(got, text) || !strings.HasPrefix(got, "Failed to validate deploy or power info for node "+nodeID) {
				t.Errorf("traits %s: %s said %q, want %q in it", traits, verb, got, text)
			}
			if b.snapshot() != before {
				t.Errorf("traits %s: the refused %s has changed something", traits, verb)
			}
		}
	}
	b.move("n1", provision.Available, provision.NoState, nil)
	delete(b.ask, ask.Validate) // nor while its rack does not answer
	b.want(400, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"active"}`)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"add","path":"/instance_info/traits","value":["CUSTOM_B","CUSTOM_A"]}]`)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.115", `{"target":"active"}`)
}
