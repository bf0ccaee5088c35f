package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A password in any address is shown to those alone who see secrets: not in an answer, nor in a notification. It stays where a client sends
// back what it was shown, and goes to no other server.
func TestPasswordsInAddressesAreMaskedAndKept(t *testing.T) {
	const at, shown = "https://user:hunter2@images.example/a.raw", "https://user:******@images.example/a.raw"
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Manageable, "", nil)
	const n = "/v1/nodes/n1"
	look := func(a answer) {
		t.Helper()
		o := a.object(t)
		instance, _ := o["instance_info"].(map[string]any)
		own, _ := o["driver_info"].(map[string]any)
		if instance["image_source"] != shown || instance["kernel_append_params"] != "inst.ks="+shown+" quiet" || own["deploy_iso"] != shown || strings.Contains(a.body, "hunter2") {
			t.Errorf("it shows %v and %v", instance, own)
		}
	}
	set := func(address string) string {
		return `[{"op":"add","path":"/instance_info/image_source","value":"` + address + `"},{"op":"add","path":"/instance_info/kernel_append_params","value":"inst.ks=` + address +
			` quiet"},{"op":"add","path":"/driver_info/deploy_iso","value":"` + address + `"}]`
	}
	look(b.want(200, "PATCH", n, "1.115", set(at)))
	look(b.want(200, "GET", n, "1.115", ""))
	look(b.want(200, "PATCH", n, "1.115", set(shown)))
	if got := b.node("n1"); got.InstanceInfo["image_source"] != at || got.InstanceInfo["kernel_append_params"] != "inst.ks="+at+" quiet" || got.DriverInfo["deploy_iso"] != at {
		t.Errorf("what was shown was sent back, and %v and %v are stored", got.InstanceInfo, got.DriverInfo)
	}
	for _, other := range []string{"https://user:******@evil.example/a.raw", "http://user:******@images.example/a.raw", "https://eve:******@images.example/a.raw"} {
		if a := b.want(400, "PATCH", n, "1.115", `[{"op":"replace","path":"/instance_info/image_source","value":"`+other+`"}]`); !strings.Contains(a.fault(t), "the mask") {
			t.Errorf("%s: %s", other, a.body)
		}
	}
	for _, list := range []string{"/v1/nodes/detail", "/v1/nodes?fields=driver_info,instance_info"} {
		if a := b.want(200, "GET", list, "1.115", ""); strings.Contains(a.body, "hunter2") || !strings.Contains(a.body, "******") {
			t.Errorf("%s shows %s", list, a.body)
		}
	}
	told, err := b.server.Notifications(t.Context(), []*store.Change{{Seq: 1, UUID: nodeID, Object: b.node("n1").UUID, Node: b.node("n1").UUID, Resource: "node", Action: "update", Phases: "end"}}, "")
	if err != nil || len(told) != 1 || strings.Contains(string(told[0].Body), "hunter2") || !strings.Contains(string(told[0].Body), shown) {
		t.Errorf("notifications: %+v, %v", told, err)
	}

	// Templates and runbooks show none of them in their arguments.
	steps := `[{"interface":"management","step":"update_firmware","%s":10,"args":{"firmware_images":[{"url":"` + at + `","checksum":"x"}]}}]`
	for path, body := range map[string]string{"/v1/deploy_templates": `{"name":"CUSTOM_T","steps":` + strings.Replace(steps, "%s", "priority", 1) + `}`,
		"/v1/runbooks": `{"name":"CUSTOM_R","steps":` + strings.Replace(steps, "%s", "order", 1) + `}`} {
		for _, a := range []answer{b.want(201, "POST", path, "1.115", body), b.want(200, "GET", path+"?detail=true", "1.115", "")} {
			if !strings.Contains(a.body, shown) || strings.Contains(a.body, "hunter2") {
				t.Errorf("%s shows %s", path, a.body)
			}
		}
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the log has it")
	}
	if kept := b.cells()["audit"]; slices.ContainsFunc(kept, func(cell string) bool { return strings.Contains(cell, "hunter2") }) {
		t.Error("the audit has it")
	}
	if kept := b.cells()["node_history"]; slices.ContainsFunc(kept, func(cell string) bool { return strings.Contains(cell, "hunter2") }) {
		t.Error("the history has it")
	}
}
