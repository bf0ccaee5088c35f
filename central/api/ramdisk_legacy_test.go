package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

const (
	legacyLookupPath = "/v1/drivers/fake-hardware/vendor_passthru/lookup"
	legacyBeatPath   = "/v1/nodes/" + nodeID + "/vendor_passthru/heartbeat"
)

func TestLegacyLookup(t *testing.T) {
	b, k := ramdiskBench(t, provision.DeployWait, nil)
	b.server.Auth = wordOf{} // agents have no account
	const nics = `"inventory":{"interfaces":[{"name":"eth0","mac_address":"52:54:00:00:00:01"},{"mac_address":"nonsense"},{}],"cpu":{"count":4}}`
	for _, body := range []string{`{"version":"2",` + nics + `}`, `{"version":2,"colour":"red",` + nics + `}`,
		`{"version":"2","node_uuid":"` + nodeID + `","inventory":{"interfaces":[]}}`} {
		got := b.want(200, "POST", legacyLookupPath, "", body).object(t)
		if got["heartbeat_timeout"] != 300.0 || got["node"].(map[string]any)["uuid"] != nodeID || got["config"].(map[string]any)["agent_token"] != nil {
			t.Errorf("%s: %v", body, got)
		}
	}
	if len(k.asked) != 3 {
		t.Errorf("of three lookups the rackd judged %v", k.asked)
	}
	known := b.want(200, "POST", legacyLookupPath, "1.62", `{"version":"2",`+nics+`}`).object(t)
	if known["heartbeat_timeout"] != 60.0 || known["config"].(map[string]any)["agent_token"] != "s3cret" {
		t.Errorf("at 1.62: %v", known)
	}
	for name, c := range map[string]struct {
		status           int
		path, body, want string
	}{
		"no version":       {400, legacyLookupPath, `{` + nics + `}`, "Missing parameter version"},
		"an older version": {400, legacyLookupPath, `{"version":"1",` + nics + `}`, "Unknown lookup payload version: 1"},
		"a newer version":  {400, legacyLookupPath, `{"version":3,` + nics + `}`, "Unknown lookup payload version: 3"},
		"a list":           {400, legacyLookupPath, `{"version":["2"],` + nics + `}`, "Unknown lookup payload version"},
		"no inventory":     {400, legacyLookupPath, `{"version":"2"}`, "Malformed network interfaces lookup"},
		"no interfaces":    {400, legacyLookupPath, `{"version":"2","inventory":{}}`, "Malformed network interfaces lookup"},
		"a strange UUID":   {400, legacyLookupPath, `{"version":"2","node_uuid":"n1",` + nics + `}`, "Expected a UUID"},
		"nobody's address": {404, legacyLookupPath, `{"version":"2","inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:09"}]}}`, "could not be found"},
		"unknown driver":   {404, "/v1/drivers/none/vendor_passthru/lookup", `{"version":"2",` + nics + `}`, "none"},
	} {
		if a := b.want(c.status, "POST", c.path, "1.1", c.body); !strings.Contains(a.fault(t), c.want) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	b.want(405, "GET", legacyLookupPath, "1.1", "")
	b.move("n1", provision.Active, provision.NoState, nil)
	b.want(404, "POST", legacyLookupPath, "1.1", `{"version":"2",`+nics+`}`)
}

func TestLegacyHeartbeat(t *testing.T) {
	b, k := ramdiskBench(t, provision.DeployWait, nil)
	b.server.Auth = wordOf{}
	for _, path := range []string{legacyBeatPath, "/v1/nodes/n1/vendor_passthru/heartbeat"} {
		k.asked = nil
		a := b.want(202, "POST", path, "1.5", `{"agent_url":"https://10.0.0.1:9999","agent_version":"1.0","agent_token":"s3cret","agent_verify_ca":"PEM","driver":"agent"}`)
		var heard agentapi.Heartbeat
		if err := json.Unmarshal(k.last, &heard); err != nil || a.body != "" || len(k.asked) != 1 || k.asked[0] != "rack-1 ramdisk_heartbeat "+nodeID ||
			heard.CallbackURL != "https://10.0.0.1:9999" || heard.AgentToken != "s3cret" || heard.AgentVersion != "1.0" || heard.AgentVerifyCA != "PEM" {
			t.Errorf("asked %v, the rackd heard %+v, %v", k.asked, heard, err)
		}
	}
	k.asked = nil
	for body, want := range map[string]string{
		`{"agent_url":"https://10.0.0.1:9999"}`:          "Agent token is required",
		`{"agent_token":"s3cret"}`:                       "agent_url",
		`{"agent_url":7,"agent_token":"s3cret"}`:         "Expected string for agent_url",
		`{"agent_url":"ftp://x","agent_token":"s3cret"}`: "callback_url",
	} {
		if a := b.want(400, "POST", legacyBeatPath, "1.1", body); !strings.Contains(a.fault(t), want) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	b.want(404, "POST", "/v1/nodes/"+nobodyID+"/vendor_passthru/heartbeat", "1.1", `{"agent_url":"https://x","agent_token":"t"}`)
	if len(k.asked) != 0 {
		t.Errorf("refused, and yet asked %v", k.asked)
	}
	k.refuse[ask.RamdiskHeartbeat] = http.StatusUnauthorized
	b.want(401, "POST", legacyBeatPath, "1.1", `{"agent_url":"https://x","agent_token":"wrong"}`)
}

func TestLegacyRamdiskPathsCanBeOff(t *testing.T) {
	b, _ := ramdiskBench(t, provision.DeployWait, func(c *Config) { c.NoRamdiskEndpoints = true })
	b.want(403, "POST", legacyLookupPath, "1.1", `{}`)
	b.want(403, "POST", legacyBeatPath, "1.1", `{}`)
}
