package api

import "testing"

const chassisID = "cccccccc-2222-4333-8444-555555555555"

// TestChassis follows a chassis from its creation to its end.
func TestChassis(t *testing.T) {
	b := newBench(t)
	made := b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"`+chassisID+`","description":"row 7","extra":{"a":1}}`)
	if got := made.Header.Get("Location"); got != "http://ironyard.example:6385/v1/chassis/"+chassisID {
		t.Errorf("Location %q", got)
	}
	for _, version := range []string{"1.1", "1.8", "1.42", "1.89", "1.115"} {
		golden(t, "chassis@"+version, b.do("GET", "/v1/chassis/"+chassisID, version, "").body)
		golden(t, "chassis-list@"+version, b.do("GET", "/v1/chassis", version, "").body)
		golden(t, "chassis-detail@"+version, b.do("GET", "/v1/chassis/detail", version, "").body)
		golden(t, "chassis-nodes@"+version, b.do("GET", "/v1/chassis/"+chassisID+"/nodes", version, "").body)
	}
	changed := b.want(200, "PATCH", "/v1/chassis/"+chassisID, "1.115", `[{"op":"replace","path":"/description","value":"row 8"}]`).object(t)
	if changed["description"] != "row 8" || changed["updated_at"] == nil {
		t.Errorf("changed chassis: %v", changed)
	}
	const one = "/v1/chassis/" + chassisID
	b.refused(one, []request{
		{409, "POST", "/v1/chassis", "1.115", `{"uuid":"` + chassisID + `"}`},
		{400, "POST", "/v1/chassis", "1.115", `{"colour":"red"}`},
		{400, "POST", "/v1/chassis", "1.115", `{"uuid":"row"}`},
		{400, "POST", "/v1/chassis", "1.115", `{"extra":[]}`},
		{400, "POST", "/v1/chassis", "1.115", `[]`},
		{400, "PATCH", one, "1.115", `[{"op":"replace","path":"/uuid","value":"` + nodeID + `"}]`},
		{400, "PATCH", one, "1.115", `[{"op":"add","path":"/colour","value":"red"}]`},
		{404, "PATCH", "/v1/chassis/" + nodeID, "1.115", `[{"op":"remove","path":"/extra"}]`},
		{404, "GET", "/v1/chassis/" + nodeID + "/nodes", "1.115", ""},
		{404, "GET", "/v1/chassis/" + nodeID, "1.115", ""},
		{400, "GET", "/v1/chassis/row", "1.115", ""},
		{406, "GET", one + "?fields=uuid", "1.7", ""},
		{406, "GET", "/v1/chassis?fields=uuid", "1.7", ""},
		{400, "GET", "/v1/chassis?detail=true", "1.42", ""},
		{400, "GET", "/v1/chassis?detail=true&fields=uuid", "1.43", ""},
		{400, "GET", "/v1/chassis?fields=colour", "1.115", ""},
		{400, "GET", "/v1/chassis?sort_key=extra", "1.115", ""},
		{400, "GET", "/v1/chassis?sort_dir=up", "1.115", ""},
		{400, "GET", "/v1/chassis?limit=-1", "1.115", ""},
		{404, "GET", "/v1/chassis?marker=" + nodeID, "1.115", ""},
		{404, "DELETE", "/v1/chassis/" + nodeID, "1.115", ""},
		{405, "PUT", one, "1.115", `{}`},
	})
	b.want(204, "DELETE", one, "1.115", "")
	b.want(404, "DELETE", one, "1.115", "")
	b.want(404, "GET", one, "1.115", "")
}

// TestPatchThatChangesNothing holds that what is as it was has not been updated; but for
// chassis, which Ironic stamps whatever is asked.
func TestPatchThatChangesNothing(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.addPort(portID, "aa:bb:cc:dd:ee:01", `,"extra":{"a":1}`)
	b.want(201, "POST", "/v1/chassis", "1.115", `{"uuid":"`+groupID+`","extra":{"a":1}}`)
	for path, stamped := range map[string]bool{"/v1/ports/" + portID: false, "/v1/chassis/" + groupID: true} {
		for _, step := range []struct {
			value   string
			updated bool
		}{{`{"a":1}`, stamped}, {`{"a":2}`, true}} {
			got := b.want(200, "PATCH", path, "1.115", `[{"op":"replace","path":"/extra","value":`+step.value+`}]`).object(t)
			if (got["updated_at"] != nil) != step.updated {
				t.Errorf("%s with extra %s: updated_at is %v", path, step.value, got["updated_at"])
			}
		}
	}
}
