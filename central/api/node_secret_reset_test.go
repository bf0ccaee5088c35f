package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

const (
	iloInfo = `{"ilo_address":"https://bmc.example","ilo_username":"root","ilo_password":"open sesame"}`
	// mine is the password that a tenant would give the BMC: who has chosen it knows it.
	mine = "of-the-tenant"
	// resetStep gives the account of the BMC that password.
	resetStep = `{"interface":"management","step":"reset_ilo_credential","args":{"ilo_password":"` + mine + `"}`
)

func newILO(t *testing.T, state provision.State) *bench {
	b := newGuarded(t)
	b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/driver_info","value":`+iloInfo+`}]`)
	b.move("n1", state, "", nil)
	return b
}

// The password of a node's BMC is the operator's. Who may not see it, may not give the BMC one of their own choice either. Steps of a
// deploy, a cleaning or a service are refused, by a runbook of theirs and on a child node too.
func TestTenantsGiveNoBMCAPassword(t *testing.T) {
	t.Parallel()
	owner, lessee, operator := ownerProject+" "+adminRoles, lesseeProject+" "+adminRoles, "system "+adminRoles
	for _, c := range []struct {
		target, list string
		state        provision.State
	}{
		{"active", `"deploy_steps":[` + resetStep + `,"priority":5}]`, provision.Available},
		{"rebuild", `"deploy_steps":[` + resetStep + `,"priority":5}]`, provision.Active},
		{"clean", `"clean_steps":[` + resetStep + `}]`, provision.Manageable},
		{"service", `"service_steps":[` + resetStep + `}]`, provision.Active},
	} {
		order := `{"target":"` + c.target + `",` + c.list + `}`
		for name, who := range map[string]string{"owner": owner, "lessee": lessee, "lessee's member": lesseeProject + " " + memberRoles} {
			b := newILO(t, c.state)
			a := b.as(who, "PUT", "/v1/nodes/n1/states/provision", order)
			if a.StatusCode != 403 || strings.Contains(a.body, mine) {
				t.Errorf("%s by the %s: %d %s", c.target, name, a.StatusCode, a.body)
			}
		}
		b := newILO(t, c.state)
		b.wantAs(202, operator, "PUT", "/v1/nodes/n1/states/provision", order)
	}

	b := newILO(t, provision.Manageable)
	b.wantAs(204, operator, "PUT", "/v1/nodes/n1/traits", `{"traits":["CUSTOM_MINE"]}`)
	b.wantAs(201, ownerProject+" manager,member,reader", "POST", "/v1/runbooks", `{"name":"CUSTOM_MINE","owner":"`+ownerProject+`","steps":[`+resetStep+`,"order":1}]}`)
	b.wantAs(204, ownerProject+" manager,member,reader", "PUT", "/v1/runbooks/CUSTOM_MINE/traits", `{"traits":["CUSTOM_MINE"]}`)
	b.wantAs(403, ownerProject+" admin,manager,member,reader", "PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","runbook":"CUSTOM_MINE"}`)
	b.wantAs(202, operator, "PUT", "/v1/nodes/n1/states/provision", `{"target":"clean","runbook":"CUSTOM_MINE"}`)

	b = newILO(t, provision.Manageable)
	const parent = "33333333-2222-4333-8444-555555555555"
	b.wantAs(201, operator, "POST", "/v1/nodes", `{"uuid":"`+parent+`","name":"n3","driver":"fake-hardware","owner":"`+ownerProject+`"}`)
	b.wantAs(200, operator, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/parent_node","value":"`+parent+`"}]`)
	b.move("n3", provision.Manageable, "", nil)
	onChild := `{"target":"clean","clean_steps":[` + resetStep + `,"execute_on_child_nodes":true}]}`
	b.wantAs(403, owner, "PUT", "/v1/nodes/n3/states/provision", onChild)
	b.wantAs(202, operator, "PUT", "/v1/nodes/n3/states/provision", onChild)
}

// What asks for another password in the next cleaning is as the step itself. Who brings the present password again knows it anyway.
func TestTenantsAskForNoPassword(t *testing.T) {
	owner := ownerProject + " " + adminRoles
	const field = "/driver_info/ilo_change_password"
	for name, c := range map[string]struct {
		who, body string
		status    int
	}{
		"the field":         {owner, `[{"op":"add","path":"` + field + `","value":"` + mine + `"}]`, 400},
		"with the mask":     {owner, `[{"op":"add","path":"` + field + `","value":"` + mine + `"},{"op":"replace","path":"/driver_info/ilo_password","value":"******"}]`, 400},
		"all":               {owner, `[{"op":"replace","path":"/driver_info","value":{"ilo_address":"https://bmc.example","ilo_username":"root","ilo_password":"******","ilo_change_password":"` + mine + `"}}]`, 400},
		"with the password": {owner, `[{"op":"add","path":"` + field + `","value":"` + mine + `"},{"op":"replace","path":"/driver_info/ilo_password","value":"open sesame"}]`, 200},
		"an operator":       {"system " + adminRoles, `[{"op":"add","path":"` + field + `","value":"` + mine + `"}]`, 200},
	} {
		b := newILO(t, provision.Manageable)
		if a := b.as(c.who, "PATCH", "/v1/nodes/n1", c.body); a.StatusCode != c.status || strings.Contains(a.body, mine) {
			t.Errorf("%s: %d %.200s", name, a.StatusCode, a.body)
		}
	}
	for field, want := range map[string]string{"ilo_change_password": "ilo_password", "ilo_password": "", "change_password": "", "ilo_change_address": ""} {
		if got := seal.AsksFor(field); got != want {
			t.Errorf("%s asks for %q, want %q", field, got, want)
		}
	}
}
