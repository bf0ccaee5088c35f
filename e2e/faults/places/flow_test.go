package places

// flow is a verb in the state from which it is asked for.
type flow struct {
	name string
	// way are the requests that bring an enrolled node to where the flow begins.
	way []request
	ask request
	// end is where it ends.
	end string
}

// request is one request of the API and the state in which the node rests after it.
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

func power(target string) request {
	return request{"/states/power", `{"target":"` + target + `"}`, "available"}
}

// flows are all verbs that begin work on a node that rests.
var flows = []flow{
	{"manage", nil, manage, "manageable"},
	{"inspect", []request{manage}, provision("inspect", "manageable"), "manageable"},
	{"adopt", []request{manage}, provision("adopt", "active"), "active"},
	{"clean", []request{manage}, request{"/states/provision",
		`{"target":"clean","clean_steps":[{"interface":"raid","step":"delete_configuration"},{"interface":"deploy","step":"erase_devices"}]}`, "manageable"}, "manageable"},
	{"provide", []request{manage}, provide, "available"},
	{"deploy", []request{manage, provide}, deploy, "active"},
	{"rebuild", []request{manage, provide, deploy}, provision("rebuild", "active"), "active"},
	{"delete", []request{manage, provide, deploy}, provision("deleted", "available"), "available"},
	{"rescue", []request{manage, provide, deploy}, rescue, "rescue"},
	{"unrescue", []request{manage, provide, deploy, rescue}, provision("unrescue", "active"), "active"},
	{"service", []request{manage, provide, deploy}, request{"/states/provision",
		`{"target":"service","service_steps":[{"interface":"firmware","step":"update","args":{"settings":[{"component":"bmc","url":"http://example.org/bmc-2.bin"}]}},{"interface":"power","step":"reboot"},{"interface":"power","step":"wait","args":{"seconds":0.3}}]}`, "active"}, "active"},
	{"deploy-steps", []request{manage, provide}, request{"/states/provision",
		`{"target":"active","deploy_steps":[{"interface":"bios","step":"factory_reset","priority":70,"args":{}},{"interface":"deploy","step":"write_image","priority":0,"args":{}}]}`, "active"}, "active"},
	{"power", []request{manage, provide}, power("power on"), "available"},
	{"reboot", []request{manage, provide}, power("rebooting"), "available"},
}

// machineFlows are those that simulated machines take part in.
var machineFlows = []flow{
	{"manage", nil, manage, "manageable"},
	{"inspect", []request{manage}, provision("inspect", "manageable"), "manageable"},
	{"clean", []request{manage}, request{"/states/provision",
		`{"target":"clean","clean_steps":[{"interface":"deploy","step":"erase_devices_metadata"}]}`, "manageable"}, "manageable"},
	{"provide", []request{manage}, provide, "available"},
	{"deploy", []request{manage, provide}, deploy, "active"},
	{"rebuild", []request{manage, provide, deploy}, provision("rebuild", "active"), "active"},
	{"delete", []request{manage, provide, deploy}, provision("deleted", "available"), "available"},
	{"service", []request{manage, provide, deploy}, request{"/states/provision",
		`{"target":"service","service_steps":[{"interface":"power","step":"reboot"}]}`, "active"}, "active"},
	{"power", []request{manage, provide}, power("power on"), "available"},
	{"reboot", []request{manage, provide}, power("rebooting"), "available"},
}

// slow is the driver_info that makes the steps of fake-hardware take a while, so that
// they wait and are re-attached to.
var slow = map[string]any{"fake_deploy_delay": 0.3, "fake_write_image_delay": 0.3, "fake_erase_devices_delay": 0.3, "fake_inspect_hardware_delay": 0.3,
	"fake_rescue_delay": 0.3, "fake_unrescue_delay": 0.3, "fake_tear_down_delay": 0.3, "fake_update_delay": 0.3, "fake_delete_configuration_delay": 0.3}
