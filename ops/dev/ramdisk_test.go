package dev_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

// call sends a request as an agent does and returns the status and the answer.
func call(t *testing.T, o *operator.Operator, method, path, version string, body any) (int, map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, o.Base()+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", version)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if len(text) > 0 && json.Unmarshal(text, &answer) != nil {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	return resp.StatusCode, answer
}

// An agent that knows central and no rack: it looks itself up, is told its token until it
// has shown it, calls, and sends what it has found; the inspection ends with that.
func TestAgentThatKnowsCentral(t *testing.T) {
	t.Parallel()
	o, stop := start(t, t.TempDir(), 0)
	defer stop()
	id, err := o.Enrol(t.Context(), operator.Machine{Name: "one", Driver: "fake-hardware", DriverInfo: map[string]any{"fake_inspect_delay": 600},
		MACs: []string{"52:54:00:00:00:01"}})
	if err != nil {
		t.Fatal(err)
	}
	request(t, o, id, map[string]any{"target": "manage"}, provision.Manageable)
	const lookup = "/v1/lookup?addresses=52:54:00:00:00:01"
	if status, answer := call(t, o, "GET", lookup, "1.68", nil); status != 404 {
		t.Errorf("a lookup while nothing is being done: %d %v", status, answer)
	}
	request(t, o, id, map[string]any{"target": "inspect"}, provision.InspectWait)
	status, answer := call(t, o, "GET", lookup, "1.68", nil)
	config, _ := answer["config"].(map[string]any)
	token, _ := config["agent_token"].(string)
	if status != 200 || len(token) < 20 {
		t.Fatalf("lookup: %d %v", status, answer)
	}
	beat := map[string]any{"callback_url": "https://10.0.0.1:9999", "agent_version": "11", "agent_token": "guess", "agent_verify_ca": "PEM"}
	if status, answer := call(t, o, "POST", "/v1/heartbeat/"+id, "1.68", beat); status != 400 {
		t.Errorf("a heartbeat with a wrong token: %d %v", status, answer)
	}
	beat["agent_token"] = token
	if status, answer := call(t, o, "POST", "/v1/heartbeat/"+id, "1.68", beat); status != 202 {
		t.Errorf("a heartbeat: %d %v", status, answer)
	}
	if status, answer := call(t, o, "GET", lookup, "1.68", nil); status != 503 || answer["config"] != nil {
		t.Errorf("a lookup after the token was shown: %d %v", status, answer)
	}
	found := map[string]any{"inventory": map[string]any{"interfaces": []any{map[string]any{"mac_address": "52:54:00:00:00:01"}}, "cpu": map[string]any{"count": 3, "architecture": "x86_64"}}}
	if status, answer := call(t, o, "POST", "/v1/continue_inspection", "1.1", found); status != 202 || answer["uuid"] != id {
		t.Fatalf("inspection data: %d %v", status, answer)
	}
	if _, err := o.Wait(t.Context(), id, provision.Manageable); err != nil {
		t.Fatal(err)
	}
	_, answer = call(t, o, "GET", "/v1/nodes/"+id+"/inventory", "1.115", nil)
	if cpu, _ := answer["inventory"].(map[string]any)["cpu"].(map[string]any); cpu["count"] != 3.0 {
		t.Errorf("inventory %v", answer)
	}
}
