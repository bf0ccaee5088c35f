package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/protocol/seal"
)

// redfishInfo is the driver_info of a node whose BMC has a password.
const redfishInfo = `{"redfish_address":"https://bmc.example","redfish_username":"root","redfish_password":"open sesame","deploy_kernel":"http://k"}`

// newBMC is a guarded bench whose node of two projects has a BMC with a password.
func newBMC(t *testing.T) *bench {
	b := newGuarded(t)
	b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/driver_info","value":`+redfishInfo+`}]`)
	return b
}

// goesTo is where the rack would send the node's stored password, and which one; both are empty
// where none is stored.
func (b *bench) goesTo() (address, password string) {
	b.t.Helper()
	n, err := b.store.Node(b.t.Context(), nodeID)
	if err != nil {
		b.t.Fatal(err)
	}
	open := opened(b.server.Key, seal.Label{Kind: seal.DriverInfo, Of: n.UUID}, n.DriverInfo)
	if open == nil {
		b.t.Fatalf("the node's driver_info does not open: %v", n.DriverInfo)
	}
	if password, _ = open["redfish_password"].(string); password != "" {
		address, _ = open["redfish_address"].(string)
	}
	return address, password
}

// The stored password of a BMC is not sent to a place that is named by a caller who does not know it.
func TestAStoredPasswordStaysWhereItWas(t *testing.T) {
	owner := ownerProject + " " + adminRoles
	const thief = "https://thief.example"
	for name, body := range map[string]string{
		"address":            `[{"op":"replace","path":"/driver_info/redfish_address","value":"` + thief + `"}]`,
		"address taken away": `[{"op":"remove","path":"/driver_info/redfish_address"}]`,
		"port":               `[{"op":"replace","path":"/driver_info/redfish_address","value":"https://bmc.example:8443"}]`,
		"protocol":           `[{"op":"replace","path":"/driver_info/redfish_address","value":"http://bmc.example"}]`,
		"certificate":        `[{"op":"add","path":"/driver_info/redfish_verify_ca","value":false}]`,
		"kind of login":      `[{"op":"add","path":"/driver_info/redfish_auth_type","value":"basic"}]`,
		"system":             `[{"op":"add","path":"/driver_info/redfish_system_id","value":"/redfish/v1/Systems/2"}]`,
		"a field to come":    `[{"op":"add","path":"/driver_info/redfish_proxy","value":"` + thief + `"}]`,
		"all, with the mask": `[{"op":"replace","path":"/driver_info","value":{"redfish_address":"` + thief + `","redfish_username":"root","redfish_password":"******"}}]`,
		"with the mask":      `[{"op":"replace","path":"/driver_info/redfish_address","value":"` + thief + `"},{"op":"replace","path":"/driver_info/redfish_password","value":"******"}]`,
		"with the driver":    `[{"op":"replace","path":"/driver","value":"redfish"},{"op":"replace","path":"/driver_info/redfish_address","value":"` + thief + `"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			path := "/v1/nodes/n1"
			if name == "with the driver" {
				path += "?reset_interfaces=true"
			}
			a := b.wantAs(400, owner, "PATCH", path, body)
			if !strings.Contains(a.body, "redfish_password") || strings.Contains(a.body, "open sesame") {
				t.Errorf("the refusal does not say what to send: %s", a.body)
			}
			if to, password := b.goesTo(); to != "https://bmc.example" || password != "open sesame" {
				t.Errorf("the rack would send %q to %q", password, to)
			}
		})
	}
}

// Who brings the password, or lets go of the stored one, may name any place; and fields that decide
// nothing about it are free.
func TestOwnersChangeTheirBMCs(t *testing.T) {
	for name, c := range map[string]struct{ body, address, password string }{
		"with the password": {`[{"op":"replace","path":"/driver_info/redfish_address","value":"https://new"},{"op":"replace","path":"/driver_info/redfish_password","value":"other"}]`, "https://new", "other"},
		"with the same one": {`[{"op":"replace","path":"/driver_info/redfish_address","value":"https://new"},{"op":"replace","path":"/driver_info/redfish_password","value":"open sesame"}]`, "https://new", "open sesame"},
		"without it":        {`[{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://new"}}]`, "", ""},
		"another field":     {`[{"op":"replace","path":"/driver_info/deploy_kernel","value":"http://k2"}]`, "https://bmc.example", "open sesame"},
		"the password":      {`[{"op":"replace","path":"/driver_info/redfish_password","value":"new"}]`, "https://bmc.example", "new"},
		"all as shown":      {`[{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://bmc.example","redfish_username":"root","redfish_password":"******"}}]`, "https://bmc.example", "open sesame"},
		"the driver":        {`[{"op":"replace","path":"/driver","value":"redfish"}]`, "https://bmc.example", "open sesame"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			path := "/v1/nodes/n1"
			if name == "the driver" {
				path += "?reset_interfaces=true"
			}
			b.wantAs(200, ownerProject+" "+adminRoles, "PATCH", path, c.body)
			if to, password := b.goesTo(); to != c.address || password != c.password {
				t.Errorf("the rack would send %q to %q, want %q to %q", password, to, c.password, c.address)
			}
		})
	}
}

// Administrators' clients change the address alone, as with Ironic; the policy says who is one.
func TestAdministratorsMoveABMC(t *testing.T) {
	const move = `[{"op":"replace","path":"/driver_info/redfish_address","value":"https://new"}]`
	for who, status := range map[string]int{"system " + adminRoles: 200, "system service": 200, "system " + memberRoles: 400, ownerProject + " " + memberRoles: 400} {
		b := newBMC(t)
		b.wantAs(status, who, "PATCH", "/v1/nodes/n1", move)
	}
	b := newBMC(t)
	rules, err := policy.Default("").With([]byte(`ironyard:node:redirect_secrets: role:member and project_id:%(node.owner)s`))
	if err != nil {
		t.Fatal(err)
	}
	b.server.Policy = func() *policy.Rules { return rules }
	b.wantAs(200, ownerProject+" "+memberRoles, "PATCH", "/v1/nodes/n1", move)
	if rules, err = policy.Default("").With([]byte(`show_password: role:keeper`)); err != nil {
		t.Fatal(err)
	}
	b.wantAs(200, ownerProject+" "+memberRoles+",keeper", "PATCH", "/v1/nodes/n1", strings.Replace(move, "new", "newer", 1)) // sees it anyway
}

// A node that is made again under the same UUID has nothing of what the one before it stored.
func TestANodeMadeAgainHasNoStoredPassword(t *testing.T) {
	b := newBMC(t)
	n, err := b.store.Node(t.Context(), nodeID)
	if err != nil {
		t.Fatal(err)
	}
	sealed, _ := n.DriverInfo["redfish_password"].(string)
	owner := ownerProject + " " + adminRoles
	b.wantAs(204, owner, "DELETE", "/v1/nodes/n1", "")
	for _, password := range []string{hidden, sealed} {
		if !seal.Sealed(sealed) {
			t.Fatalf("the password is stored as %q", sealed)
		}
		b.wantAs(400, owner, "POST", "/v1/nodes", `{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware","driver_info":{"redfish_address":"https://thief","redfish_password":"`+password+`"}}`)
	}
}

// The stored secret of an instance's image is not sent to a server that is named by a caller who does not know it.
func TestAnImagesSecretStaysWhereItWas(t *testing.T) {
	owner := ownerProject + " " + adminRoles
	const image = `"image_source":"oci://registry.example/os:1","root_gb":"10"`
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"another server":    {`[{"op":"replace","path":"/instance_info/image_source","value":"oci://thief.example/os:1"}]`, 400},
		"its checksum file": {`[{"op":"add","path":"/instance_info/image_checksum","value":"https://thief.example/sums"}]`, 400},
		"with the mask":     {`[{"op":"replace","path":"/instance_info","value":{"image_source":"oci://thief.example/os:1","image_pull_secret":"******"}}]`, 400},
		"with the secret":   {`[{"op":"replace","path":"/instance_info","value":{"image_source":"oci://new.example/os:1","image_pull_secret":"open:sesame"}}]`, 200},
		"without it":        {`[{"op":"replace","path":"/instance_info","value":{"image_source":"oci://new.example/os:1"}}]`, 200},
		"another field":     {`[{"op":"replace","path":"/instance_info/root_gb","value":"20"}]`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := newGuarded(t)
			b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/instance_info","value":{`+image+`,"image_pull_secret":"open:sesame"}}]`)
			a := b.wantAs(c.status, owner, "PATCH", "/v1/nodes/n1", c.body)
			if strings.Contains(a.body, "sesame") || c.status == 400 && !strings.Contains(a.body, "instance_info/image_pull_secret") {
				t.Errorf("the answer: %s", a.body)
			}
		})
	}
}
