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
	b.want(409, "POST", "/v1/chassis", "1.115", `{"uuid":"`+chassisID+`"}`)
	b.want(400, "POST", "/v1/chassis", "1.115", `{"colour":"red"}`)
	golden(t, "chassis@1.115", b.want(200, "GET", "/v1/chassis/"+chassisID, "1.115", "").body)
	golden(t, "chassis-list@1.115", b.want(200, "GET", "/v1/chassis", "1.115", "").body)
	golden(t, "chassis-detail@1.1", b.want(200, "GET", "/v1/chassis/detail", "1.1", "").body)
	changed := b.want(200, "PATCH", "/v1/chassis/"+chassisID, "1.115", `[{"op":"replace","path":"/description","value":"row 8"}]`).object(t)
	if changed["description"] != "row 8" || changed["updated_at"] == nil {
		t.Errorf("changed chassis: %v", changed)
	}
	b.want(400, "PATCH", "/v1/chassis/"+chassisID, "1.115", `[{"op":"replace","path":"/uuid","value":"`+nodeID+`"}]`)
	b.want(200, "GET", "/v1/chassis/"+chassisID+"/nodes", "1.115", "")
	b.want(404, "GET", "/v1/chassis/"+nodeID+"/nodes", "1.115", "")
	b.want(400, "GET", "/v1/chassis/row", "1.115", "")
	b.want(204, "DELETE", "/v1/chassis/"+chassisID, "1.115", "")
	b.want(404, "DELETE", "/v1/chassis/"+chassisID, "1.115", "")
	b.want(404, "GET", "/v1/chassis/"+chassisID, "1.115", "")
}
