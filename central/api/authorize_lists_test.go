package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/policy"
)

// listed is how many things a list shows to each: the owner's project, which has two nodes, the
// lessee of one of them, and the system, which sees those of nobody besides. To strangers each
// is empty. Source: the tests of Ironic's rules for projects.
var listed = []struct {
	path, key             string
	owner, lessee, system int
}{
	{"nodes", "nodes", 2, 1, 3}, {"nodes/detail", "nodes", 2, 1, 3}, {"nodes?include_children=true", "nodes", 3, 1, 4},
	{"nodes?parent_node=" + ownedID, "nodes", 1, 0, 1},
	{"ports", "ports", 2, 1, 3}, {"ports/detail", "ports", 2, 1, 3}, {"portgroups", "portgroups", 2, 1, 3}, {"portgroups/detail", "portgroups", 2, 1, 3},
	{"volume/connectors", "connectors", 2, 1, 3}, {"volume/targets", "targets", 2, 1, 3},
	{"allocations", "allocations", 1, 1, 3}, {"runbooks", "runbooks", 1, 1, 3},
}

const ownedID = "55555555-2222-4333-8444-555555555555" // a node of the owner that is lent to nobody

// newListed is a guarded bench in which the nodes have one of everything, and each project an
// allocation and a runbook.
func newListed(t *testing.T) *bench {
	b := newGuarded(t)
	admin := "system " + adminRoles
	make := func(path, body string) { b.wantAs(201, admin, "POST", "/v1/"+path, body) }
	make("nodes", `{"uuid":"`+ownedID+`","driver":"fake-hardware","owner":"`+ownerProject+`"}`)
	make("nodes", `{"driver":"fake-hardware","owner":"`+ownerProject+`","parent_node":"`+ownedID+`"}`)
	make("ports", `{"node_uuid":"`+ownedID+`","address":"AA:BB:CC:DD:EE:03"}`)
	make("portgroups", `{"node_uuid":"`+ownedID+`"}`)
	make("portgroups", `{"node_uuid":"`+elsewhere+`"}`)
	for i, node := range []string{nodeID, ownedID, elsewhere} {
		make("volume/connectors", `{"node_uuid":"`+node+`","type":"ip","connector_id":"c`+strings.Repeat("x", i)+`"}`)
		make("volume/targets", `{"node_uuid":"`+node+`","volume_type":"iscsi","boot_index":0,"volume_id":"v"}`)
	}
	for i, project := range []string{ownerProject, lesseeProject, ""} {
		who, name := admin, "CUSTOM_"+strings.Repeat("X", i+1)
		if project != "" {
			who = project + " " + adminRoles
		}
		b.wantAs(201, who, "POST", "/v1/allocations", `{"resource_class":"x"}`)
		b.wantAs(201, who, "POST", "/v1/runbooks", `{"name":"`+name+`","steps":[{"interface":"bios","step":"factory_reset","args":{},"order":1}]}`)
	}
	return b
}

func TestListsShowProjectsWhatIsTheirs(t *testing.T) {
	b := newListed(t)
	for _, row := range listed {
		for who, want := range map[string]int{
			ownerProject + " reader": row.owner, ownerProject + " " + adminRoles: row.owner, lesseeProject + " reader": row.lessee,
			foreignProject + " " + adminRoles: 0, "system reader": row.system, "system service": row.system,
		} {
			if got := len(b.wantAs(200, who, "GET", "/v1/"+row.path, "").object(t)[row.key].([]any)); got != want {
				t.Errorf("%s as %s: %d, want %d", row.path, who, got, want)
			}
		}
	}
}

// What is below something that a caller may not read is not found, before it is said that lists are not theirs.
func TestListsBelowWhatIsHiddenAreNotFound(t *testing.T) {
	b := newListed(t)
	for _, path := range []string{"ports", "ports/detail", "portgroups", "volume/connectors", "volume/targets"} {
		for _, who := range []string{"system none", foreignProject + " none", foreignProject + " " + adminRoles} {
			b.wantAs(404, who, "GET", "/v1/nodes/"+nodeID+"/"+path, "")
		}
	}
	b.wantAs(404, "system none", "GET", "/v1/portgroups/"+ownGroup+"/ports", "")
	b.wantAs(403, "system none", "GET", "/v1/ports", "")
	for _, path := range []string{"ports", "portgroups", "volume/targets"} { // which projects cannot ask for
		b.wantAs(400, ownerProject+" reader", "GET", "/v1/"+path+"?project="+foreignProject, "")
	}
	for _, path := range []string{"nodes?project=", "allocations?owner="} {
		b.wantAs(403, ownerProject+" reader", "GET", "/v1/"+path+foreignProject, "")
	}
}

// An operator's rule about who may list all need not be met by who may list.
func TestWhoMayListAllNeedNotBeAskedWhetherTheyMayList(t *testing.T) {
	b := newListed(t)
	rules, err := policy.Default("").With([]byte(`{"baremetal:node:list_all": "role:auditor", "baremetal:port:list_all": "role:auditor", "baremetal:node:get": "role:auditor"}`))
	if err != nil {
		t.Fatal(err)
	}
	b.server.Policy = func() *policy.Rules { return rules }
	for path, want := range map[string]int{"nodes": 3, "ports": 3, "nodes/" + nodeID + "/ports": 1} {
		key := path[strings.LastIndex(path, "/")+1:]
		if got := len(b.wantAs(200, foreignProject+" auditor", "GET", "/v1/"+path, "").object(t)[key].([]any)); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	b.wantAs(403, foreignProject+" auditor", "GET", "/v1/portgroups", "")
}

// The role "service" in the project that the operator names is one of the system; in another
// project, or where none is named, it is what it is in any project.
func TestTheServiceProjectActsOnTheSystem(t *testing.T) {
	b := newListed(t)
	of := func(project string) {
		rules := policy.Default(project)
		b.server.Policy = func() *policy.Rules { return rules }
	}
	const service = foreignProject + "/service service"
	connector := `{"node_uuid":"` + elsewhere + `","type":"ip","connector_id":"other"}`
	for _, elevated := range []string{"", "admin"} {
		of(elevated)
		for _, row := range listed {
			if row.key == "runbooks" {
				continue
			}
			a := b.as(service, "GET", "/v1/"+row.path, "")
			if a.StatusCode == 200 && len(a.object(t)[row.key].([]any)) != 0 {
				t.Errorf("with the service project %q, %s shows %s", elevated, row.path, a.body)
			}
		}
		b.wantAs(404, service, "GET", "/v1/nodes/"+elsewhere+"/portgroups", "")
		b.wantAs(404, service, "PATCH", "/v1/nodes/"+elsewhere, `[{"op":"replace","path":"/extra","value":{}}]`)
		b.wantAs(403, service, "POST", "/v1/volume/connectors", connector)
	}
	of("service")
	for _, row := range listed {
		if got := len(b.wantAs(200, service, "GET", "/v1/"+row.path, "").object(t)[row.key].([]any)); got != row.system {
			t.Errorf("to the service project %s shows %d, want %d", row.path, got, row.system)
		}
	}
	b.wantAs(200, service, "GET", "/v1/nodes/"+elsewhere+"/portgroups", "")
	b.wantAs(200, service, "GET", "/v1/nodes/"+elsewhere+"/validate", "")
	b.wantAs(200, service, "PATCH", "/v1/nodes/"+elsewhere, `[{"op":"replace","path":"/extra","value":{}}]`)
	b.wantAs(201, service, "POST", "/v1/volume/connectors", connector)
	b.wantAs(403, service, "DELETE", "/v1/nodes/"+elsewhere, "")
}
