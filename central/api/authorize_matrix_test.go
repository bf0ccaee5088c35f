package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/policy"
)

// rolesOf are the roles behind the letters of the matrix: each person has those below too.
var rolesOf = map[rune]string{'A': adminRoles, 'M': "manager,member,reader", 'm': memberRoles, 'r': "reader", 's': "service"}

// matrix is who may do what with a node, and with what belongs to it: of its owner's project,
// and of its lessee's. After a slash, who may not. What Ironic does not say is not here.
// Source: the tests of its rules for projects.
var matrix = []struct{ route, owner, lessee string }{
	{"GET nodes/{node}", "r/", "r/"},
	{"PATCH nodes/{node}", "AMm/", "AMm/"},
	{"DELETE nodes/{node}", "A/Ms", "/AM"},
	{"GET nodes/{node}/validate", "AMm/", "AM/m"},
	{"PUT nodes/{node}/maintenance", "AMm/", "AM/m"},
	{"DELETE nodes/{node}/maintenance", "AMm/", "AM/m"},
	{"PUT nodes/{node}/management/boot_device", "AM/m", "/AMm"},
	{"GET nodes/{node}/management/boot_device", "AM/mr", "/Amr"},
	{"GET nodes/{node}/management/boot_device/supported", "AM/m", "/AM"},
	{"PUT nodes/{node}/management/inject_nmi", "AM/", "/AM"},
	{"GET nodes/{node}/management/indicators", "r/", "r/"},
	{"PUT nodes/{node}/management/indicators/{indicator}", "m/", "/m"},
	{"GET nodes/{node}/states", "Ar/", "r/"},
	{"PUT nodes/{node}/states/power", "AMm/r", "AMm/r"},
	{"PUT nodes/{node}/states/boot_mode", "AMm/r", "AMm/r"},
	{"PUT nodes/{node}/states/secure_boot", "AMm/r", "AMm/r"},
	{"PUT nodes/{node}/states/provision", "AMms/", "AM/m"},
	{"PUT nodes/{node}/states/raid", "AMms/", "/AMm"},
	{"GET nodes/{node}/states/console", "AMms/r", "/AMmr"},
	{"PUT nodes/{node}/states/console", "AMms/", "/AMm"},
	{"GET nodes/{node}/states/console/stream", "AMms/r", "/AMmr"},
	{"GET nodes/{node}/states/console/log", "AMms/r", "/AMmr"},
	{"GET nodes/{node}/vendor_passthru/methods", "/AMmrs", "/AMmr"},
	{"GET nodes/{node}/vendor_passthru", "/AMmrs", "/AMmr"},
	{"POST nodes/{node}/vendor_passthru", "/AMmrs", "/AMmr"},
	{"GET nodes/{node}/traits", "rs/", "r/"},
	{"PUT nodes/{node}/traits", "AMs/m", "/AMm"},
	{"PUT nodes/{node}/traits/{trait}", "AM/m", "/AMm"},
	{"DELETE nodes/{node}/traits/{trait}", "AM/m", "/AMm"},
	{"GET nodes/{node}/vifs", "r/", "r/"},
	{"POST nodes/{node}/vifs", "AMms/r", "AM/mr"},
	{"DELETE nodes/{node}/vifs/{vif}", "AMms/", "AM/m"},
	{"GET nodes/{node}/bios", "rs/", "r/"},
	{"GET nodes/{node}/firmware", "rs/", "r/"},
	{"GET nodes/{node}/history", "Amrs/", "/"},
	{"GET nodes/{node}/inventory", "Amr/", "/"},
	{"GET nodes/{node}/children", "r/", "/"},
	{"GET nodes/{node}/ports", "rs/", "r/"},
	{"GET nodes/{node}/portgroups", "r/", "r/"},
	{"GET nodes/{node}/volume/connectors", "rs/", "r/"},
	{"GET nodes/{node}/volume/targets", "rs/", "r/"},
	{"GET ports/{port}", "rs/", "r/"},
	{"POST ports", "AMs/m", "/AMm"},
	{"PATCH ports/{port}", "AMs/m", "/AMm"},
	{"DELETE ports/{port}", "AMs/m", "/AMm"},
	{"GET portgroups/{portgroup}", "r/", "r/"},
	{"GET portgroups/{portgroup}/ports", "rs/", "r/"},
	{"POST portgroups", "AMs/m", "/AMm"},
	{"PATCH portgroups/{portgroup}", "AM/m", "/AMm"},
	{"DELETE portgroups/{portgroup}", "AMs/m", "/AMm"},
	{"GET volume/connectors/{volume}", "r/", "r/"},
	{"POST volume/connectors", "AMs/", "/"},
	{"PATCH volume/connectors/{volume}", "AMm/", "/m"},
	{"DELETE volume/connectors/{volume}", "AMs/", "AM/"},
	{"GET volume/targets/{volume}", "r/", "r/"},
	{"POST volume/targets", "AMs/", "AM/"},
	{"PATCH volume/targets/{volume}", "ms/", "AM/m"},
	{"DELETE volume/targets/{volume}", "AMs/m", "AM/m"},
	// What belongs to the system is for nobody of a project.
	{"GET drivers", "/rs", "/r"},
	{"GET drivers/{driver}/vendor_passthru/methods", "/rs", "/r"},
	{"GET chassis", "/rs", "/r"},
	{"POST chassis", "/As", "/A"},
	{"GET conductors", "/r", "/r"},
	{"GET deploy_templates", "/rs", "/r"},
	{"POST deploy_templates", "/As", "/A"},
	{"GET shards", "/r", "/r"},
}

// TestProjectsMayWhatIronicLetsThem asks as each of the matrix: who may not is refused, and
// hears 403 where the node is no secret to them. Who may is asked for the rules, and where
// nothing changes by it also for the answer.
func TestProjectsMayWhatIronicLetsThem(t *testing.T) {
	b := newGuarded(t)
	admin := "system " + adminRoles
	b.wantAs(201, admin, "POST", "/v1/volume/connectors", `{"uuid":"`+connectorID+`","node_uuid":"`+nodeID+`","type":"ip","connector_id":"c"}`)
	b.wantAs(201, admin, "POST", "/v1/volume/targets", `{"uuid":"`+targetID+`","node_uuid":"`+nodeID+`","volume_type":"iscsi","boot_index":0,"volume_id":"v"}`)
	routes := map[string]*Route{}
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			routes[resource.Routes[i].Method+" "+resource.Routes[i].Path] = &resource.Routes[i]
		}
	}
	rules, of := policy.Default(""), &policy.Target{NodeOwner: ownerProject, NodeLessee: lesseeProject}
	before := b.snapshot()
	for _, row := range matrix {
		route := routes[row.route]
		if route == nil {
			t.Fatalf("there is no route %s", row.route)
		}
		path, body := route.sample()
		for kind, id := range map[string]string{"connectors": connectorID, "targets": targetID} {
			path = strings.Replace(path, "/"+kind+"/"+nobodyID, "/"+kind+"/"+id, 1)
		}
		for project, letters := range map[string]string{ownerProject: row.owner, lesseeProject: row.lessee} {
			may, mayNot, _ := strings.Cut(letters, "/")
			for _, letter := range may {
				view := rules.For(&auth.Caller{Project: project, Roles: strings.Split(rolesOf[letter], ",")})
				if !view.Allows(route.Policy, of) && (route.Own == "" || !view.Allows(route.Own, of)) {
					t.Errorf("%s: %c of %s may not", row.route, letter, project)
				}
				if route.Method == "GET" {
					if a := b.as(project+" "+rolesOf[letter], route.Method, path, body); a.StatusCode == 403 {
						t.Errorf("%s as %c of %s: status 403: %s", row.route, letter, project, a.body)
					}
				}
			}
			for _, letter := range mayNot {
				if a := b.as(project+" "+rolesOf[letter], route.Method, path, body); a.StatusCode != 403 {
					t.Errorf("%s as %c of %s: status %d, want 403: %s", row.route, letter, project, a.StatusCode, a.body)
				}
			}
		}
		for _, letter := range "As" { // of somebody else's project
			want := 404
			if subjectOf(route) == nil {
				want = 403
			}
			if a := b.as(foreignProject+" "+rolesOf[letter], route.Method, path, body); a.StatusCode != want {
				t.Errorf("%s as a foreign %c: status %d, want %d: %s", row.route, letter, a.StatusCode, want, a.body)
			}
		}
	}
	if b.snapshot() != before {
		t.Error("who was refused has changed something")
	}
}

// What projects may say of nodes when they allocate.
func TestProjectsAllocateWhatTheySee(t *testing.T) {
	b := newGuarded(t)
	b.wantAs(400, foreignProject+" "+adminRoles, "POST", "/v1/allocations", `{"resource_class":"x","node":"`+nodeID+`"}`)
	b.wantAs(400, foreignProject+" "+adminRoles, "POST", "/v1/allocations", `{"resource_class":"x","candidate_nodes":["`+nodeID+`"]}`)
	b.wantAs(201, foreignProject+" "+adminRoles, "POST", "/v1/allocations", `{"resource_class":"x"}`)
	b.wantAs(201, ownerProject+" "+memberRoles, "POST", "/v1/allocations", `{"name":"theirs","resource_class":"x","candidate_nodes":["`+nodeID+`"]}`)
	extra := `[{"op":"replace","path":"/extra","value":{"a":1}}]`
	b.wantAs(200, ownerProject+" "+memberRoles, "PATCH", "/v1/allocations/theirs", extra)
	b.wantAs(403, ownerProject+" reader", "PATCH", "/v1/allocations/theirs", extra)
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		body := ""
		if method == "PATCH" {
			body = extra
		}
		b.wantAs(404, foreignProject+" "+adminRoles, method, "/v1/allocations/theirs", body)
	}
	b.wantAs(403, ownerProject+" "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/parent_node","value":"`+nodeID+`"}]`)
	// A project's service may list, and may not read: its list is empty or forbidden.
	b.wantAs(403, ownerProject+" service", "GET", "/v1/allocations", "")
	b.wantAs(200, ownerProject+" service", "GET", "/v1/allocations?state=error&resource_class=y", "")
	b.wantAs(200, lesseeProject+" service", "GET", "/v1/allocations", "")
}

// ofSystem is who of the system may do what, and after a slash, who may not. Source: the tests
// of Ironic's rules for the system.
var ofSystem = []struct{ route, letters string }{
	{"POST nodes", "As/mr"}, {"GET nodes/{node}", "Amrs/"}, {"PATCH nodes/{node}", "Ams/r"}, {"DELETE nodes/{node}", "A/mrs"},
	{"GET nodes/{node}/validate", "Ams/r"}, {"PUT nodes/{node}/maintenance", "Am/r"}, {"DELETE nodes/{node}/maintenance", "Am/r"},
	{"PUT nodes/{node}/management/boot_device", "Am/r"}, {"GET nodes/{node}/management/boot_device", "Am/r"},
	{"GET nodes/{node}/management/boot_device/supported", "Am/r"}, {"PUT nodes/{node}/management/inject_nmi", "Am/r"},
	{"GET nodes/{node}/states", "Amr/"}, {"PUT nodes/{node}/states/power", "Am/r"}, {"PUT nodes/{node}/states/boot_mode", "Am/r"},
	{"PUT nodes/{node}/states/secure_boot", "Am/r"}, {"PUT nodes/{node}/states/provision", "Ams/r"}, {"PUT nodes/{node}/states/raid", "Am/r"},
	{"GET nodes/{node}/states/console", "Ams/r"}, {"PUT nodes/{node}/states/console", "Ams/r"},
	{"GET nodes/{node}/vendor_passthru/methods", "A/mr"}, {"GET nodes/{node}/vendor_passthru", "A/mr"}, {"POST nodes/{node}/vendor_passthru", "A/mr"},
	{"PUT nodes/{node}/vendor_passthru", "A/mr"}, {"DELETE nodes/{node}/vendor_passthru", "A/mr"},
	{"GET nodes/{node}/traits", "Amr/"}, {"PUT nodes/{node}/traits", "Am/r"}, {"PUT nodes/{node}/traits/{trait}", "Am/r"},
	{"DELETE nodes/{node}/traits/{trait}", "Am/r"}, {"GET nodes/{node}/vifs", "Amrs/"}, {"POST nodes/{node}/vifs", "Ams/r"},
	{"DELETE nodes/{node}/vifs/{vif}", "Ams/r"}, {"GET portgroups", "Amr/"}, {"POST portgroups", "A/mr"}, {"GET portgroups/{portgroup}", "Amr/"},
	{"PATCH portgroups/{portgroup}", "Am/r"}, {"DELETE portgroups/{portgroup}", "A/mr"}, {"GET nodes/{node}/portgroups", "Amrs/"},
	{"GET ports", "Amrs/"}, {"POST ports", "A/mr"}, {"GET ports/{port}", "Amr/"}, {"PATCH ports/{port}", "Am/r"}, {"DELETE ports/{port}", "A/mr"},
	{"GET nodes/{node}/ports", "Amr/"}, {"GET portgroups/{portgroup}/ports", "Amr/"}, {"GET volume", "Amrs/"},
	{"GET volume/connectors", "Amrs/"}, {"POST volume/connectors", "Ams/r"}, {"GET volume/connectors/{volume}", "Amr/"},
	{"PATCH volume/connectors/{volume}", "Ams/r"}, {"DELETE volume/connectors/{volume}", "Ams/r"},
	{"GET volume/targets", "Amrs/"}, {"POST volume/targets", "Ams/r"}, {"GET volume/targets/{volume}", "Amrs/"},
	{"PATCH volume/targets/{volume}", "Ams/r"}, {"DELETE volume/targets/{volume}", "Ams/r"},
	{"GET drivers", "Amr/"}, {"GET drivers/{driver}", "Amr/"}, {"GET drivers/{driver}/properties", "Amr/"},
	{"GET drivers/{driver}/raid/logical_disk_properties", "Amr/"}, {"GET drivers/{driver}/vendor_passthru/methods", "A/mr"},
	{"GET drivers/{driver}/vendor_passthru", "A/mr"}, {"POST drivers/{driver}/vendor_passthru", "A/mr"},
	{"PUT drivers/{driver}/vendor_passthru", "A/mr"}, {"DELETE drivers/{driver}/vendor_passthru", "A/mr"},
	{"GET nodes/{node}/bios", "Amr/"}, {"GET nodes/{node}/bios/{setting}", "Amr/"}, {"GET nodes/{node}/firmware", "Amr/"},
	{"GET conductors", "Amr/"}, {"GET conductors/{hostname}", "Amr/"},
	{"POST allocations", "Am/r"}, {"GET allocations", "Amr/"}, {"GET allocations/{allocation}", "Amr/"}, {"PATCH allocations/{allocation}", "Am/r"},
	{"DELETE allocations/{allocation}", "Am/r"}, {"GET nodes/{node}/allocation", "Amr/"},
	{"POST deploy_templates", "A/mr"}, {"GET deploy_templates", "Amr/"}, {"GET deploy_templates/{template}", "Amr/"},
	{"PATCH deploy_templates/{template}", "A/mr"}, {"DELETE deploy_templates/{template}", "A/mr"},
	{"POST chassis", "A/mr"}, {"GET chassis", "Amrs/"}, {"GET chassis/detail", "Amr/"}, {"GET chassis/{chassis}", "Amr/"},
	{"PATCH chassis/{chassis}", "Am/r"}, {"DELETE chassis/{chassis}", "A/mrs"},
	{"GET nodes/{node}/history", "Amrs/"}, {"GET nodes/{node}/history/{event}", "Amrs/"}, {"GET nodes/{node}/inventory", "Ar/"}, {"GET shards", "r/"},
}

func TestTheSystemMayWhatIronicLetsIt(t *testing.T) {
	b := newGuarded(t)
	admin := "system " + adminRoles
	for path, body := range map[string]string{
		"/v1/volume/connectors": `"node_uuid":"` + nodeID + `","type":"ip","connector_id":"c"`,
		"/v1/volume/targets":    `"node_uuid":"` + nodeID + `","volume_type":"iscsi","boot_index":0,"volume_id":"v"`,
		"/v1/allocations":       `"resource_class":"x"`,
	} { // what samples of paths name is there
		b.wantAs(201, admin, "POST", path, `{"uuid":"`+nobodyID+`",`+body+`}`)
	}
	routes := map[string]*Route{}
	for _, resource := range b.server.resources {
		for i := range resource.Routes {
			routes[resource.Routes[i].Method+" "+resource.Routes[i].Path] = &resource.Routes[i]
		}
	}
	rules, before := policy.Default(""), b.snapshot()
	for _, row := range ofSystem {
		route := routes[row.route]
		if route == nil {
			t.Errorf("there is no route %s", row.route)
			continue
		}
		path, body := route.sample()
		may, mayNot, _ := strings.Cut(row.letters, "/")
		for _, letter := range may {
			view := rules.For(&auth.Caller{System: true, Roles: strings.Split(rolesOf[letter], ",")})
			if !view.Allows(route.Policy, nobodys) {
				t.Errorf("%s: %c of the system may not", row.route, letter)
			}
			if route.Method == "GET" {
				if a := b.as("system "+rolesOf[letter], route.Method, path, body); a.StatusCode == 403 {
					t.Errorf("%s as %c of the system: status 403: %s", row.route, letter, a.body)
				}
			}
		}
		for _, letter := range mayNot {
			if a := b.as("system "+rolesOf[letter], route.Method, path, body); a.StatusCode != 403 {
				t.Errorf("%s as %c of the system: status %d, want 403: %s", row.route, letter, a.StatusCode, a.body)
			}
		}
	}
	if b.snapshot() != before {
		t.Error("who was refused has changed something")
	}
}
