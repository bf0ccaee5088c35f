package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
)

// A client that attaches networks and volumes is told that no rack acts on them, when it asks and in the node's history.
func TestWhatNoRackActsOnIsSaid(t *testing.T) {
	b := newBench(t)
	b.addNode()
	b.ask[ask.Validate] = `{"network":{"result":true},"storage":{"result":true},"power":{"result":true}}`
	said := func(kind string) string {
		t.Helper()
		a := b.want(200, "GET", "/v1/nodes/n1/validate", "1.115", "")
		var got map[string]struct {
			Result bool
			Reason string
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(err)
		}
		if !got[kind].Result {
			t.Errorf("%s is refused: %s", kind, a.body)
		}
		return got[kind].Reason
	}
	if network, storage := said("network"), said("storage"); network+storage != "" {
		t.Errorf("of nothing: %q and %q", network, storage)
	}
	b.addPort(portID, "52:54:00:00:00:01", "")
	b.want(201, "POST", "/v1/ports", "1.115", fmt.Sprintf(`{"node_uuid":%q,"address":"52:54:00:00:00:02","is_smartnic":true}`, nodeID))
	b.want(200, "PATCH", "/v1/ports/"+portID, "1.115", `[{"op":"add","path":"/is_smartnic","value":true}]`)
	b.want(200, "PATCH", "/v1/ports/"+portID, "1.115", `[{"op":"add","path":"/extra","value":{"a":1}}]`)
	b.want(204, "POST", "/v1/nodes/n1/vifs", "1.115", `{"id":"v","speed":"10G","segment":7}`)
	b.want(201, "POST", "/v1/portgroups", "1.115", fmt.Sprintf(`{"node_uuid":%q,"name":"bond"}`, nodeID))
	b.want(201, "POST", "/v1/volume/targets", "1.115", fmt.Sprintf(`{"node_uuid":%q,"volume_type":"iscsi","boot_index":0,"volume_id":"x"}`, nodeID))
	for _, want := range []string{"kept, and no rack acts on it", "the VIF of port 52:54:00:00:00:02", "its port groups",
		"is_smartnic of port 52:54:00:00:00:01", "is_smartnic of port 52:54:00:00:00:02"} {
		if got := said("network"); !strings.Contains(got, want) {
			t.Errorf("of its network: %q does not say %q", got, want)
		}
	}
	if got := said("storage"); !strings.Contains(got, "its volumes") {
		t.Errorf("of its volumes: %q", got)
	}
	history := b.want(200, "GET", "/v1/nodes/n1/history?detail=true", "1.115", "").body
	if lines := strings.Count(history, "no rack acts on it"); lines != 4 {
		t.Errorf("%d lines of the history say it, want those of two smart NICs, the VIF and the port group: %s", lines, history)
	}
	if want := "of VIF v nothing but its id is kept, and no rack acts on: segment, speed"; !strings.Contains(history, want) {
		t.Errorf("the history does not say %q: %s", want, history)
	}
}
