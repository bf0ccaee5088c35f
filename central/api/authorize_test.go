package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Projects of the tests: of the node, of its lessee, and of somebody else.
const (
	ownerProject   = "70e5e25a-2ca2-4cb1-8ae8-7d8739cee205"
	lesseeProject  = "f11853c7-fa9c-4db3-a477-c9d8e0dbbf13"
	foreignProject = "ae64129e-b188-4662-b014-4127f4366ee6"
)

// wordOf is a strategy that believes what the header X-Who says: "system ROLE,…" or
// "PROJECT[/NAME] ROLE,…".
type wordOf struct{}

func (wordOf) Authenticate(r *http.Request) (*auth.Caller, error) {
	scope, roles, found := strings.Cut(r.Header.Get("X-Who"), " ")
	if !found {
		return nil, (wordOf{}).Missing()
	}
	c := &auth.Caller{User: "u", UserID: "u-1", Roles: strings.Split(roles, ",")}
	if scope == "system" {
		c.System = true
	} else {
		c.Project, c.ProjectName, _ = strings.Cut(scope, "/")
	}
	return c, nil
}

func (wordOf) Missing() *auth.Denied {
	return &auth.Denied{Message: "Authorization required", Reason: "no credentials"}
}

func (wordOf) Challenges() []string { return []string{"Word"} }

const (
	adminRoles  = "admin,manager,member,reader"
	memberRoles = "member,reader"
)

const (
	ownPort    = "aaaaaaaa-2222-4333-8444-555555555555"
	elsewhere  = "22222222-2222-4333-8444-555555555555" // a node of nobody
	ownGroup   = "cccccccc-2222-4333-8444-555555555555"
	portOfElse = "bbbbbbbb-2222-4333-8444-555555555555"
)

// newGuarded is a bench with one node of two projects and one of nobody.
func newGuarded(t testing.TB) *bench { return enrolledOn(newBench(t)) }

func enrolledOn(b *bench) *bench {
	b.want(201, "POST", "/v1/nodes", "1.115",
		`{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware","owner":"`+ownerProject+`","lessee":"`+lesseeProject+`","driver_info":{"address":"https://bmc","password":"open sesame"},"instance_info":{"image_url":"http://i"}}`)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+elsewhere+`","name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+ownPort+`","node_uuid":"`+nodeID+`","address":"AA:BB:CC:DD:EE:01"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"uuid":"`+portOfElse+`","node_uuid":"`+elsewhere+`","address":"AA:BB:CC:DD:EE:02"}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", `{"uuid":"`+ownGroup+`","node_uuid":"`+nodeID+`"}`)
	b.server.Auth = wordOf{}
	return b
}

func (b *bench) as(who, method, path, body string) answer {
	b.t.Helper()
	return b.do(method, path, "1.115", body, "X-Who", who)
}

func (b *bench) wantAs(status int, who, method, path, body string) answer {
	b.t.Helper()
	a := b.as(who, method, path, body)
	if a.StatusCode != status {
		b.t.Fatalf("%s %s as %s: status %d, want %d\n%s\n%s", method, path, who, a.StatusCode, status, a.body, b.log.String())
	}
	return a
}

// values stand for the parameters of paths; what is not here stands for something that
// there is not.
var values = map[string]string{"{node}": nodeID, "{port}": ownPort, "{portgroup}": ownGroup}

func (r *Route) sample() (path, body string) {
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = values[part]
			if parts[i] == "" {
				parts[i] = "99999999-2222-4333-8444-555555555555"
			}
		}
	}
	path = "/v1/" + strings.Join(parts, "/")
	if r.Path == "nodes/validate" {
		path += "?node=" + nodeID
	}
	switch {
	case r.Method == http.MethodPatch:
		body = `[{"op":"replace","path":"/extra","value":{}}]`
	case r.Method == http.MethodPost && partsOfNodes[r.Path]:
		body = `{"node_uuid":"` + nodeID + `"}`
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		body = `{}`
	}
	return path, body
}

// TestEveryRouteIsGuarded asks each route that there is: as nobody, as an administrator,
// as somebody without a role, and as the administrator of a project that the objects
// are none of the business of.
func TestEveryRouteIsGuarded(all *testing.T) {
	all.Parallel()
	allowed, deniedCases, concealed := 0, 0, 0
	rules := policy.Default("")
	b := newGuarded(all)
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			route := &resource.Routes[i]
			if route.Policy == Public {
				continue
			}
			all.Run(route.Method+" "+route.Path, func(t *testing.T) {
				if !rules.Known(route.Policy) || route.Own != "" && !rules.Known(route.Own) {
					t.Fatalf("there is no rule %s %s", route.Policy, route.Own)
				}
				path, body := route.sample()
				told := b.told
				if a := b.do(route.Method, path, "1.115", body); anonymous[route.Policy] {
					if a.StatusCode == 401 {
						t.Errorf("a ramdisk is asked who it is")
					}
					return
				} else if a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("nobody: status %d", a.StatusCode)
				}
				if a := b.as("system none", route.Method, path, body); a.StatusCode != 403 && (a.StatusCode != 404 || subjectOf(route) == nil) {
					t.Errorf("without a role: status %d: %s", a.StatusCode, a.body)
				} else {
					deniedCases++
				}
				if checkStranger(t, route, b.as(foreignProject+" "+adminRoles, route.Method, path, body)) {
					concealed++
				}
				if b.told != told {
					t.Error("who was not let in has changed something")
				}
				a := b.as("system "+adminRoles+",service", route.Method, path, body)
				if a.StatusCode == 401 || a.StatusCode == 403 {
					t.Errorf("the administrator: status %d: %s", a.StatusCode, a.body)
				} else {
					allowed++
				}
				if route.Method != http.MethodGet {
					b = newGuarded(all)
				}
			})
		}
	}
	all.Logf("%d allowed, %d denied, %d concealed", allowed, deniedCases, concealed)
}

// checkStranger checks the answer to the administrator of a project that has nothing, and
// reports whether there was something that it had to conceal.
func checkStranger(t *testing.T, route *Route, a answer) bool {
	rules := policy.Default("")
	d := rules.For(&auth.Caller{Project: foreignProject, Roles: strings.Split(adminRoles, ",")}).Decide(route.Policy)
	switch {
	case subjectOf(route) != nil:
		if a.StatusCode != 404 {
			t.Errorf("a stranger is told of the object: status %d: %s", a.StatusCode, a.body)
		}
	case route.Path == "volume": // shows links only
		return false
	case strings.HasSuffix(route.Policy, ":list") && rules.Known(route.Policy+"_all"):
		if a.StatusCode != 404 && (a.StatusCode != 200 || !strings.Contains(a.body, ":[]")) {
			t.Errorf("a stranger's list: status %d: %s", a.StatusCode, a.body)
		}
	case route.Own != "" || d.Always(): // everybody may have something of their own there
		return false
	case d.Never() || partsOfNodes[route.Path]:
		if a.StatusCode != 403 {
			t.Errorf("a stranger: status %d: %s", a.StatusCode, a.body)
		}
	default:
		t.Errorf("%s depends on an object, and no subject says whose it is", route.Policy)
	}
	return true
}

func TestWhoAsksIsKnownBeforeAnythingIsSaid(t *testing.T) {
	b := newGuarded(t)
	for _, c := range []struct {
		who, method, path, version string
		want                       int
	}{
		{"", "GET", "/", "1.115", 200}, {"", "GET", "/v1", "1.115", 200}, {"", "GET", "/v1/", "7.1", 406}, {"", "POST", "/v1", "1.115", 405},
		{"", "GET", "/v1/nothing", "1.115", 401}, {"", "GET", "/v1/nodes", "9.9", 401}, {"", "PUT", "/v1/nodes", "1.115", 401},
		{"system reader", "GET", "/v1/nothing", "1.115", 404}, {"system reader", "GET", "/v1/nodes", "9.9", 406}, {"system reader", "PUT", "/v1/nodes", "1.115", 405},
		{"system none", "GET", "/v1/conductors", "1.1", 404}, {"system none", "GET", "/v1/conductors", "1.115", 403},
		{"system reader", "PUT", "/v1/nodes/n1/states/boot_mode", "1.70", 403}, {"system reader", "PUT", "/v1/nodes/n1/states/raid", "1.11", 403},
		{foreignProject + " reader", "PUT", "/v1/nodes/n1/states/secure_boot", "1.70", 404},
		{foreignProject + " reader", "GET", "/v1/nodes/states/console/n1", "1.70", 404}, {"system reader", "GET", "/v1/nodes/states/console/n1", "1.70", 403},
	} {
		if a := b.do(c.method, c.path, c.version, "", "X-Who", c.who); a.StatusCode != c.want {
			t.Errorf("%s %s at %s as %q: status %d, want %d", c.method, c.path, c.version, c.who, a.StatusCode, c.want)
		}
	}
	a := b.do("GET", "/v1/nodes", "1.115", "")
	var body struct {
		Error struct {
			Message string
			Code    int
		}
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || body.Error.Code != 401 || body.Error.Message == "" {
		t.Errorf("a refusal says %s", a.body)
	}
}

func TestProjectsSeeTheirNodes(t *testing.T) {
	b := newGuarded(t)
	for _, c := range []struct {
		who   string
		nodes int
	}{{"system reader", 2}, {ownerProject + " reader", 1}, {lesseeProject + " reader", 1}, {foreignProject + " " + adminRoles, 0}} {
		for _, path := range []string{"/v1/nodes", "/v1/nodes/detail", "/v1/ports", "/v1/nodes?project=" + strings.Fields(c.who)[0]} {
			if strings.HasPrefix(c.who, "system") && strings.Contains(path, "project") {
				continue
			}
			key := "nodes"
			if strings.Contains(path, "ports") {
				key = "ports"
			}
			if got := len(b.wantAs(200, c.who, "GET", path, "").object(t)[key].([]any)); got != c.nodes {
				t.Errorf("%s as %s: %d, want %d", path, c.who, got, c.nodes)
			}
		}
	}
	b.wantAs(403, ownerProject+" reader", "GET", "/v1/nodes?project="+foreignProject, "")
	b.wantAs(403, ownerProject+" none", "GET", "/v1/nodes", "")
	b.wantAs(200, ownerProject+" reader", "GET", "/v1/nodes/n1", "")
	for _, path := range []string{"/v1/nodes/n2", "/v1/nodes/n2/ports", "/v1/ports?node=n2", "/v1/nodes/n2/history", "/v1/ports/" + portOfElse,
		"/v1/nodes?marker=" + elsewhere, "/v1/nodes/validate?node=n2"} {
		if a := b.wantAs(404, ownerProject+" "+adminRoles, "GET", path, ""); strings.Contains(a.body, "denied") {
			t.Errorf("%s says %s", path, a.body)
		}
	}
	if got := b.wantAs(200, ownerProject+" reader", "GET", "/v1/nodes?instance_uuid="+elsewhere, "").object(t)["nodes"].([]any); len(got) != 0 {
		t.Errorf("by instance: %v", got)
	}
}

// Who may read a node sees of its children those that a list of theirs would show.
func TestProjectsSeeTheirChildren(t *testing.T) {
	b := newGuarded(t)
	admin := "system " + adminRoles
	for _, child := range []string{ownPort, ownGroup} {
		b.wantAs(201, admin, "POST", "/v1/nodes", `{"uuid":"`+child+`","driver":"fake-hardware","owner":"`+ownerProject+`","parent_node":"`+nodeID+`"}`)
	}
	b.wantAs(200, admin, "PATCH", "/v1/nodes/"+ownGroup, `[{"op":"remove","path":"/owner"},{"op":"add","path":"/lessee","value":"`+lesseeProject+`"}]`)
	for who, want := range map[string]string{"system reader": ownPort + " " + ownGroup, ownerProject + " reader": ownPort, lesseeProject + " reader": ownGroup} {
		if got := b.wantAs(200, who, "GET", "/v1/nodes/n1/children", "").object(t)["children"]; fmt.Sprint(got) != "["+want+"]" {
			t.Errorf("%s sees the children %v, want %s", who, got, want)
		}
	}
	b.wantAs(404, foreignProject+" "+adminRoles, "GET", "/v1/nodes/n1/children", "")
}

func TestWhatLesseesMayNotSeeIsRedacted(t *testing.T) {
	b := newGuarded(t)
	for _, path := range []string{"/v1/nodes/n1", "/v1/nodes/detail"} {
		show := func(who string) map[string]any {
			o := b.wantAs(200, who, "GET", path, "").object(t)
			if list, ok := o["nodes"].([]any); ok {
				o = list[0].(map[string]any)
			}
			return o
		}
		own, lent := show(ownerProject+" reader"), show(lesseeProject+" reader")
		if own["last_error"] != nil || own["driver_info"].(map[string]any)["address"] != "https://bmc" || own["driver_info"].(map[string]any)["password"] != hidden {
			t.Errorf("%s: the owner sees %v", path, own["driver_info"])
		}
		if lent["last_error"] != "** Value Redacted - Requires baremetal:node:get:last_error permission. **" ||
			lent["reservation"] != "** Redacted - requires baremetal:node:get:reservation permission. **" ||
			fmt.Sprint(lent["driver_info"]) != "map[content:** Redacted - requires baremetal:node:get:driver_info permission. **]" ||
			fmt.Sprint(lent["driver_internal_info"]) != "map[content:** Redacted - Requires baremetal:node:get:driver_internal_info permission. **]" {
			t.Errorf("%s: the lessee sees %v", path, lent)
		}
	}
	if a := b.wantAs(200, lesseeProject+" reader", "GET", "/v1/nodes/n1?fields=last_error", ""); !strings.Contains(a.body, "Redacted") {
		t.Errorf("by its name the field shows: %s", a.body)
	}
}

func TestSecretsAreShownToWhomTheRulesName(t *testing.T) {
	b := newGuarded(t)
	rules, err := policy.Default("").With([]byte("show_password: role:keeper\nshow_instance_secrets: role:keeper"))
	if err != nil {
		t.Fatal(err)
	}
	b.server.Policy = func() *policy.Rules { return rules }
	if a := b.wantAs(200, "system reader,keeper", "GET", "/v1/nodes/n1", ""); !strings.Contains(a.body, `"open sesame"`) || !strings.Contains(a.body, `"http://i"`) {
		t.Errorf("the keeper sees %s", a.body)
	}
	if a := b.wantAs(200, "system "+adminRoles, "GET", "/v1/nodes/n1", ""); strings.Contains(a.body, "sesame") || strings.Contains(a.body, "http://i\"") {
		t.Errorf("the administrator sees %s", a.body)
	}

	// Whose a node is does not matter: a file that names its owner shows no more here than in Ironic.
	rules, err = policy.Default("").With([]byte("show_password: role:keeper or project_id:%(node.owner)s\nshow_instance_secrets: role:keeper or project_id:%(node.lessee)s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/nodes/n1", "/v1/nodes/detail", "/v1/nodes?fields=driver_info,instance_info"} {
		if a := b.wantAs(200, "system reader,keeper", "GET", path, ""); !strings.Contains(a.body, `"open sesame"`) || !strings.Contains(a.body, `"http://i"`) {
			t.Errorf("%s: the keeper sees %s", path, a.body)
		}
		for _, who := range []string{ownerProject + " " + adminRoles, lesseeProject + " " + adminRoles} {
			if a := b.wantAs(200, who, "GET", path, ""); strings.Contains(a.body, "sesame") || strings.Contains(a.body, `"http://i"`) {
				t.Errorf("%s: %s sees %s", path, who, a.body)
			}
		}
	}
}

func TestFieldsHaveTheirOwnRules(t *testing.T) {
	t.Parallel()
	b := newGuarded(t)
	const sibling = "77777777-2222-4333-8444-555555555555"
	b.wantAs(201, "system "+adminRoles, "POST", "/v1/nodes", `{"uuid":"`+sibling+`","driver":"fake-hardware","owner":"`+ownerProject+`"}`)
	patch := func(field, value string) string {
		return `[{"op":"replace","path":"/` + field + `","value":` + value + `}]`
	}
	for _, c := range []struct {
		field, value string
		may          string // of: A system admin, M system member, a o m owner's, l n lessee's admin and member
	}{
		{"extra", `{}`, "AMaomln"}, {"instance_info", `{}`, "AMaoml"}, {"driver_info", `{}`, "AMaom"}, {"properties", `{}`, "AMaom"},
		{"name", `"x"`, "AMaom"}, {"lessee", `"` + lesseeProject + `"`, "AMaom"}, {"owner", `"` + ownerProject + `"`, "AM"},
		{"shard", `"s"`, "A"}, {"disable_power_off", `true`, "A"}, {"conductor_group", `""`, "AM"}, {"parent_node", `"` + sibling + `"`, "AM"},
		{"automated_clean", `false`, "A"}, {"automated_clean", `"off"`, "A"}, {"automated_clean", `true`, "AMaomln"},
		{"boot_interface", `"fake"`, "AMao"}, {"driver", `"fake-hardware"`, "AMao"}, {"retired_reason", `""`, "AMaom"},
		{"description", `"d"`, "AMaomln"}, {"chassis_uuid", `null`, "A"}, {"instance_uuid", `null`, "AMaom"},
		{"maintenance", `false`, "AMaoml"}, {"instance_name", `"i"`, "AMaoml"},
	} {
		got := ""
		for letter, who := range map[byte]string{'A': "system " + adminRoles, 'M': "system " + memberRoles, 'a': ownerProject + " " + adminRoles,
			'o': ownerProject + " manager,member,reader", 'm': ownerProject + " " + memberRoles, 'l': lesseeProject + " " + adminRoles, 'n': lesseeProject + " " + memberRoles} {
			switch a := b.as(who, "PATCH", "/v1/nodes/"+nodeID, patch(c.field, c.value)); a.StatusCode {
			case 200:
				got += string(letter)
			case 403:
			default:
				t.Errorf("%s as %s: status %d: %s", c.field, who, a.StatusCode, a.body)
			}
		}
		for _, letter := range "AMaomln" {
			if strings.ContainsRune(got, letter) != strings.ContainsRune(c.may, letter) {
				t.Errorf("%s = %s: %q may, want %q", c.field, c.value, got, c.may)
				break
			}
		}
	}
	b.wantAs(403, lesseeProject+" "+memberRoles, "PATCH", "/v1/nodes/"+nodeID, `[{"op":"replace","path":"/extra","value":{}},{"op":"replace","path":"/owner","value":"x"}]`)
	b.wantAs(404, foreignProject+" "+adminRoles, "PATCH", "/v1/nodes/"+nodeID, patch("extra", "{}"))
}

func TestProjectsEnrolNodesOfTheirOwn(t *testing.T) {
	b := newGuarded(t)
	made := b.wantAs(201, foreignProject+" "+adminRoles, "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"mine"}`).object(t)
	if made["owner"] != foreignProject {
		t.Errorf("its owner is %v", made["owner"])
	}
	b.wantAs(400, foreignProject+" "+adminRoles, "POST", "/v1/nodes", `{"driver":"fake-hardware","owner":"`+ownerProject+`"}`)
	b.wantAs(403, foreignProject+" manager,member,reader", "POST", "/v1/nodes", `{"driver":"fake-hardware"}`)
	b.wantAs(403, "system "+memberRoles, "POST", "/v1/nodes", `{"driver":"fake-hardware"}`)
	b.wantAs(403, foreignProject+" manager,member,reader", "DELETE", "/v1/nodes/mine", "")
	b.wantAs(404, ownerProject+" "+adminRoles, "DELETE", "/v1/nodes/mine", "")
	b.wantAs(403, lesseeProject+" "+adminRoles, "DELETE", "/v1/nodes/n1", "")
	b.wantAs(204, foreignProject+" "+adminRoles, "DELETE", "/v1/nodes/mine", "")

	b.server.NoSelfService = true
	b.wantAs(403, foreignProject+" "+adminRoles, "POST", "/v1/nodes", `{"driver":"fake-hardware"}`)
	b.wantAs(403, ownerProject+" "+adminRoles, "DELETE", "/v1/nodes/n1", "")
}

// A refusal names the rule that would have had to let the caller pass at last.
func TestRefusalsNameARule(t *testing.T) {
	b := newGuarded(t)
	names := func(rule, who, method, path, body string) {
		t.Helper()
		if a := b.wantAs(403, who, method, path, body); !strings.Contains(a.body, "Access was denied to the following resource: "+rule+`\"`) {
			t.Errorf("%s %s as %s: %s, want rule %s named", method, path, who, a.body, rule)
		}
	}
	const enrol, allocate = `{"driver":"fake-hardware"}`, `{"resource_class":"rc"}`
	names("baremetal:node:create", ownerProject+" "+memberRoles, "POST", "/v1/nodes", enrol)
	names("baremetal:node:delete:self_owned_node", ownerProject+" "+memberRoles, "DELETE", "/v1/nodes/n1", "")
	names("baremetal:node:delete:self_owned_node", "system reader", "DELETE", "/v1/nodes/n1", "")
	names("baremetal:allocation:create_restricted", ownerProject+" reader", "POST", "/v1/allocations", allocate)
	names("baremetal:node:set_power_state", ownerProject+" reader", "PUT", "/v1/nodes/n1/states/power", `{"target":"power on"}`)
	b.server.NoSelfService = true
	names("baremetal:node:delete", ownerProject+" "+adminRoles, "DELETE", "/v1/nodes/n1", "")
}

func TestPortsAreOfTheirNode(t *testing.T) {
	b := newGuarded(t)
	port := func(node string) string { return `{"node_uuid":"` + node + `","address":"AA:BB:CC:DD:EE:09"}` }
	b.wantAs(403, ownerProject+" "+adminRoles, "POST", "/v1/ports", port(elsewhere))
	b.wantAs(403, ownerProject+" "+memberRoles, "POST", "/v1/ports", port(nodeID))
	b.wantAs(403, lesseeProject+" "+adminRoles, "POST", "/v1/ports", port(nodeID))
	b.wantAs(403, ownerProject+" "+adminRoles, "POST", "/v1/ports", `{"node_ident":"n2","address":"AA:BB:CC:DD:EE:09"}`)
	b.wantAs(403, ownerProject+" "+adminRoles, "POST", "/v1/ports", `{"node_ident":"n2","node_uuid":"`+nodeID+`","address":"AA:BB:CC:DD:EE:09"}`)
	b.wantAs(201, ownerProject+" "+adminRoles, "POST", "/v1/ports", port(nodeID))
	extra := `[{"op":"replace","path":"/extra","value":{}}]`
	b.wantAs(200, ownerProject+" "+adminRoles, "PATCH", "/v1/ports/"+ownPort, extra)
	b.wantAs(403, lesseeProject+" "+adminRoles, "PATCH", "/v1/ports/"+ownPort, extra)
	b.wantAs(404, foreignProject+" "+adminRoles, "PATCH", "/v1/ports/"+ownPort, extra)
	b.wantAs(404, foreignProject+" "+adminRoles, "DELETE", "/v1/ports/"+ownPort, "")
	b.wantAs(204, ownerProject+" service", "DELETE", "/v1/ports/"+ownPort, "")
}

func TestAllocationsAreOfTheirProject(t *testing.T) {
	b := newGuarded(t)
	a := b.wantAs(201, ownerProject+" "+memberRoles, "POST", "/v1/allocations", `{"name":"a1","resource_class":"none"}`).object(t)
	if a["owner"] != ownerProject {
		t.Errorf("its owner is %v", a["owner"])
	}
	b.wantAs(403, ownerProject+" "+memberRoles, "POST", "/v1/allocations", `{"resource_class":"none","owner":"`+foreignProject+`"}`)
	b.wantAs(201, "system "+memberRoles, "POST", "/v1/allocations", `{"resource_class":"none","owner":"`+foreignProject+`"}`)
	for who, want := range map[string]int{ownerProject + " reader": 1, "system reader": 2, lesseeProject + " reader": 0} {
		if got := len(b.wantAs(200, who, "GET", "/v1/allocations", "").object(t)["allocations"].([]any)); got != want {
			t.Errorf("%s sees %d allocations, want %d", who, got, want)
		}
	}
	b.wantAs(404, lesseeProject+" "+adminRoles, "GET", "/v1/allocations/a1", "")
	b.wantAs(404, lesseeProject+" "+adminRoles, "DELETE", "/v1/allocations/a1", "")
	b.wantAs(403, ownerProject+" reader", "DELETE", "/v1/allocations/a1", "")
	b.wantAs(204, ownerProject+" "+memberRoles, "DELETE", "/v1/allocations/a1", "")
}

// Who may read a node knows that it is allocated: to whom is another project's affair.
func TestTheAllocationOfANodeIsItsOwners(t *testing.T) {
	b := newGuarded(t)
	b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/resource_class","value":"rc"},{"op":"add","path":"/instance_uuid","value":"`+allocationID+`"}]`)
	b.move("n1", provision.Active, provision.NoState, nil)
	b.wantAs(201, lesseeProject+" "+adminRoles, "POST", "/v1/allocations", `{"uuid":"`+allocationID+`","node":"n1"}`)
	const path = "/v1/nodes/n1/allocation"
	for who, want := range map[string]int{lesseeProject + " reader": 200, ownerProject + " " + adminRoles: 403, foreignProject + " " + adminRoles: 404, "system reader": 200} {
		b.wantAs(want, who, "GET", path, "")
	}
	b.wantAs(403, ownerProject+" "+adminRoles, "DELETE", path, "")
	b.wantAs(403, lesseeProject+" reader", "DELETE", path, "")
	b.wantAs(404, foreignProject+" "+adminRoles, "DELETE", path, "")
	b.wantAs(409, lesseeProject+" "+memberRoles, "DELETE", path, "") // the node is active
}

func TestVolumesAreOfTheirNode(t *testing.T) {
	b := newGuarded(t)
	target := func(node, id string) string {
		return `{"uuid":"` + id + `","node_uuid":"` + node + `","volume_type":"iscsi","boot_index":0,"volume_id":"v","properties":{"target_portal":"p"}}`
	}
	const id, other = "eeeeeeee-2222-4333-8444-555555555555", "ffffffff-2222-4333-8444-555555555555"
	b.wantAs(403, ownerProject+" "+adminRoles, "POST", "/v1/volume/targets", target(elsewhere, id))
	b.wantAs(201, "system "+adminRoles, "POST", "/v1/volume/targets", target(elsewhere, other))
	b.wantAs(201, lesseeProject+" "+adminRoles, "POST", "/v1/volume/targets", target(nodeID, id))
	for who, want := range map[string]int{ownerProject + " reader": 1, "system reader": 2, foreignProject + " reader": 0} {
		if got := len(b.wantAs(200, who, "GET", "/v1/volume/targets", "").object(t)["targets"].([]any)); got != want {
			t.Errorf("%s sees %d targets, want %d", who, got, want)
		}
	}
	const more = "12345678-2222-4333-8444-555555555555"
	if a := b.wantAs(201, ownerProject+" manager,member,reader", "POST", "/v1/volume/targets", strings.Replace(target(nodeID, more), `"boot_index":0`, `"boot_index":1`, 1)); !strings.Contains(a.body, "target_portal") {
		t.Errorf("who makes one sees %s", a.body)
	}
	b.wantAs(404, foreignProject+" "+adminRoles, "DELETE", "/v1/volume/targets/"+id, "")
	if a := b.wantAs(200, lesseeProject+" reader", "GET", "/v1/volume/targets/"+id, ""); strings.Contains(a.body, "target_portal") || !strings.Contains(a.body, "redacted_contents") {
		t.Errorf("a reader sees %s", a.body)
	}
	if a := b.wantAs(200, lesseeProject+" "+adminRoles, "GET", "/v1/volume/targets/"+id, ""); !strings.Contains(a.body, "target_portal") {
		t.Errorf("an administrator sees %s", a.body)
	}
}

func TestRunbooksAreOfTheirProjectOrPublic(t *testing.T) {
	b := newGuarded(t)
	book := func(name, more string) string {
		return `{"name":"` + name + `","steps":[{"interface":"deploy","step":"erase","args":{},"order":1}]` + more + `}`
	}
	made := b.wantAs(201, ownerProject+" manager,member,reader", "POST", "/v1/runbooks", book("CUSTOM_MINE", "")).object(t)
	if made["owner"] != ownerProject {
		t.Errorf("its owner is %v", made["owner"])
	}
	b.wantAs(403, ownerProject+" "+memberRoles, "POST", "/v1/runbooks", book("CUSTOM_X", ""))
	b.wantAs(400, ownerProject+" "+adminRoles, "POST", "/v1/runbooks", book("CUSTOM_X", `,"public":true`))
	b.wantAs(400, ownerProject+" "+adminRoles, "POST", "/v1/runbooks", book("CUSTOM_X", `,"owner":"`+foreignProject+`"`))
	b.wantAs(201, "system "+memberRoles, "POST", "/v1/runbooks", book("CUSTOM_ALL", `,"public":true`))
	b.wantAs(201, "system "+memberRoles, "POST", "/v1/runbooks", book("CUSTOM_LENT", `,"owner":"`+ownerProject+`"`))
	b.wantAs(204, "system "+memberRoles, "DELETE", "/v1/runbooks/CUSTOM_LENT", "")
	for who, want := range map[string]int{ownerProject + " reader": 2, "system reader": 2, foreignProject + " reader": 1} {
		if got := len(b.wantAs(200, who, "GET", "/v1/runbooks", "").object(t)["runbooks"].([]any)); got != want {
			t.Errorf("%s sees %d runbooks, want %d", who, got, want)
		}
	}
	b.wantAs(200, foreignProject+" reader", "GET", "/v1/runbooks/CUSTOM_ALL", "")
	b.wantAs(403, foreignProject+" "+adminRoles, "GET", "/v1/runbooks/CUSTOM_MINE", "")
	b.wantAs(403, foreignProject+" "+adminRoles, "GET", "/v1/runbooks/CUSTOM_MINE/traits", "")
	b.wantAs(403, foreignProject+" "+adminRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", `[{"op":"add","path":"/extra/a","value":1}]`)
	b.wantAs(403, foreignProject+" "+adminRoles, "DELETE", "/v1/runbooks/CUSTOM_ALL", "")
	public := `[{"op":"replace","path":"/public","value":true}]`
	if a := b.wantAs(403, ownerProject+" "+adminRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", public); !strings.Contains(a.body, "baremetal:runbook:update:public") {
		t.Errorf("refused by %s", a.body)
	}
	b.wantAs(403, "system reader", "PATCH", "/v1/runbooks/CUSTOM_ALL", `[{"op":"replace","path":"/extra","value":{}}]`)
	same := `[{"op":"replace","path":"/owner","value":"` + ownerProject + `"}]` // nothing would change
	b.wantAs(403, ownerProject+" "+adminRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", same)
	b.move("n1", provision.Manageable, provision.NoState, nil)
	use := func(name string) string { return `{"target":"clean","runbook":"` + name + `"}` }
	b.wantAs(403, lesseeProject+" "+adminRoles, "PUT", "/v1/nodes/n1/states/provision", use("CUSTOM_MINE"))
	b.wantAs(403, ownerProject+" "+memberRoles, "PUT", "/v1/nodes/n1/states/provision", use("CUSTOM_MINE"))
	b.wantAs(403, ownerProject+" "+adminRoles, "PUT", "/v1/nodes/n1/states/provision", use("CUSTOM_ALL"))
	for who, name := range map[string]string{ownerProject + " manager,member,reader": "CUSTOM_MINE", ownerProject + " service": "CUSTOM_ALL", "system " + memberRoles: "CUSTOM_ALL"} {
		b.wantAs(400, who, "PUT", "/v1/nodes/n1/states/provision", use(name)) // it is not one of the runbook's nodes
	}
	b.wantAs(200, "system "+memberRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", public)
	b.wantAs(404, foreignProject+" "+adminRoles, "PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","runbook":"CUSTOM_ALL"}`)
	// Whoever says whether it is public takes it from its owner, unless they name one.
	hidden := `{"op":"replace","path":"/public","value":false}`
	for patch, want := range map[string]any{`[` + hidden + `]`: nil, `[` + hidden + `,` + same[1:]: ownerProject} {
		b.wantAs(200, "system "+memberRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", `[`+hidden+`,`+same[1:])
		b.wantAs(200, "system "+memberRoles, "PATCH", "/v1/runbooks/CUSTOM_MINE", patch)
		if got := b.wantAs(200, "system reader", "GET", "/v1/runbooks/CUSTOM_MINE", "").object(t)["owner"]; got != want {
			t.Errorf("after %s its owner is %v, want %v", patch, got, want)
		}
	}
}
