package api

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

const (
	runbookID   = "eeeeeeee-2222-4333-8444-555555555555"
	clearStep   = `{"interface":"bios","step":"factory_reset","args":{},"order":2}`
	eraseStep   = `{"interface":"deploy","step":"erase","args":{"n":1},"order":1}`
	runbookBody = `{"uuid":"` + runbookID + `","name":"CUSTOM_WASH","extra":{"a":1},"steps":[` + clearStep + `,` + eraseStep + `]}`
)

// steps are those of the open work of a node, with priority and origin.
func (b *bench) steps(ident string) []string {
	b.t.Helper()
	var list []string
	for _, s := range b.work(ident).Args.Steps {
		list = append(list, fmt.Sprintf("%s.%s@%d %s", s.Interface, s.Step, s.Priority, s.Origin))
	}
	return list
}

// TestRunbooks follows a runbook from its creation to its end.
func TestRunbooks(t *testing.T) {
	b := newBench(t)
	made := b.want(201, "POST", "/v1/runbooks", "1.92", runbookBody)
	if got, want := made.Header.Get("Location"), "http://ironyard.example:6385/v1/runbooks/"+runbookID; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	b.goldens(t, "runbooks", "/v1/runbooks", "1.1", "1.91", "1.92", "1.111", "1.115")
	b.goldens(t, "runbook", "/v1/runbooks/CUSTOM_WASH", "1.1", "1.91", "1.92", "1.111", "1.115")
	const one = "/v1/runbooks/" + runbookID
	b.want(200, "PATCH", one, "1.92", `[{"op":"replace","path":"/name","value":"detail"}]`) // there is no such part
	changed := b.want(200, "PATCH", one, "1.112", `[{"op":"replace","path":"/name","value":"wash"},{"op":"add","path":"/description","value":"weekly"},
		{"op":"replace","path":"/disable_ramdisk","value":true},{"op":"add","path":"/owner","value":"p1"}]`).object(t)
	if changed["name"] != "wash" || changed["description"] != "weekly" || changed["disable_ramdisk"] != true || changed["owner"] != "p1" {
		t.Errorf("changed runbook: %v", changed)
	}
	public := b.want(200, "PATCH", one, "1.92", `[{"op":"replace","path":"/public","value":true}]`).object(t)
	if public["public"] != true || public["owner"] != nil {
		t.Errorf("a public runbook: %v", public)
	}
	if list := b.want(200, "GET", "/v1/runbooks?project=p2", "1.92", "").object(t)["runbooks"].([]any); len(list) != 1 {
		t.Errorf("a project sees of public runbooks: %v", list)
	}
	b.want(204, "DELETE", "/v1/runbooks/wash", "1.92", "")
	b.want(201, "POST", "/v1/runbooks", "1.92", `{"name":"CUSTOM_BARE","steps":[{"interface":"deploy","step":"x","order":1.0}]}`)
	b.want(404, "GET", one, "1.92", "")
}

func TestRunbookTraits(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/runbooks", "1.92", runbookBody)
	const traits = "/v1/runbooks/CUSTOM_WASH/traits"
	want := func(list string) {
		t.Helper()
		if got := b.want(200, "GET", traits, "1.112", "").body; got != `{"traits":`+list+`}` {
			t.Errorf("traits %s, want %s", got, list)
		}
	}
	want(`[]`)
	a := b.want(204, "PUT", traits+"/CUSTOM_B", "1.112", "")
	if got := a.Header.Get("Location"); got != "http://ironyard.example:6385"+traits+"/CUSTOM_B" {
		t.Errorf("Location %q", got)
	}
	b.want(204, "PUT", traits+"/CUSTOM_A", "1.112", "")
	b.want(204, "PUT", traits+"/CUSTOM_A", "1.112", "")
	want(`["CUSTOM_A","CUSTOM_B"]`)
	b.want(204, "DELETE", traits+"/CUSTOM_A", "1.112", "")
	b.want(204, "DELETE", traits+"/CUSTOM_A", "1.112", "")
	want(`["CUSTOM_B"]`)
	b.want(204, "PUT", traits, "1.112", `{"traits":["CUSTOM_Z","CUSTOM_Y","CUSTOM_Z"]}`)
	want(`["CUSTOM_Y","CUSTOM_Z"]`)
	b.want(204, "DELETE", traits, "1.112", "")
	want(`[]`)
	if runbook := b.want(200, "GET", "/v1/runbooks/CUSTOM_WASH", "1.112", "").object(t); runbook["updated_at"] != nil {
		t.Errorf("with its traits the runbook itself has changed at %v", runbook["updated_at"])
	}
	b.refuse([]string{traits}, refusal{"GET", traits, "1.111", "", 404, ""}, refusal{"PUT", traits + "/CUSTOM_A", "1.111", "", 404, ""},
		refusal{"PUT", traits + "/a", "1.112", "", 400, "Schema error for trait: 'a' is not valid"}, refusal{"PUT", traits, "1.112", `{"traits":["a"]}`, 400, "Schema error for body: 'a' is not valid"},
		refusal{"PUT", traits, "1.112", `{}`, 400, "traits"}, refusal{"PUT", traits, "1.112", `{"traits":[],"x":1}`, 400, "x"},
		refusal{"PUT", traits + "/CUSTOM_A", "1.112", `{"a":1}`, 400, "body"},
		refusal{"GET", "/v1/runbooks/none/traits", "1.112", "", 404, "Runbook none could not be found"},
		refusal{"PUT", "/v1/runbooks/none/traits", "1.112", `{"traits":[]}`, 404, "Runbook none could not be found"})
}

func TestRunbookRefusals(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/runbooks", "1.92", runbookBody)
	const all, one = "/v1/runbooks", "/v1/runbooks/CUSTOM_WASH"
	b.want(201, "POST", all, "1.92", `{"name":"CUSTOM_ALL","public":true,"steps":[`+eraseStep+`]}`)
	b.refuse([]string{all + "?detail=true"},
		refusal{"GET", all, "1.91", "", 404, ""},
		refusal{"POST", all, "1.91", runbookBody, 405, ""},
		refusal{"PATCH", one, "1.91", `[]`, 405, ""},
		refusal{"DELETE", one, "1.91", "", 405, ""},
		refusal{"POST", all, "1.92", runbookBody, 409, "already exists"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","owner":"p1","steps":[` + eraseStep + `]}`, 400, "with an owner other than your own project"},
		refusal{"POST", all, "1.92", `{"name":"wash","steps":[` + eraseStep + `]}`, 400, "'wash' does not match"},
		refusal{"POST", all, "1.112", `{"name":"w/ash","steps":[` + eraseStep + `]}`, 400, "Schema error for runbook: 'w/ash' does not match"},
		refusal{"POST", all, "1.112", `{"name":"x","traits":["CUSTOM_A"],"steps":[` + eraseStep + `]}`, 400, "traits"},
		refusal{"POST", all, "1.111", `{"name":"CUSTOM_X","description":"d","steps":[` + eraseStep + `]}`, 400, "description"},
		refusal{"PATCH", one, "1.111", `[{"op":"remove","path":"/description"}]`, 400, "description"},
		refusal{"GET", all + "?fields=traits", "1.111", "", 400, "traits"},
		refusal{"POST", all, "1.115", `{"name":"x","public":"off","steps":[` + eraseStep + `]}`, 400, "boolean"},
		refusal{"PUT", one + "/traits/CUSTOM_A", "1.115", `[]`, 400, "body"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","steps":[{"interface":"deploy","step":"x","args":null,"order":1}]}`, 400, "None is not of type 'object'"},
		refusal{"PUT", all + "/none/traits/CUSTOM_A", "1.115", `{"a":1}`, 400, "Schema error for body: Additional properties are not allowed ('a' was unexpected)"},
		refusal{"PUT", all + "/none/traits/CUSTOM_A", "1.115", `{"traits":["CUSTOM_B"]}`, 404, "Runbook none could not be found"},
		refusal{"PUT", all + "/none/traits", "1.115", `{}`, 404, "Runbook none could not be found"},
		refusal{"PUT", one + "/traits/CUSTOM_A", "1.115", `{"traits":["CUSTOM_B"]}`, 400, "A single runbook trait may be added via PUT /v1/runbooks/<runbook identifier>/traits/<trait> with no body"},
		refusal{"PUT", one + "/traits", "1.115", "", 400, "A single runbook trait may be added via PUT"},
		refusal{"PATCH", all, "1.91", `{}`, 405, ""},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":[3],"step":"erase","args":{},"order":1}]}`, 400, "[3] is not of type 'string'"},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":"deploy","step":1,"args":{},"order":1}]}`, 400, "1 is not of type 'string'"},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":"deploy","step":"x","args":"no","order":1}]}`, 400, "'no' is not of type 'object'"},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":"deploy","step":"x","args":{},"order":-1}]}`, 400, "-1 is less than the minimum of 0"},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":"deploy","step":"x","args":{},"order":"no"}]}`, 400, "'no' does not match '^[0-9]+$'"},
		refusal{"POST", all, "1.115", `{"name":"a","steps":[{"interface":"deploy","step":"x","args":{},"order":1,"foo":"bar"}]}`, 400, "Additional properties are not allowed ('foo' was unexpected)"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","steps":[]}`, 400, "Schema error for runbook: [] should be non-empty"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X"}`, 400, "'steps' is a required property"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","steps":[` + eraseStep + `,` + eraseStep + `]}`, 400, "Duplicate"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","steps":[` + raidStep + `]}`, 400, "'order' is a required property"},
		refusal{"POST", all, "1.92", `{"name":"CUSTOM_X","disable_ramdisk":7,"steps":[` + eraseStep + `]}`, 400, "disable_ramdisk"},
		refusal{"PATCH", one, "1.92", `[{"op":"remove","path":"/name"}]`, 400, "required"},
		refusal{"PATCH", one, "1.92", `[{"op":"replace","path":"/name","value":"CUSTOM_ALL"}]`, 409, "already exists"},
		refusal{"PATCH", one, "1.112", `[{"op":"add","path":"/traits","value":["CUSTOM_A"]}]`, 400, "traits"},
		refusal{"PATCH", one, "1.92", `[{"op":"replace","path":"/public","value":true},{"op":"add","path":"/owner","value":"p"}]`, 400, "owner for a public runbook"},
		refusal{"PATCH", "/v1/runbooks/CUSTOM_ALL", "1.92", `[{"op":"replace","path":"/public","value":true},{"op":"add","path":"/owner","value":null}]`, 400, "owner for a public runbook"},
		refusal{"PATCH", "/v1/runbooks/CUSTOM_ALL", "1.92", `[{"op":"add","path":"/owner","value":"p"}]`, 400, "owner for a public runbook"},
		refusal{"GET", "/v1/runbooks/CUSTOM_NONE", "1.92", "", 404, "Runbook CUSTOM_NONE could not be found"},
	)
	sortable(b, runbookTable, all, b.want(200, "GET", one, "1.115", "").object(t))
}

// TestRunningARunbook holds what a runbook becomes, and on which nodes.
func TestRunningARunbook(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.want(201, "POST", "/v1/runbooks", "1.92", runbookBody)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	const path = "/v1/nodes/n1/states/provision"
	const clean = `{"target":"clean","runbook":"CUSTOM_WASH"}`
	b.refuse([]string{"/v1/nodes/n1"},
		refusal{"PUT", path, "1.91", clean, 406, "1.92"},
		refusal{"PUT", path, "1.92", clean, 400, "has not been approved for use on this node"},
		refusal{"PUT", path, "1.92", `{"target":"clean","runbook":"CUSTOM_NONE"}`, 404, "Runbook CUSTOM_NONE could not be found"},
		refusal{"PUT", path, "1.92", `{"target":"clean","runbook":7}`, 400, "Expected"},
		refusal{"PUT", path, "1.92", `{"target":"inspect","runbook":"CUSTOM_NONE"}`, 404, "Runbook CUSTOM_NONE could not be found"},
		refusal{"PUT", path, "1.92", `{"target":"clean","runbook":"CUSTOM_WASH","clean_steps":[{"interface":"deploy","step":"erase"}]}`, 400, "cannot be used with"},
	)
	run := func(version string) {
		t.Helper()
		b.move("n1", provision.Manageable, provision.NoState, nil)
		b.want(202, "PUT", path, version, clean)
		want := []string{"deploy.erase@0 runbook CUSTOM_WASH", "bios.factory_reset@0 runbook CUSTOM_WASH"}
		if got := b.steps("n1"); !slices.Equal(got, want) {
			t.Errorf("steps %q, want %q", got, want)
		}
	}
	b.want(204, "PUT", "/v1/nodes/n1/traits/CUSTOM_WASH", "1.92", "")
	run("1.92")
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.refuse([]string{"/v1/nodes/n1"}, refusal{"PUT", path, "1.112", clean, 400, "has no traits configured"})
	b.want(204, "PUT", "/v1/runbooks/CUSTOM_WASH/traits", "1.112", `{"traits":["CUSTOM_B","CUSTOM_C"]}`)
	b.refuse([]string{"/v1/nodes/n1"}, refusal{"PUT", path, "1.112", clean, 400, "does not have any of the runbook's traits ['CUSTOM_B', 'CUSTOM_C']"})
	b.want(204, "PUT", "/v1/nodes/n1/traits/CUSTOM_C", "1.92", "")
	run("1.112")
	run("1.111") // for older requests the name counts
	b.move("n1", provision.Active, provision.NoState, nil)
	const service = `{"target":"service","runbook":"CUSTOM_WASH"}`
	b.refuse([]string{"/v1/nodes/n1"}, refusal{"PUT", path, "1.107", service, 406, "1.108"})
	b.want(202, "PUT", path, "1.108", service)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(204, "PUT", "/v1/nodes/n1/traits", "1.115", `{"traits":["CUSTOM_B"]}`)
	b.refuse([]string{"/v1/nodes/n1"}, refusal{"PUT", path, "1.111", clean, 400, "has not been approved"})
}
