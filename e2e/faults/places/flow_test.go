package places

import (
	"encoding/json"
	"strings"

	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	states "github.com/ironyard/ironyard/protocol/provision"
)

// flow is a verb in the state from which it is asked for.
type flow struct {
	name string
	// way are the requests that bring an enrolled node to where the flow begins.
	way []request
	ask request
	// end is where it ends.
	end string
	// breaks is what goes wrong on its machine, nil for nothing; the flow's error then has the words of fails.
	breaks func(*fault.Faults)
	fails  string
	// targets is how many iSCSI targets of the machine die in it.
	targets int
	// ephemeral is how often its disk is given an ephemeral partition, on the way and in the flow.
	ephemeral int
	// medium is the ramdisk's image, for machines that boot from one. Simulated ones load none, so that no agent calls.
	medium string
	// flags are of the rackd that begins the flow. secure: it has a certificate, too.
	flags  []string
	secure bool
	// interfaces are the node's besides the usual ones, by kind. volume: the node has one to boot from.
	interfaces map[string]string
	volume     bool
	// hardware is the node's hardware type where it is not redfish, and names what DHCP names where that is no script by HTTP.
	hardware string
	names    ipxe.Named
	// told: the node brings its ramdisk in an image of its own, which is told its boot on a second medium.
	told bool
	// instance are the fields of the instance; nil: an image of a disk.
	instance func(r *rig) map[string]any
	// firmware: its BMC needs a while to write firmware, and to start again.
	firmware bool
	// own are the steps whose places make test kills at too; nil: make chaos alone walks the flow.
	own []string
}

// ended reports whether n is as the flow leaves a node that nothing else has happened to.
func (f flow) ended(n node) bool {
	if n.ProvisionState != f.end {
		return false
	}
	if f.fails == "" {
		return n.LastError == nil && !n.Maintenance
	}
	return n.LastError != nil && strings.Contains(*n.LastError, f.fails)
}

// failures are the states that a failure of the flow leads to. An undeploy has two, for it cleans. A request for power leaves the node
// where it rests, and so does a rebuild that fails before the machine is touched.
func (f flow) failures() (list []states.State) {
	var ask struct{ Target string }
	_ = json.Unmarshal([]byte(f.ask.body), &ask)
	verb, ok := states.LookupVerb(ask.Target)
	if !ok || verb.Event == states.EventRebuild {
		list = append(list, states.State(f.end))
	}
	from := states.Enroll
	if len(f.way) > 0 {
		from = states.State(f.way[len(f.way)-1].rest)
	}
	begun, _ := states.Request(from, verb)
	cleans, _ := states.Next(begun.To, states.EventClean)
	for _, s := range []states.State{begun.To, cleans.To} {
		if failed, ok := states.Next(s, states.EventFail); ok {
			list = append(list, failed.To)
		}
	}
	return list
}

// request is one request of the API and the state in which the node rests after it. Without a path it patches the node.
type request struct {
	path string // below the node
	body string
	rest string
}

func provision(target, rest string) request {
	return request{"/states/provision", `{"target":"` + target + `"}`, rest}
}

var (
	manage  = provision("manage", "manageable")
	provide = provision("provide", "available")
	deploy  = provision("active", "active")
	rescue  = request{"/states/provision", `{"target":"rescue","rescue_password":"open sesame"}`, "rescue"}
)

const powerPath = "/states/power"

func power(target string) request {
	return request{powerPath, `{"target":"` + target + `"}`, "available"}
}

// flows are all verbs that begin work on a node that rests.
var flows = []flow{
	{name: "manage", ask: manage, end: "manageable"},
	{name: "inspect", way: []request{manage}, ask: provision("inspect", "manageable"), end: "manageable"},
	{name: "adopt", way: []request{manage}, ask: provision("adopt", "active"), end: "active"},
	{name: "clean", way: []request{manage}, ask: request{"/states/provision",
		`{"target":"clean","clean_steps":[{"interface":"raid","step":"delete_configuration"},{"interface":"deploy","step":"erase_devices"}]}`, "manageable"}, end: "manageable"},
	{name: "provide", way: []request{manage}, ask: provide, end: "available"},
	{name: "deploy", way: []request{manage, provide}, ask: deploy, end: "active"},
	{name: "rebuild", way: []request{manage, provide, deploy}, ask: provision("rebuild", "active"), end: "active"},
	{name: "delete", way: []request{manage, provide, deploy}, ask: provision("deleted", "available"), end: "available"},
	{name: "rescue", way: []request{manage, provide, deploy}, ask: rescue, end: "rescue"},
	{name: "unrescue", way: []request{manage, provide, deploy, rescue}, ask: provision("unrescue", "active"), end: "active"},
	{name: "service", way: []request{manage, provide, deploy}, ask: request{"/states/provision",
		`{"target":"service","service_steps":[{"interface":"firmware","step":"update","args":{"settings":[{"component":"bmc","url":"http://example.org/bmc-2.bin"}]}},{"interface":"power","step":"reboot"},{"interface":"power","step":"wait","args":{"seconds":0.3}}]}`, "active"}, end: "active"},
	{name: "deploy-steps", way: []request{manage, provide}, ask: request{"/states/provision",
		`{"target":"active","deploy_steps":[{"interface":"bios","step":"factory_reset","priority":70,"args":{}},{"interface":"deploy","step":"write_image","priority":0,"args":{}}]}`, "active"}, end: "active"},
	{name: "power", way: []request{manage, provide}, ask: power("power on"), end: "available"},
	{name: "reboot", way: []request{manage, provide}, ask: power("rebooting"), end: "available"},
}

// machineFlows are those that simulated machines take part in.
var machineFlows = []flow{
	{name: "manage", ask: manage, end: "manageable"},
	{name: "inspect", way: []request{manage}, ask: provision("inspect", "manageable"), end: "manageable"},
	{name: "clean", way: []request{manage}, ask: request{"/states/provision",
		`{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase_devices_metadata"}]}`, "manageable"}, end: "manageable"},
	{name: "provide", way: []request{manage}, ask: provide, end: "available"},
	{name: "deploy", way: []request{manage, provide}, ask: deploy, end: "active"},
	{name: "rebuild", way: []request{manage, provide, deploy}, ask: provision("rebuild", "active"), end: "active"},
	{name: "delete", way: []request{manage, provide, deploy}, ask: provision("deleted", "available"), end: "available"},
	{name: "rescue", way: []request{manage, provide, deploy}, ask: rescue, end: "rescue"},
	{name: "unrescue", way: []request{manage, provide, deploy, rescue}, ask: provision("unrescue", "active"), end: "active"},
	{name: "delete of a rescued one", way: []request{manage, provide, deploy, rescue}, ask: provision("deleted", "available"), end: "available"},
	{name: "service", way: []request{manage, provide, deploy}, ask: request{"/states/provision",
		`{"target":"service","service_steps":[{"interface":"power","step":"reboot"}]}`, "active"}, end: "active"},
	{name: "power", way: []request{manage, provide}, ask: power("power on"), end: "available"},
	{name: "reboot", way: []request{manage, provide}, ask: power("rebooting"), end: "available"},
	{name: "deploy fails", way: []request{manage, provide}, ask: deploy, end: "deploy failed",
		breaks: func(f *fault.Faults) { f.FailWrites(always) }, fails: fault.ErrWrite.Error()},
	{name: "clean fails", way: []request{manage}, ask: provide, end: "clean failed",
		breaks: func(f *fault.Faults) { f.FailErasures(always) }, fails: fault.ErrWrite.Error()},
	{name: "inspect fails", way: []request{manage}, ask: provision("inspect", "inspect failed"), end: "inspect failed",
		medium: "http://127.0.0.1/ramdisk.iso", fails: "did not call within", flags: []string{"--deadline", string(states.InspectWait) + "=10s"}},
}

// heldFlows come to a hold of the operator's, or go on from one.
var heldFlows = []flow{
	{name: "clean until its hold", way: []request{manage}, ask: heldClean, end: "clean hold"},
	{name: "clean from its hold", way: []request{manage, heldClean}, ask: provision("unhold", "manageable"), end: "manageable"},
	{name: "deploy until its hold", way: []request{manage, provide}, ask: heldDeploy, end: "deploy hold"},
	{name: "deploy from its hold", way: []request{manage, provide, heldDeploy}, ask: provision("unhold", "active"), end: "active"},
	{name: "service until its hold", way: []request{manage, provide, deploy}, ask: heldService, end: "service hold"},
	{name: "service from its hold", way: []request{manage, provide, deploy, heldService}, ask: provision("unhold", "active"), end: "active"},
}

var (
	heldClean = request{"/states/provision", `{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase_devices_metadata"},` +
		`{"interface":"deploy","step":"hold"},{"interface":"power","step":"reboot"}]}`, "clean hold"}
	heldDeploy  = request{"/states/provision", `{"target":"active","deploy_steps":[{"interface":"deploy","step":"hold","priority":90,"args":{}}]}`, "deploy hold"}
	heldService = request{"/states/provision", `{"target":"service","service_steps":[{"interface":"power","step":"reboot"},` +
		`{"interface":"deploy","step":"hold"},{"interface":"power","step":"reboot"}]}`, "service hold"}
)

// always is for faults that no second try gets past.
const always = 1 << 20

// slow is the driver_info that makes the steps of fake-hardware take a while, so that
// they wait and are re-attached to.
var slow = map[string]any{"fake_deploy_delay": 0.3, "fake_write_image_delay": 0.3, "fake_erase_devices_delay": 0.3, "fake_inspect_hardware_delay": 0.3,
	"fake_rescue_delay": 0.3, "fake_unrescue_delay": 0.3, "fake_tear_down_delay": 0.3, "fake_update_delay": 0.3, "fake_delete_configuration_delay": 0.3}
