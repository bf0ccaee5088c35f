package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// newer sends the requests of commands that Debian's baremetal does not have yet.
type newer struct {
	*testing.T
	endpoint string
}

// do sends a request and returns the answer, which must have the status.
func (n newer) do(status int, method, path string, body any) map[string]any {
	n.Helper()
	got, answer := n.send(method, path, body)
	if got != status {
		n.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, answer)
	}
	var v map[string]any
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &v); err != nil {
			n.Fatalf("%s %s: %v: %s", method, path, err, answer)
		}
	}
	return v
}

func (n newer) send(method, path string, body any) (int, []byte) {
	n.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			n.Fatal(err)
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(n.Context(), method, n.endpoint+path, reader)
	if err != nil {
		n.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", "latest")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		n.Fatal(err)
	}
	return resp.StatusCode, answer
}

// provision asks for a state, again while the node is locked as all clients do, and
// waits until the node rests in after.
func (n newer) provision(node, after string, body map[string]any) {
	n.Helper()
	path := "/v1/nodes/" + node + "/states/provision"
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		status, answer := n.send("PUT", path, body)
		if status == http.StatusAccepted {
			break
		}
		if status != http.StatusConflict || time.Now().After(end) {
			n.Fatalf("PUT %s %v: %d %s", path, body, status, answer)
		}
	}
	n.await(node, "provision_state", after)
}

func (n newer) await(node, field string, want any) {
	n.Helper()
	var got map[string]any
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = n.do(200, "GET", "/v1/nodes/"+node, nil); got[field] == want {
			return
		}
	}
	n.Fatalf("node %s: %s is %v, want %v; last error %v", node, field, got[field], want, got["last_error"])
}

type object = map[string]any

// TestNewerCommands sends what the commands send that came after Debian's release.
func TestNewerCommands(t *testing.T) {
	n := newer{t, fleet(t)}
	n.do(201, "POST", "/v1/nodes", object{"name": "new", "driver": "fake-hardware", "shard": "s1", "instance_info": object{"image_source": "http://example.org/i.raw"}})
	n.do(201, "POST", "/v1/ports", object{"node_ident": "new", "address": "52:54:00:00:00:61", "name": "p61"})
	n.provision("new", "manageable", object{"target": "manage"})

	t.Run("shard list", func(t *testing.T) {
		n := newer{t, n.endpoint}
		if s := n.do(200, "GET", "/v1/shards", nil)["shards"]; brief(s) != `[{"count":1,"name":"s1"}]` {
			t.Errorf("shards: %v", brief(s))
		}
	})
	t.Run("node children list", func(t *testing.T) {
		n := newer{t, n.endpoint}
		parent := n.do(200, "GET", "/v1/nodes/new", nil)["uuid"]
		child := n.do(201, "POST", "/v1/nodes", object{"driver": "fake-hardware", "parent_node": parent})["uuid"].(string)
		if c := n.do(200, "GET", "/v1/nodes/new/children", nil)["children"]; brief(c) != `["`+child+`"]` {
			t.Errorf("children: %v", brief(c))
		}
		n.do(204, "DELETE", "/v1/nodes/"+child, nil)
	})
	t.Run("node inventory save", func(t *testing.T) {
		n := newer{t, n.endpoint}
		n.provision("new", "manageable", object{"target": "inspect"})
		if i := n.do(200, "GET", "/v1/nodes/new/inventory", nil); i["inventory"] == nil {
			t.Errorf("inventory: %v", i)
		}
	})
	t.Run("node firmware list", func(t *testing.T) {
		n := newer{t, n.endpoint}
		if f := n.do(200, "GET", "/v1/nodes/new/firmware", nil)["firmware"].([]any); len(f) == 0 {
			t.Error("no firmware components")
		}
	})
	t.Run("runbook", n.runbook)
	t.Run("inspection rule", n.inspectionRule)
	t.Run("node clean with hold and unhold", n.hold)
	t.Run("node service", n.service)
}

func (n newer) runbook(t *testing.T) {
	n.T = t
	steps := []object{{"interface": "bios", "step": "apply_configuration", "args": object{"settings": []object{{"name": "AssetTag", "value": "b"}}}, "order": 1}}
	made := n.do(201, "POST", "/v1/runbooks", object{"name": "CUSTOM_RAISE", "steps": steps, "description": "raise"})
	if status, _ := n.send("POST", "/v1/runbooks", object{"name": "CUSTOM_RAISE", "steps": steps}); status != 409 {
		t.Errorf("a second runbook of that name: %d", status)
	}
	n.do(200, "PATCH", "/v1/runbooks/CUSTOM_RAISE", []object{{"op": "add", "path": "/extra/a", "value": 1}})
	if r := n.do(200, "GET", "/v1/runbooks/CUSTOM_RAISE", nil); r["uuid"] != made["uuid"] || brief(r["extra"]) != `{"a":1}` {
		t.Errorf("runbook: %v", r)
	}
	if l := n.do(200, "GET", "/v1/runbooks", nil)["runbooks"].([]any); len(l) != 1 {
		t.Errorf("runbooks: %v", l)
	}
	n.do(204, "PUT", "/v1/runbooks/CUSTOM_RAISE/traits/CUSTOM_GOLD", nil)
	if traits := n.do(200, "GET", "/v1/runbooks/CUSTOM_RAISE/traits", nil)["traits"]; brief(traits) != `["CUSTOM_GOLD"]` {
		t.Errorf("traits of the runbook: %v", brief(traits))
	}
	if status, _ := n.send("PUT", "/v1/nodes/new/states/provision", object{"target": "clean", "runbook": "CUSTOM_RAISE"}); status != 400 {
		t.Errorf("a runbook whose traits the node lacks: %d", status)
	}
	n.do(204, "PUT", "/v1/nodes/new/traits/CUSTOM_GOLD", nil)
	n.provision("new", "manageable", object{"target": "clean", "runbook": "CUSTOM_RAISE"})
	if s := n.do(200, "GET", "/v1/nodes/new/bios/AssetTag", nil); !strings.Contains(brief(s), `"value":"b"`) {
		t.Errorf("the runbook's setting: %v", s)
	}
	n.do(204, "DELETE", "/v1/runbooks/CUSTOM_RAISE/traits/CUSTOM_GOLD", nil)
	n.do(204, "DELETE", "/v1/runbooks/CUSTOM_RAISE", nil)
	n.do(404, "GET", "/v1/runbooks/CUSTOM_RAISE", nil)
}

func (n newer) inspectionRule(t *testing.T) {
	n.T = t
	rule := n.do(201, "POST", "/v1/inspection_rules", object{"description": "label it", "priority": 5,
		"conditions": []object{{"op": "is-true", "args": object{"value": true}}},
		"actions":    []object{{"op": "set-attribute", "args": object{"path": "/extra/seen", "value": "yes"}}}})
	id := rule["uuid"].(string)
	n.do(200, "PATCH", "/v1/inspection_rules/"+id, []object{{"op": "replace", "path": "/description", "value": "labelled"}})
	if r := n.do(200, "GET", "/v1/inspection_rules/"+id, nil); r["description"] != "labelled" {
		t.Errorf("rule: %v", r)
	}
	if l := n.do(200, "GET", "/v1/inspection_rules", nil)["inspection_rules"].([]any); len(l) != 1 {
		t.Errorf("rules: %v", l)
	}
	n.provision("new", "manageable", object{"target": "inspect"})
	if e := n.do(200, "GET", "/v1/nodes/new", nil)["extra"]; brief(e) != `{"seen":"yes"}` {
		t.Errorf("after an inspection extra is %v", brief(e))
	}
	n.do(204, "DELETE", "/v1/inspection_rules/"+id, nil)
	n.do(204, "DELETE", "/v1/inspection_rules", nil)
}

func (n newer) hold(t *testing.T) {
	n.T = t
	steps := []object{{"interface": "deploy", "step": "hold"}, {"interface": "deploy", "step": "erase_devices"}}
	n.provision("new", "clean hold", object{"target": "clean", "clean_steps": steps})
	n.provision("new", "manageable", object{"target": "unhold"})
	n.provision("new", "clean hold", object{"target": "clean", "clean_steps": steps})
	n.provision("new", "clean failed", object{"target": "abort"})
	n.do(202, "DELETE", "/v1/nodes/new/maintenance", nil)
	n.provision("new", "manageable", object{"target": "manage"})
}

func (n newer) service(t *testing.T) {
	n.T = t
	n.provision("new", "available", object{"target": "provide"})
	n.provision("new", "active", object{"target": "active"})
	n.provision("new", "active", object{"target": "service", "service_steps": []object{{"interface": "bios", "step": "factory_reset"}}})
	if e := n.do(200, "GET", "/v1/nodes/new", nil)["last_error"]; e != nil {
		t.Errorf("after service: %v", e)
	}
	n.provision("new", "available", object{"target": "deleted"})
	n.do(204, "DELETE", "/v1/nodes/new", nil)
}
