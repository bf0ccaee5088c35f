package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What a project may not change of a node of its own it cannot say when it enrols one either: for each field that both
// may have, by each role that may enrol.
func TestSelfServiceSaysNoMoreThanAPatch(t *testing.T) {
	t.Parallel()
	samples := map[string][]string{
		"automated_clean": {`false`, `"off"`, `"0"`, `true`}, "disable_power_off": {`true`, `false`}, "retired": {`true`}, "network_data": {`{}`},
		"driver_info": {`{"a":"b"}`}, "extra": {`{"a":"b"}`}, "instance_info": {`{"a":"b"}`}, "properties": {`{"cpus":4}`}, "conductor_group": {`"east"`},
		"chassis_uuid": {`"cccccccc-2222-4333-8444-555555555555"`}, "parent_node": {`"` + elsewhere + `"`}, "instance_uuid": {`"dddddddd-2222-4333-8444-555555555555"`},
	}
	const denied = "Access was denied"
	for _, roles := range []string{adminRoles, "service"} {
		b := newGuarded(t)
		b.server.Auth = wordOf{}
		b.wantAs(201, "system "+adminRoles, "POST", "/v1/chassis", `{"uuid":"cccccccc-2222-4333-8444-555555555555"}`)
		who, walked, refused := ownerProject+" "+roles, 0, 0
		for _, f := range nodeTable.Describe() {
			if !f.Post || !f.Patch || f.Name == "driver" || f.Name == "owner" {
				continue
			}
			values := samples[f.Name]
			if values == nil {
				values = []string{`"x"`}
				if kind, isInterface := strings.CutSuffix(f.Name, "_interface"); isInterface {
					values = []string{`"` + fakeDriver[kind][0] + `"`}
				}
			}
			for _, value := range values {
				walked++
				name, err := json.Marshal(fmt.Sprintf("own-%d", walked))
				if err != nil {
					t.Fatal(err)
				}
				body := `{"driver":"fake-hardware","` + f.Name + `":` + value + `}`
				if f.Name != "name" && roles != "service" { // which may not name one
					body = `{"driver":"fake-hardware","name":` + string(name) + `,"` + f.Name + `":` + value + `}`
				}
				post := b.as(who, "POST", "/v1/nodes", body)
				patch := b.as(who, "PATCH", "/v1/nodes/"+nodeID, `[{"op":"add","path":"/`+f.Name+`","value":`+value+`}]`)
				no, want := post.StatusCode == 403 && strings.Contains(post.body, denied), patch.StatusCode == 403 && strings.Contains(patch.body, denied)
				if no != want {
					t.Errorf("%s with %s = %s: POST %d %s\nPATCH %d %s", roles, f.Name, value, post.StatusCode, post.body, patch.StatusCode, patch.body)
				}
				if want {
					refused++
				}
			}
		}
		if walked < 30 || refused < 5 {
			t.Errorf("%s: %d fields were walked, %d refused", roles, walked, refused)
		}
	}
}
