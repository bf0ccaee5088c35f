package api

import (
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// TestWhatIsLookedAtFirst holds the order in which a provision request is looked at: the
// state of the node, then what the version has, then the arguments (as in Ironic 39).
func TestWhatIsLookedAtFirst(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const path, nobodyID = "/v1/nodes/n1/states/provision", "33333333-2222-4333-8444-555555555555"
	for _, in := range []struct {
		state, target provision.State
		tests         []refusal
	}{
		{provision.Enroll, provision.NoState, []refusal{
			{"PUT", path, "1.115", `{"target":"clean"}`, 400, `in state "enroll"`},
			{"PUT", path, "1.84", `{"target":"unhold"}`, 400, `in state "enroll"`},
			{"PUT", path, "1.86", `{"target":"service"}`, 400, `in state "enroll"`},
			{"PUT", path, "1.37", `{"target":"rescue"}`, 406, "1.38"},
			{"PUT", path, "1.115", `{"target":"service","runbook":"CUSTOM_NONE"}`, 400, `in state "enroll"`},
		}},
		{provision.Manageable, provision.NoState, []refusal{
			{"PUT", path, "1.115", `{"target":"clean","clean_steps":[]}`, 400, `"clean_steps" is required`},
			{"PUT", path, "1.115", `{"target":"clean"}`, 400, "clean_steps"},
			{"PUT", path, "1.115", `{"target":"clean","clean_steps":[{"step":"x"}]}`, 400, "interface"},
			{"PUT", path, "1.69", `{"target":"clean","clean_steps":[{}],"disable_ramdisk":true}`, 406, "1.70"},
			{"PUT", path, "1.115", `{"target":"clean","clean_steps":[{"interface":"deploy","step":"x","execute_on_child_nodes":true,"limit_child_node_execution":["` + nobodyID + `"]}]}`, 404, "Node " + nobodyID},
		}},
		{provision.Available, provision.NoState, []refusal{
			{"PUT", path, "1.115", `{"target":"active","configdrive":"%%"}`, 400, "nor a URL, nor a base64 string"},
			{"PUT", path, "1.55", `{"target":"active","configdrive":{"meta_data":{}}}`, 400, "1.56"},
			{"PUT", path, "1.115", `{"target":"active","configdrive":{"odd":{}}}`, 400, "odd"},
		}},
		{provision.Active, provision.NoState, []refusal{
			{"PUT", path, "1.115", `{"target":"rescue"}`, 400, "rescue_password"},
			{"PUT", path, "1.86", `{"target":"service","service_steps":[{"interface":"deploy","step":"x"}]}`, 406, "1.87"},
			{"PUT", path, "1.115", `{"target":"service","service_steps":[{"interface":"network","step":"x"}]}`, 400, "'network' is not one of ['vendor'"},
			{"PUT", path, "1.115", `{"target":"service","service_steps":[{"interface":"deploy","step":"x","order":-1}]}`, 400, "-1 is less than the minimum of 0"},
			{"PUT", path, "1.115", `{"target":"service","service_steps":[{"interface":"deploy","step":"x","order":"a"}]}`, 400, "'a' does not match '^[0-9]+$'"},
			{"PUT", path, "1.107", `{"target":"service","service_steps":[{}],"disable_ramdisk":true}`, 406, "1.108"},
			{"PUT", path, "1.115", `{"target":"rebuild","runbook":"CUSTOM_NONE"}`, 404, "Runbook CUSTOM_NONE"},
		}},
		{provision.ServiceHold, provision.Active, []refusal{
			{"PUT", path, "1.84", `{"target":"unhold"}`, 406, "1.85"},
		}},
	} {
		b.move("n1", in.state, in.target, nil)
		b.refuse([]string{"/v1/nodes/n1"}, in.tests...)
	}
}

// TestInterfacesBesideAnInspection: while an inspection waits for its ramdisk, interfaces that it has no use for
// may be chosen.
func TestInterfacesBesideAnInspection(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const node = "/v1/nodes/n1"
	change := func(kind, to string) string {
		return `[{"op":"replace","path":"/` + kind + `_interface","value":"` + to + `"}]`
	}
	b.move("n1", provision.Manageable, provision.NoState, nil)
	b.want(202, "PUT", node+"/states/provision", "1.115", `{"target":"inspect"}`)
	b.refuse([]string{node}, refusal{"PATCH", node, "1.115", change("raid", "no-raid"), 409, ""})
	b.observe("n1", func(n *store.Node) {
		n.ObservedState, n.ObservedTarget, n.ObservedGeneration, n.ObservedOwner = provision.InspectWait, provision.Manageable, n.Generation, "rack-1"
	})
	if got := b.want(200, "PATCH", node, "1.115", change("raid", "no-raid")).object(t)["raid_interface"]; got != "no-raid" {
		t.Errorf("raid_interface %v", got)
	}
	b.refuse([]string{node}, refusal{"PATCH", node, "1.115", change("inspect", "no-inspect"), 409, "is locked by host"},
		refusal{"PATCH", node, "1.115", `[{"op":"replace","path":"/conductor_group","value":"west"}]`, 400, "No valid host"}) // nobody serves it
}

// TestNobodyHoldsWhatWaits holds that a node whose work waits shows no reservation, refuses
// what its state does not have as a node at rest would, and takes what one at rest would
// take of its machine: one thing at a time.
func TestNobodyHoldsWhatWaits(t *testing.T) {
	b := newBench(t)
	b.addNode()
	const node = "/v1/nodes/n1"
	b.move("n1", provision.Active, provision.NoState, nil)
	b.want(202, "PUT", node+"/states/provision", "1.115", `{"target":"service","service_steps":[{"interface":"power","step":"hold"}]}`)
	if holder := b.want(200, "GET", node, "1.115", "").object(t)["reservation"]; holder != "rack-1" {
		t.Errorf("reservation %v while it works, want rack-1", holder)
	}
	b.refuse([]string{node},
		refusal{"PUT", node + "/states/provision", "1.115", `{"target":"manage"}`, 409, "is locked by host"},
		refusal{"PUT", node + "/traits", "1.115", `{"traits":["CUSTOM_A"]}`, 409, "is locked by host"})
	b.observe("n1", func(n *store.Node) {
		n.ObservedState, n.ObservedTarget, n.ObservedGeneration, n.ObservedOwner = provision.ServiceHold, provision.Active, n.Generation, "rack-1"
	})
	if holder := b.want(200, "GET", node, "1.115", "").object(t)["reservation"]; holder != nil {
		t.Errorf("reservation %v in a hold, want none", holder)
	}
	b.refuse([]string{node},
		refusal{"PUT", node + "/states/provision", "1.115", `{"target":"manage"}`, 400, `in state "service hold"`},
		refusal{"PUT", node + "/states/provision", "1.115", `{"target":"dance"}`, 400, `in state "service hold"`})
	b.want(204, "PUT", node+"/traits", "1.115", `{"traits":["CUSTOM_A"]}`)
	b.want(204, "PUT", node+"/management/boot_device", "1.115", `{"boot_device":"pxe"}`)
	b.want(202, "PUT", node+"/states/power", "1.115", `{"target":"power on"}`)
	n := b.want(200, "GET", node, "1.115", "").object(t)
	if n["target_power_state"] != "power on" || n["provision_state"] != "service hold" || n["target_provision_state"] != "active" || n["reservation"] != nil {
		t.Errorf("after a power request in a hold: %v", n)
	}
	b.refuse([]string{node},
		refusal{"PUT", node + "/states/power", "1.115", `{"target":"power off"}`, 409, "is locked by host"},
		refusal{"PUT", node + "/states/provision", "1.115", `{"target":"unhold"}`, 409, "is locked by host"})
}

// Words of versions that came later are refused before, but undeploy, which Ironic's API
// takes at any.
func TestUndeployAtAnyVersion(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Active, provision.NoState, nil)
	b.want(406, "PUT", "/v1/nodes/n1/states/provision", "1.72", `{"target":"deploy"}`)
	b.want(202, "PUT", "/v1/nodes/n1/states/provision", "1.11", `{"target":"undeploy"}`)
}
