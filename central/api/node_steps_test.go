package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

const provisionPath = "/v1/nodes/n1/states/provision"

// Lists of steps that are not accepted, and leave the node as it was.
func TestStepListsThatAreRefused(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, c := range []struct {
		name, body, want string
		state            provision.State
	}{
		{"no list", `{"target":"clean","clean_steps":{}}`, "Expected types <class 'NoneType'>, <class 'list'> for clean_steps: {}", provision.Manageable},
		{"too many", `{"target":"clean","clean_steps":[` + strings.Repeat("1,", 256) + `1]}`, "257 steps, and at most 256 are allowed", provision.Manageable},
		{"a drive that is a number", `{"target":"active","configdrive":1}`, "<class 'dict'>, <class 'str'> for configdrive: 1", provision.Manageable},
		{"a password that is a number", `{"target":"rescue","rescue_password":1}`, "Expected string for rescue_password: '******'", provision.Manageable},
		{"a runbook that is a list", `{"target":"clean","runbook":[1]}`, "<class 'str'> for runbook: [1]", provision.Available},
		{"neither with nor without ramdisk", `{"target":"manage","disable_ramdisk":"perhaps"}`, "Invalid disable_ramdisk: Unrecognized value 'perhaps'", provision.Manageable},
		{"none", `{"target":"clean"}`, "is required", provision.Manageable},
		{"an empty one", `{"target":"clean","clean_steps":[]}`, "is required", provision.Manageable},
		{"no step", `{"target":"clean","clean_steps":[{"interface":"raid"}]}`, "'step'", provision.Manageable},
		{"an interface without steps", `{"target":"clean","clean_steps":[{"interface":"network","step":"x"}]}`, "Invalid clean_steps: 'network' is not one of ['vendor', 'power', 'management', 'firmware', 'deploy', 'bios', 'raid'] in step 1", provision.Manageable},
		{"no interface", `{"target":"clean","clean_steps":[{"step":"x"}]}`, "Invalid clean_steps: 'interface' is a required property in step 1", provision.Manageable},
		{"a strange key", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x","colour":1}]}`, "colour", provision.Manageable},
		{"a priority", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x","priority":1}]}`, "Invalid clean_steps: Additional properties are not allowed ('priority' was unexpected)", provision.Manageable},
		{"arguments that are none", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x","args":[]}]}`, "Invalid clean_steps: [] is not of type 'object' in step 1", provision.Manageable},
		{"arguments that are null", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x","args":null}]}`, "Invalid clean_steps: None is not of type 'object'", provision.Manageable},
		{"a name that is null", `{"target":"clean","clean_steps":[{"interface":"raid","step":null}]}`, "Invalid clean_steps: None is not of type 'string'", provision.Manageable},
		{"an empty name", `{"target":"clean","clean_steps":[{"interface":"raid","step":""}]}`, "Invalid clean_steps: '' should be non-empty", provision.Manageable},
		{"a step that is a number", `{"target":"clean","clean_steps":[1]}`, "Invalid clean_steps: 1 is not of type 'object'", provision.Manageable},
		{"children maybe", `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","execute_on_child_nodes":"maybe"}]}`, "execute_on_child_nodes", provision.Manageable},
		{"children that are null", `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","limit_child_node_execution":null}]}`, "list of", provision.Manageable},
		{"children by name", `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","limit_child_node_execution":["bob"]}]}`, "list of UUIDs", provision.Manageable},
		{"children of a step that is not theirs", `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","limit_child_node_execution":["` + nodeID + `"]}]}`, "without 'execute_on_child_nodes'", provision.Manageable},
		{"another order", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x","order":2},{"interface":"raid","step":"y"},{"interface":"raid","step":"z","order":1}]}`,
			"step 3 has the order 1 and comes after one with the order 2", provision.Manageable},
		{"a forbidden step", `{"target":"clean","clean_steps":[{"interface":"vendor","step":"send_raw"}]}`, "vendor.send_raw is not allowed", provision.Manageable},
		{"another verb's list", `{"target":"clean","clean_steps":[{"interface":"raid","step":"x"}],"service_steps":[{"interface":"raid","step":"x"}]}`, "service_steps", provision.Manageable},
		{"a service of nothing", `{"target":"service"}`, "service_steps", provision.Active},
		{"a deploy step without arguments", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","priority":1}]}`, "'args'", provision.Available},
		{"a deploy step without priority", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","args":{}}]}`, "'priority'", provision.Available},
		{"a negative priority", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","args":{},"priority":-1}]}`, "Invalid deploy_steps: -1 is less than the minimum of 0", provision.Available},
		{"a deploy step on children", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","args":{},"priority":1,"execute_on_child_nodes":true}]}`, "execute_on_child_nodes", provision.Available},
		{"a forbidden deploy step", `{"target":"active","deploy_steps":[{"interface":"vendor","step":"send_raw","args":{},"priority":1}]}`, "not allowed", provision.Available},
		{"a blank rescue password", `{"target":"rescue","rescue_password":"  "}`, "rescue_password", provision.Active},
		{"a rescue password that is a file", `{"target":"rescue","rescue_password":"` + strings.Repeat("x", maxRescuePassword+1) + `"}`, "has 4097 bytes, more than 4096", provision.Active},
	} {
		b.move("n1", c.state, provision.NoState, nil)
		before := b.node("n1").Revision
		if a := b.want(400, "PUT", provisionPath, "1.115", c.body); !strings.Contains(a.fault(t), c.want) {
			t.Errorf("%s: %s, want %q in it", c.name, a.body, c.want)
		}
		if n := b.node("n1"); n.Revision != before || n.WorkID != "" {
			t.Errorf("%s: refused, and yet the node changed", c.name)
		}
	}
	b.move("n1", provision.Available, provision.NoState, nil)
	b.want(406, "PUT", provisionPath, "1.68", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","args":{},"priority":1}]}`)
	b.want(202, "PUT", provisionPath, "1.69", `{"target":"active","deploy_steps":[{"interface":"raid","step":"x","args":{},"priority":"15"}]}`)
	if w := b.work("n1"); len(w.Args.Steps) != 1 || w.Args.Steps[0].Priority != 15 {
		t.Errorf("deploy steps %+v", w.Args.Steps)
	}
}

// A step on children reaches those that the request names, or all. A name that is none of the node's is refused, whatever else it names.
func TestChildrenOfAStep(t *testing.T) {
	b := newBench(t)
	b.addNode()
	for _, name := range []string{"c1", "c2", "stranger"} {
		parent := `,"parent_node":"` + nodeID + `"`
		if name == "stranger" {
			parent = ""
		}
		b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"`+name+`","driver":"fake-hardware"`+parent+`}`)
	}
	c1, stranger := b.node("c1").UUID, b.node("stranger").UUID
	on := func(limit string) string {
		return `{"target":"clean","clean_steps":[{"interface":"power","step":"power_on","execute_on_child_nodes":true,"limit_child_node_execution":[` + limit + `]},{"interface":"power","step":"power_on"}]}`
	}
	refused := func(status int, body, text string) {
		t.Helper()
		if a := b.do("PUT", provisionPath, "1.115", body); a.StatusCode != status || !strings.Contains(a.body, text) {
			t.Errorf("status %d, %s, want %d and %q", a.StatusCode, a.body, status, text)
		}
	}
	for limit, want := range map[string]int{`"` + c1 + `"`: 1, "": 2} {
		b.move("n1", provision.Manageable, provision.NoState, nil)
		b.want(202, "PUT", provisionPath, "1.115", on(limit))
		steps := b.work("n1").Args.Steps
		if !steps[0].OnChildren || len(steps[0].Children) != want || steps[1].OnChildren || len(steps[1].Children) != 0 {
			t.Errorf("limit %q: %+v", limit, steps)
		}
		if n := len(b.strings("SELECT event FROM node_history WHERE node = '" + c1 + "' AND event LIKE 'step power.power_on accepted%'")); n == 0 {
			t.Errorf("limit %q: the child's history says nothing of it", limit)
		}
	}
	b.move("n1", provision.Manageable, provision.NoState, nil)
	for _, named := range []string{stranger, "99999999-2222-4333-8444-555555555555"} {
		refused(404, on(`"`+c1+`","`+named+`"`), "Node "+named+" could not be found among the child nodes of node "+nodeID)
	}
	b.want(200, "PATCH", "/v1/nodes/c1", "1.115", `[{"op":"add","path":"/maintenance","value":true}]`)
	refused(400, on(""), "is in maintenance mode")
	b.want(200, "PATCH", "/v1/nodes/c1", "1.115", `[{"op":"add","path":"/maintenance","value":false}]`)
	b.move("c1", provision.Active, provision.NoState, nil)
	b.want(200, "PATCH", "/v1/nodes/c1", "1.115", `[{"op":"add","path":"/protected","value":true}]`)
	refused(403, on(""), "is protected")
	for _, name := range []string{"c1", "c2"} {
		b.want(200, "PATCH", "/v1/nodes/"+name, "1.115", `[{"op":"remove","path":"/parent_node"}]`)
	}
	refused(400, on(""), "has no child nodes")
}

// What a caller may not do to a child node by itself, a step of the parent does not do for them. What they may not see counts
// as what there is not.
func TestStepsReachOnlyTheCallersChildren(t *testing.T) {
	b := newGuarded(t)
	admin := "system " + adminRoles
	const child, alien, nobodys = "dddddddd-2222-4333-8444-555555555555", "eeeeeeee-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	b.wantAs(201, admin, "POST", "/v1/nodes", `{"uuid":"`+child+`","driver":"fake-hardware","owner":"`+ownerProject+`","parent_node":"`+nodeID+`"}`)
	// The operator gives the child to another project. It stays where it is built in.
	b.wantAs(200, admin, "PATCH", "/v1/nodes/"+child, `[{"op":"replace","path":"/owner","value":"`+foreignProject+`"}]`)
	b.wantAs(201, admin, "POST", "/v1/nodes", `{"uuid":"`+alien+`","driver":"fake-hardware","owner":"`+foreignProject+`"}`)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	ask := func(who, target, limit string) answer {
		return b.as(who, "PUT", "/v1/nodes/n1/states/provision", `{"target":"`+target+`","disable_ramdisk":true,"`+target+`_steps":[{"interface":"power","step":"power_off","execute_on_child_nodes":true`+limit+`}]}`)
	}
	owner, hidden := ownerProject+" "+memberRoles, ""
	b.wantAs(404, owner, "GET", "/v1/nodes/"+child, "")
	for _, id := range []string{child, alien, nobodys} {
		a := ask(owner, "clean", `,"limit_child_node_execution":["`+id+`"]`)
		text := strings.ReplaceAll(a.body, id, "X")
		if hidden == "" {
			hidden = text
		}
		if a.StatusCode != 404 || text != hidden {
			t.Errorf("node %s: status %d, %s: a child that is hidden, and what is none, are told apart", id, a.StatusCode, a.body)
		}
	}
	if a := ask(owner, "clean", ""); a.StatusCode != 403 || strings.Contains(a.body, child) {
		t.Errorf("all children: status %d, %s", a.StatusCode, a.body)
	}
	b.move("n1", provision.Active, provision.NoState, nil)
	for _, limit := range []string{"", `,"limit_child_node_execution":["` + child + `"]`} {
		if a := ask(lesseeProject+" "+adminRoles, "service", limit); a.StatusCode != 403 && a.StatusCode != 404 {
			t.Errorf("the parent's lessee: status %d, %s", a.StatusCode, a.body)
		}
	}
	// A caller who may do it to the child may do it by a step. From then on the child stays in these hands.
	b.wantAs(200, admin, "PATCH", "/v1/nodes/"+child, `[{"op":"replace","path":"/owner","value":"`+ownerProject+`"}]`)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	if a := ask(owner, "clean", ""); a.StatusCode != 202 {
		t.Fatalf("the caller's own child: status %d, %s", a.StatusCode, a.body)
	}
	for _, op := range []string{`{"op":"replace","path":"/owner","value":"` + foreignProject + `"}`, `{"op":"add","path":"/lessee","value":"` + foreignProject + `"}`, `{"op":"remove","path":"/parent_node"}`} {
		b.wantAs(409, admin, "PATCH", "/v1/nodes/"+child, "["+op+"]")
	}
	b.wantAs(409, admin, "DELETE", "/v1/nodes/"+child, "")
	// Nor is its BMC written to beside the step, by what no work carries.
	for order, body := range map[string]string{
		"PUT /v1/nodes/" + child + "/management/boot_device":                 `{"boot_device":"disk"}`,
		"PUT /v1/nodes/" + child + "/management/inject_nmi":                  "",
		"PUT /v1/nodes/" + child + "/management/indicators/led@system":       `{"state":"ON"}`,
		"POST /v1/nodes/" + child + "/vendor_passthru?method=send_raw":       `{"raw_bytes":"0x00 0x01"}`,
		"DELETE /v1/nodes/" + child + "/vendor_passthru/delete_subscription": "",
	} {
		method, path, _ := strings.Cut(order, " ")
		if a := b.as(admin, method, path, body); a.StatusCode != 409 || !strings.Contains(a.body, "power.power_off") {
			t.Errorf("%s: status %d, %s", order, a.StatusCode, a.body)
		}
	}
	b.wantAs(200, admin, "PATCH", "/v1/nodes/"+child, `[{"op":"add","path":"/extra/a","value":"b"}]`)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.wantAs(200, admin, "PATCH", "/v1/nodes/"+child, `[{"op":"remove","path":"/parent_node"}]`)
}

// The project of an instance has the node for as long as the instance is there. A lessee whom an
// operator named keeps it.
func TestInstanceLendsItsNode(t *testing.T) {
	set := func(path, value string) string { return `[{"op":"add","path":"/` + path + `","value":` + value + `}]` }
	for _, c := range []struct {
		name, lessee, patch string // while the instance is there
		during, after       string
	}{
		{"lent for the instance", "", "", "p1", ""},
		{"lent to another", "p2", "", "p2", "p2"},
		{"lent to the same before", "p1", "", "p1", "p1"},
		{"instance_info is replaced meanwhile", "", set("instance_info", `{"a":"b"}`), "p1", ""},
		{"instance_info says another project meanwhile", "p2", set("instance_info/project_id", `"p2"`), "p2", "p2"},
		{"an operator names another meanwhile", "", set("lessee", `"p3"`), "p1", "p3"},
		{"an operator names the same meanwhile", "", set("lessee", `"p1"`), "p1", "p1"},
	} {
		b := newBench(t)
		b.addNode()
		b.move("n1", provision.Available, provision.NoState, func(n *store.Node) {
			n.Lessee, n.InstanceInfo = c.lessee, map[string]any{"project_id": "p1"}
		})
		b.want(202, "PUT", provisionPath, "1.115", `{"target":"active"}`)
		if n := b.node("n1"); n.Lessee != c.during {
			t.Errorf("%s: the lessee is %q after the deploy was asked for, want %q", c.name, n.Lessee, c.during)
		}
		b.move("n1", provision.Active, provision.NoState, nil)
		if c.patch != "" {
			b.want(200, "PATCH", "/v1/nodes/n1", "1.115", c.patch)
		}
		b.move("n1", provision.Active, provision.NoState, (*store.Node).ClearInstance)
		if n := b.node("n1"); n.Lessee != c.after || n.LentTo != "" || n.InstanceInfo != nil {
			t.Errorf("%s: the lessee is %q (mark %q) after the tear-down, want %q; %v", c.name, n.Lessee, n.LentTo, c.after, n.InstanceInfo)
		}
	}
}

// A rebuild lends its node to nobody.
func TestRebuildLendsNothing(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Active, provision.NoState, func(n *store.Node) { n.InstanceInfo = map[string]any{"project_id": "p1"} })
	b.want(202, "PUT", provisionPath, "1.115", `{"target":"rebuild"}`)
	if n := b.node("n1"); n.Lessee != "" {
		t.Errorf("the lessee is %q after the rebuild was asked for", n.Lessee)
	}
}

// Cleaning refuses power requests as such, not because somebody holds the node.
func TestPowerWhileCleaning(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", provisionPath, "1.115", `{"target":"provide"}`)
	b.want(400, "PUT", "/v1/nodes/n1/states/power", "1.115", `{"target":"power on"}`)
}
