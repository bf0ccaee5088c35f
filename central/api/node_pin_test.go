package api

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
)

// pinnedSince is what racks are told of the bench's node.
func (b *bench) pinnedSince() int64 {
	b.t.Helper()
	n, err := b.store.Node(b.t.Context(), nodeID)
	if err != nil {
		b.t.Fatal(err)
	}
	text, there := n.DriverInternalInfo[node.PinnedSinceKey].(string)
	if !there {
		return 0
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.t.Fatal(err)
	}
	return since
}

// A PATCH that asks for the pin has racks forget what they have pinned, also if the node asked for it before. No other has.
func TestAskingForThePinAgainForgetsIt(t *testing.T) {
	b := newBMC(t)
	who := "system " + adminRoles
	var last int64
	for _, c := range []struct {
		name, body string
		anew       bool
	}{
		{"another field", `[{"op":"replace","path":"/driver_info/deploy_kernel","value":"http://k2"}]`, false},
		{"authorities", `[{"op":"add","path":"/driver_info/redfish_verify_ca","value":true}]`, false},
		{"the pin", `[{"op":"add","path":"/driver_info/redfish_verify_ca","value":"pin"}]`, true},
		{"another field after it", `[{"op":"replace","path":"/driver_info/deploy_kernel","value":"http://k3"}]`, false},
		{"the pin again", `[{"op":"replace","path":"/driver_info/redfish_verify_ca","value":"pin"}]`, true},
		{"in other letters", `[{"op":"replace","path":"/driver_info/redfish_verify_ca","value":" Pin "}]`, true},
		{"all of it", `[{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://bmc.example","redfish_verify_ca":"pin"}}]`, true},
	} {
		b.wantAs(200, who, "PATCH", "/v1/nodes/n1", c.body)
		since := b.pinnedSince()
		if (since > last) != c.anew || since < last {
			t.Errorf("%s: pinned since %d, before %d", c.name, since, last)
		}
		last = since
	}
}

// The machine that answers after that is sent the password: a caller who may not say where it goes may not have the pin forgotten.
func TestThePinIsForgottenForCallersWhoKnowThePassword(t *testing.T) {
	b := newBMC(t)
	b.wantAs(200, "system "+adminRoles, "PATCH", "/v1/nodes/n1", `[{"op":"add","path":"/driver_info/redfish_verify_ca","value":"pin"}]`)
	before := b.pinnedSince()
	owner := ownerProject + " " + adminRoles
	const again = `{"op":"replace","path":"/driver_info/redfish_verify_ca","value":"pin"}`
	for _, forgets := range []string{
		again,
		`{"op":"replace","path":"/driver_info/redfish_verify_ca","value":" PIN"}`,
		`{"op":"add","path":"/driver_info/ilo_verify_ca","value":"pin"}`, // of another driver: what is forgotten is of all
		`{"op":"replace","path":"/driver_info","value":{"redfish_address":"https://bmc.example","redfish_username":"root","redfish_password":"******","redfish_verify_ca":"pin"}}`,
	} {
		if a := b.wantAs(400, owner, "PATCH", "/v1/nodes/n1", "["+forgets+"]"); !strings.Contains(a.body, "redfish_password") {
			t.Errorf("the refusal does not say what to send: %s", a.body)
		}
	}
	if b.pinnedSince() != before {
		t.Error("a refused request had racks forget the pin")
	}
	b.wantAs(200, owner, "PATCH", "/v1/nodes/n1", `[{"op":"replace","path":"/driver_info/redfish_password","value":"open sesame"},`+again+"]")
	if b.pinnedSince() <= before {
		t.Error("the pin stays")
	}
}

// A node that is enrolled again under its UUID is not held to the key of the BMC that the one before it had.
func TestANodeMadeAgainPinsAnew(t *testing.T) {
	b := newBench(t)
	const pinned = `{"uuid":"` + nodeID + `","name":"n1","driver":"fake-hardware","driver_info":{"redfish_verify_ca":"pin"}}`
	b.want(201, "POST", "/v1/nodes", "1.115", pinned)
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/driver_info/redfish_verify_ca","value":"pin"}]`)
	before := b.pinnedSince()
	if before == 0 {
		t.Fatal("the pin was asked for, and no rack is told")
	}
	b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
	b.want(201, "POST", "/v1/nodes", "1.115", pinned)
	since := b.pinnedSince()
	if since <= before {
		t.Errorf("pinned since %d, and the node before it since %d", since, before)
	}
	b.want(200, "PATCH", "/v1/nodes/n1", "1.115", `[{"op":"replace","path":"/driver_info/redfish_verify_ca","value":"pin"}]`)
	if again := b.pinnedSince(); again <= since {
		t.Errorf("asked for again: pinned since %d, before %d", again, since)
	}
}
