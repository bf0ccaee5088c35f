package api

import "testing"

// TestTimes holds which requests move a node's updated_at, and that only those to change its
// provision state move provision_updated_at.
func TestTimes(t *testing.T) {
	b := newBench(t)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"uuid":"`+nodeID+`","name":"n1","driver":"fake-hardware","network_interface":"flat"}`)
	const n, port = "/v1/nodes/n1", "/v1/ports/" + portID
	before := ""
	for _, c := range []struct {
		status             int
		method, path, body string
		moves              bool
	}{
		{201, "POST", "/v1/ports", `{"uuid":"` + portID + `","node_uuid":"` + nodeID + `","address":"aa:bb:cc:dd:ee:01"}`, false},
		{204, "PUT", n + "/traits", `{"traits":["CUSTOM_A"]}`, true},
		{204, "PUT", n + "/traits", `{"traits":["CUSTOM_A"]}`, true},
		{204, "PUT", n + "/traits/CUSTOM_B", "", true},
		{204, "DELETE", n + "/traits/CUSTOM_B", "", true},
		{204, "DELETE", n + "/traits", "", true},
		{200, "PATCH", port, `[{"op":"add","path":"/extra/a","value":1}]`, true},
		{204, "POST", n + "/vifs", `{"id":"v"}`, true},
		{204, "DELETE", n + "/vifs/v", "", true},
		{204, "DELETE", port, "", true},
		{202, "PUT", n + "/maintenance", `{"reason":"x"}`, true},
		{202, "DELETE", n + "/maintenance", "", true},
		{202, "PUT", n + "/states/power", `{"target":"power on"}`, true},
	} {
		b.later.Add(1)
		b.want(c.status, c.method, c.path, "1.115", c.body)
		shown := b.want(200, "GET", n, "1.115", "").object(t)
		now, _ := shown["updated_at"].(string)
		if (now != before) != c.moves {
			t.Errorf("%s %s: updated_at was %q and is %q", c.method, c.path, before, now)
		}
		if at := shown["provision_updated_at"]; at != nil {
			t.Errorf("%s %s: provision_updated_at is %v though the state never changed", c.method, c.path, at)
		}
		before = now
	}
}
