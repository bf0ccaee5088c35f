package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// rack answers what agents say to central, and notes it.
type ramdiskRack struct {
	asked  []string
	last   json.RawMessage
	refuse map[ask.Method]int
}

type no int

func (e no) Error() string   { return fmt.Sprintf("refused with %d", int(e)) }
func (e no) HTTPStatus() int { return int(e) }

func (k *ramdiskRack) Ask(_ context.Context, m bus.Member, q ask.Request) (json.RawMessage, error) {
	k.asked, k.last = append(k.asked, m.Name+" "+string(q.Method)+" "+q.Node), q.Args
	if status := k.refuse[q.Method]; status != 0 {
		return nil, no(status)
	}
	if q.Method == ask.RamdiskLookup {
		return json.Marshal(agentapi.LookupReply{Config: agentapi.LookupConfig{HeartbeatTimeout: 60, AgentToken: "s3cret", AgentTokenRequired: true}})
	}
	return json.RawMessage(`{}`), nil
}

// ramdiskBench has a node in a state, with a port.
func ramdiskBench(t *testing.T, state provision.State, change func(*Config)) (*bench, *ramdiskRack) {
	t.Helper()
	b, k := newBench(t), &ramdiskRack{refuse: map[ask.Method]int{}}
	b.addNode()
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+nodeID+`","address":"52:54:00:00:00:01"}`)
	info, _ := provision.Describe(state)
	b.move("n1", state, info.Target, nil)
	cfg := b.server.Config
	cfg.Ask = k
	if change != nil {
		change(&cfg)
	}
	b.server = New(cfg)
	return b, k
}

func TestLookup(t *testing.T) {
	b, k := ramdiskBench(t, provision.DeployWait, nil)
	for _, query := range []string{"?node_uuid=" + nodeID, "?addresses=52:54:00:00:00:01,nonsense,52:54:00:00:00:09", "?addresses=x&node_uuid=" + nodeID} {
		got := b.want(200, "GET", "/v1/lookup"+query, "1.62", "").object(t)
		node, config := got["node"].(map[string]any), got["config"].(map[string]any)
		if node["uuid"] != nodeID || node["properties"].(map[string]any)["cpus"] != 4.0 || node["links"] == nil || node["name"] != nil ||
			config["agent_token"] != "s3cret" || config["heartbeat_timeout"] != 60.0 || config["agent_token_required"] != true {
			t.Errorf("%s: %v", query, got)
		}
	}
	golden(t, "lookup@1.62", b.want(200, "GET", "/v1/lookup?node_uuid="+nodeID, "1.62", "").body)
	k.asked = nil
	got := b.want(200, "GET", "/v1/lookup?node_uuid="+nodeID, "1.61", "").object(t)
	if token, there := got["config"].(map[string]any)["agent_token"]; !there || token != nil || len(k.asked) != 1 {
		t.Errorf("before 1.62: %v, asked %v", got, k.asked)
	}
	b.want(404, "GET", "/v1/lookup?node_uuid="+nodeID, "1.21", "")
	b.want(400, "GET", "/v1/lookup", "1.62", "")
	b.want(400, "GET", "/v1/lookup?addresses=nonsense", "1.62", "")
	b.want(400, "GET", "/v1/lookup?node_uuid=nonsense", "1.62", "")
	b.want(400, "GET", "/v1/lookup?colour=red&node_uuid="+nodeID, "1.62", "")
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n2","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+b.node("n2").UUID+`","address":"52:54:00:00:00:02"}`)
	b.want(404, "GET", "/v1/lookup?addresses=52:54:00:00:00:01,52:54:00:00:00:02", "1.62", "")
}

// Whoever runs a ramdisk has no account: where others have one, it is not told what racks and operators keep of a node for themselves.
func TestLookupKeepsBackWhatNotEverybodySees(t *testing.T) {
	b, _ := ramdiskBench(t, provision.InspectWait, nil)
	b.observe("n1", func(n *store.Node) { n.DriverInternalInfo = map[string]any{"disk": "sda", "token": "t"} })
	shown := func(method, path, body string) string {
		t.Helper()
		a := b.do(method, path, "1.115", body)
		if a.StatusCode/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, a.StatusCode, a.body)
		}
		info, err := json.Marshal(a.object(t)["node"].(map[string]any)["driver_internal_info"])
		if err != nil {
			t.Fatal(err)
		}
		return string(info)
	}
	const lookup, inventory = "/v1/lookup?node_uuid=" + nodeID, `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01"}]}}`
	const all, nothing = `{"disk":"sda","token":"******"}`, `{"content":"** Redacted - Requires baremetal:node:get:driver_internal_info permission. **"}`
	for name, c := range map[string]struct {
		auth auth.Strategy
		want string
	}{
		"everybody administers":         {auth.NoAuth{}, all},
		"callers say who they are":      {wordOf{}, nothing},
		"they may, and need not say so": {auth.Chain{auth.NewBasic(func() auth.Users { return nil }), auth.NoAuth{}}, all},
		"there are several ways to":     {auth.Chain{auth.NewBasic(func() auth.Users { return nil }), wordOf{}}, nothing},
	} {
		b.server.Auth = c.auth
		if got := shown("GET", lookup, ""); got != c.want {
			t.Errorf("%s: a lookup shows %s, want %s", name, got, c.want)
		}
		if got := shown("POST", "/v1/continue_inspection", inventory); got != c.want {
			t.Errorf("%s: an inspection is answered with %s, want %s", name, got, c.want)
		}
	}
}

// A node that is not there and one on which nothing is being done get one answer.
func TestLookupTellsNobodyWhatThereIs(t *testing.T) {
	b, k := ramdiskBench(t, provision.Active, nil)
	wrong := b.want(404, "GET", "/v1/lookup?node_uuid="+nodeID, "1.62", "")
	missing := b.want(404, "GET", "/v1/lookup?node_uuid=99999999-2222-4333-8444-555555555555", "1.62", "")
	if wrong.body != missing.body || len(k.asked) != 0 {
		t.Errorf("wrong state: %s, no node: %s, asked %v", wrong.body, missing.body, k.asked)
	}
	b.move("n1", provision.DeployWait, provision.Active, nil)
	k.refuse[ask.RamdiskLookup] = http.StatusNotFound
	if a := b.want(404, "GET", "/v1/lookup?node_uuid="+nodeID, "1.62", ""); a.body != missing.body {
		t.Errorf("no work: %s, no node: %s", a.body, missing.body)
	}
	open, _ := ramdiskBench(t, provision.Active, func(c *Config) { c.LookupAnyState = true })
	open.want(200, "GET", "/v1/lookup?node_uuid="+nodeID, "1.62", "")
}

// The id of a boot in front of the API's path, the peer's address and the machine go on to the rackd, which
// judges them. Nothing but what ramdisks call is behind such a path, and no header passes for an address.
func TestCallerOfARamdisk(t *testing.T) {
	b, k := ramdiskBench(t, provision.InspectWait, nil)
	caller := func() ask.Caller {
		t.Helper()
		var c struct{ ask.Caller }
		if err := json.Unmarshal(k.last, &c); err != nil {
			t.Fatal(err)
		}
		return c.Caller
	}
	const beat = `{"callback_url":"https://10.0.0.1:9999","agent_version":"11","agent_token":"s3cret","agent_verify_ca":"PEM"}`
	const found = `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01","name":"eth0"}],"boot":{"boot_id":"forged"}},"boot_id":"forged","from":"10.9.9.9"}`
	for path, c := range map[string]struct{ method, body string }{
		"/v1/lookup?node_uuid=" + nodeID + "&ironyard_system_uuid=U": {"GET", ""},
		"/v1/heartbeat/" + nodeID:                                    {"POST", beat},
		"/v1/continue_inspection":                                    {"POST", found},
	} {
		for prefix, id := range map[string]string{"": "", "/boot/s3cret-id": "s3cret-id"} {
			status := 202
			if c.method == "GET" {
				status = 200
			}
			b.want(status, c.method, prefix+path, "1.84", c.body)
			if got := caller(); got.BootID != id || !got.From.IsValid() || got.From.String() == "10.9.9.9" {
				t.Errorf("%s%s: the rackd was told %+v", prefix, path, got)
			}
		}
	}
	b.want(200, "GET", "/boot/s3cret-id/", "1.84", "")
	k.asked = nil
	for _, path := range []string{"/boot/x/v1/nodes", "/boot/x/v1/nodes/n1", "/boot/x/v1/nodes/n1/states", "/boot/x/boot/y/v1/lookup?node_uuid=" + nodeID, "/boot/x/v1/drivers/fake-hardware/vendor_passthru/ipxe_config?node_uuid=" + nodeID} {
		if a := b.do("GET", path, "1.84", ""); a.StatusCode != 404 || strings.Contains(a.body, nodeID) || len(k.asked) != 0 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	b, k := ramdiskBench(t, provision.DeployWait, nil)
	const path = "/v1/heartbeat/" + nodeID
	whole := `{"callback_url":"https://10.0.0.1:9999","agent_version":"11","agent_token":"s3cret","agent_verify_ca":"PEM"}`
	if a := b.want(202, "POST", path, "1.68", whole); a.body != "" || len(k.asked) != 1 || k.asked[0] != "rack-1 ramdisk_heartbeat "+nodeID {
		t.Errorf("body %q, asked %v", a.body, k.asked)
	}
	var heard agentapi.Heartbeat
	if err := json.Unmarshal(k.last, &heard); err != nil || heard.CallbackURL != "https://10.0.0.1:9999" || heard.AgentToken != "s3cret" || heard.AgentVerifyCA != "PEM" {
		t.Errorf("the rackd heard %+v, %v", heard, err)
	}
	b.want(202, "POST", "/v1/heartbeat/n1", "1.68", whole)
	b.want(202, "POST", "/v1/heartbeat", "1.68", `{"node_ident":"n1",`+whole[1:])
	b.want(202, "POST", path, "1.72", `{"callback_url":"","agent_token":"s3cret","agent_status":"start","agent_status_message":"hello"}`)
	k.asked = nil
	for name, c := range map[string]struct {
		status        int
		path, version string
		body, want    string
	}{
		"no node":              {400, "/v1/heartbeat", "1.68", whole, "Missing mandatory parameter: node_ident"},
		"a strange node":       {400, "/v1/heartbeat", "1.68", `{"node_ident":7,` + whole[1:], "node_ident"},
		"another node too":     {400, path, "1.68", `{"node_ident":"n1",` + whole[1:], "Unexpected"},
		"too old, no path":     {404, "/v1/heartbeat", "1.21", `{"node_ident":"n1",` + whole[1:], ""},
		"too old":              {404, path, "1.21", whole, ""},
		"version too early":    {400, path, "1.35", `{"callback_url":"https://x","agent_token":"t","agent_version":"1"}`, "not recognised"},
		"ca too early":         {400, path, "1.67", whole, "not recognised"},
		"status too early":     {400, path, "1.71", `{"callback_url":"","agent_token":"t","agent_status":"end"}`, "not recognised"},
		"no token":             {400, path, "1.68", `{"callback_url":"https://x"}`, "token is required"},
		"no version":           {400, path, "1.68", `{"callback_url":"https://x","agent_token":"t"}`, "did not transmit a version"},
		"no version, not even": {400, path, "1.72", `{"callback_url":null,"agent_token":"t","agent_version":null}`, "did not transmit a version"},
		"no callback":          {400, path, "1.68", `{"agent_token":"t"}`, "callback_url"},
		"a strange callback":   {400, path, "1.68", `{"callback_url":"ftp://x","agent_token":"t"}`, "callback_url"},
		"a strange status":     {400, path, "1.72", `{"callback_url":"","agent_token":"t","agent_status":"fine"}`, "start,end,error"},
		"a strange field":      {400, path, "1.72", `{"callback_url":"","agent_token":"t","colour":"red"}`, "Unexpected"},
		"a number":             {400, path, "1.72", `{"callback_url":7,"agent_token":"t"}`, "Expected string"},
		"nobody":               {404, "/v1/heartbeat/nobody", "1.68", whole, "could not be found"},
		"not the right verbs":  {405, path, "1.68", "", ""},
	} {
		method := "POST"
		if c.status == 405 {
			method = "GET"
		}
		if a := b.want(c.status, method, c.path, c.version, c.body); !strings.Contains(a.fault(t), c.want) || len(k.asked) != 0 {
			t.Errorf("%s: %s, asked %v", name, a.body, k.asked)
		}
	}
	k.refuse[ask.RamdiskHeartbeat] = 400
	b.want(400, "POST", path, "1.68", whole)
}

func TestContinueInspection(t *testing.T) {
	t.Parallel()
	b, k := ramdiskBench(t, provision.InspectWait, nil)
	const data = `{"inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01","name":"eth0"}],"cpu":{"count":4},"bmc_address":null},"extra":1}`
	if a := b.want(202, "POST", "/v1/continue_inspection", "", data); a.object(t)["uuid"] != nodeID || len(k.asked) != 1 {
		t.Errorf("%s, asked %v", a.body, k.asked)
	}
	var inv agentapi.Inventory
	if err := json.Unmarshal(k.last, &inv); err != nil || inv.Read(inv.Sent, inv.PluginData) != nil || inv.CPU.Count != 4 || inv.Interfaces[0].Name != "eth0" {
		t.Errorf("the rackd heard %+v, %v", inv, err)
	}
	if string(inv.PluginData) != `{"extra":1}` || !strings.Contains(string(inv.Sent), `"bmc_address":null`) {
		t.Errorf("the rackd heard of %s beside %s", inv.PluginData, inv.Sent)
	}
	b.want(202, "POST", "/v1/continue_inspection", "", strings.Replace(data, `"extra":1`, `"logs":"`+strings.Repeat("A", 2<<20)+`"`, 1))
	if a := b.do("POST", "/v1/continue_inspection", "", strings.Replace(data, `"extra":1`, `"extra":"`+strings.Repeat("A", maxCarried)+`"`, 1)); a.StatusCode != 413 {
		t.Errorf("data that no message holds: status %d", a.StatusCode)
	}
	other := strings.Replace(data, "00:01", "00:07", 1)
	k.asked = nil
	a := b.want(202, "POST", "/v1/continue_inspection?node_uuid="+nodeID, "1.84", other).object(t)
	if a["config"].(map[string]any)["agent_token"] != "s3cret" || len(k.asked) != 2 {
		t.Errorf("%v, asked %v", a, k.asked)
	}
	k.asked = nil
	b.want(404, "POST", "/v1/continue_inspection", "1.83", data)
	b.want(400, "POST", "/v1/continue_inspection", "1.83", `{}`)
	b.want(404, "POST", "/v1/continue_inspection", "1.84", `{"inventory":{"interfaces":[{"mac_address":"nonsense"}],"bmc_address":"192.0.2.9"}}`)
	b.want(404, "POST", "/v1/continue_inspection?node_uuid="+nodeID, "1.1", data)
	b.want(404, "POST", "/v1/continue_inspection", "1.84", other)
	for _, bad := range []string{`{}`, `{"inventory":{}}`, `{"inventory":{"interfaces":[]}}`, `{"inventory":{"interfaces":[{"name":"eth0"}]}}`,
		`{"inventory":{"interfaces":[{"mac_address":"nonsense"}]}}`, `{"inventory":{"interfaces":[7]}}`,
		strings.Replace(data, `"bmc_address":null`, `"bmc_address":7`, 1), strings.Replace(data, `"52:54:00:00:00:01"`, `null`, 1)} {
		b.want(400, "POST", "/v1/continue_inspection", "1.84", bad)
	}
	// Hooks judge what is odd, and all of it is kept.
	b.want(202, "POST", "/v1/continue_inspection", "1.84", strings.Replace(data, `{"count":4}`, `"x86"`, 1))
	if err := json.Unmarshal(k.last, &inv); err != nil || !strings.Contains(string(inv.Sent), `"cpu":"x86"`) {
		t.Errorf("the rackd heard %s, %v", inv.Sent, err)
	}
	k.asked = nil
	b.move("n1", provision.DeployWait, provision.Active, nil)
	b.want(404, "POST", "/v1/continue_inspection", "1.84", data)
	if len(k.asked) != 0 {
		t.Errorf("refused, and yet asked %v", k.asked)
	}
}

// Data goes to the one node that UUID, MAC addresses and BMC's addresses agree upon.
func TestWhoseInspectionItIs(t *testing.T) {
	t.Parallel()
	b, k := ramdiskBench(t, provision.InspectWait, nil)
	second := func(name, mac, bmc string) string {
		b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"`+name+`","driver":"fake-hardware","driver_info":{`+bmc+`}}`)
		id := b.node(name).UUID
		if mac != "" {
			b.want(201, "POST", "/v1/ports", "1.115", `{"node_uuid":"`+id+`","address":"`+mac+`"}`)
		}
		b.move(name, provision.InspectWait, provision.Manageable, nil)
		return id
	}
	n2 := second("n2", "52:54:00:00:00:02", `"redfish_address":"https://[2001:db8::1]:8443"`)
	n3 := second("n3", "", `"ipmi_address":"192.0.2.3"`)
	second("n4", "", `"ipmi_address":"192.0.2.4"`)
	second("n5", "", `"redfish_address":"192.0.2.4"`)
	second("n6", "", `"redfish_address":"bmc.example"`)
	n7 := second("n7", "", `"other_address":"192.0.2.7","ipmi_target_address":"192.0.2.8","other_username":"192.0.2.8","_address":"192.0.2.8"`)
	const mac1, mac2, stranger = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:77"
	for name, c := range map[string]struct{ query, mac, bmc, want string }{
		"its addresses":              {"", mac1, "", nodeID},
		"its UUID":                   {nodeID, stranger, "", nodeID},
		"both":                       {nodeID, mac1, "", nodeID},
		"another's address":          {nodeID, mac2, "", ""},
		"nobody's UUID":              {"99999999-2222-4333-8444-555555555555", mac1, "", ""},
		"its BMC":                    {"", stranger, "192.0.2.3", n3},
		"its BMC, in other letters":  {"", stranger, "2001:DB8:0::1", n2},
		"its BMC and its address":    {"", mac2, "2001:db8::1", n2},
		"its address, no node's BMC": {"", mac1, "192.0.2.9", nodeID},
		"its address, another's BMC": {"", mac1, "192.0.2.3", ""},
		"the BMC of two":             {"", stranger, "192.0.2.4", ""},
		"the BMC of any driver":      {"", stranger, "192.0.2.7", n7},
		"what lies behind a BMC":     {"", stranger, "192.0.2.8", ""},
		"nobody's BMC":               {"", stranger, "192.0.2.9", ""},
	} {
		k.asked = nil
		path := "/v1/continue_inspection"
		if c.query != "" {
			path += "?node_uuid=" + c.query
		}
		status := 202
		if c.want == "" {
			status = 404
		}
		b.want(status, "POST", path, "1.84", `{"inventory":{"interfaces":[{"mac_address":"`+c.mac+`"}],"bmc_address":"`+c.bmc+`"}}`)
		if len(k.asked) > 0 != (c.want != "") || c.want != "" && !strings.HasSuffix(k.asked[len(k.asked)-1], c.want) {
			t.Errorf("%s: asked %v, want %q", name, k.asked, c.want)
		}
	}
}

func TestRamdiskEndpointsCanBeOff(t *testing.T) {
	b, k := ramdiskBench(t, provision.InspectWait, func(c *Config) { c.NoRamdiskEndpoints = true })
	b.want(403, "GET", "/v1/lookup?node_uuid="+nodeID, "1.62", "")
	b.want(403, "POST", "/v1/heartbeat/"+nodeID, "1.62", `{}`)
	b.want(403, "POST", "/v1/continue_inspection", "1.84", `{}`)
	if len(k.asked) != 0 {
		t.Errorf("asked %v", k.asked)
	}
}

// A lookup has no account behind it: who knows a MAC is told what an agent needs of the node, and no
// address with a password or a signature in it.
func TestLookupShowsNoUserInfoAndNoSignatures(t *testing.T) {
	b, _ := ramdiskBench(t, provision.DeployWait, nil)
	err := b.store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		n, err := tx.Node(ctx, nodeID)
		if err != nil {
			return err
		}
		n.InstanceInfo = map[string]any{"image_source": "https://user:hush@images.example/a.qcow2?X-Signature=hush", "image_url": "https://i/?sig=hush",
			"image_checksum": "https://i/sums?token=hush", "user_data": "hush", "root_device": map[string]any{"wwn": "0x5000"}, "capabilities": map[string]any{"boot_mode": "uefi"}}
		n.Properties = map[string]any{"cpus": 4, "root_device": map[string]any{"serial": "s"}, "skip_block_devices": []any{map[string]any{"name": "/dev/sda"}},
			"firmware": []any{map[string]any{"url": "http://user:hush@fw.example/x?sig=hush#hush"}}, "odd": "HTTPS://user:hush@images.example/%zz?hush", "note": "s3://key:hush@bucket/a"}
		return tx.UpdateNode(ctx, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]answer{
		"lookup":     b.want(200, "GET", "/v1/lookup?addresses=52:54:00:00:00:01", "1.115", ""),
		"old lookup": b.want(200, "POST", "/v1/drivers/fake-hardware/vendor_passthru/lookup", "1.6", `{"version":"2","node_uuid":"`+nodeID+`","inventory":{"interfaces":[{"mac_address":"52:54:00:00:00:01"}]}}`),
	} {
		if strings.Contains(a.body, "hush") {
			t.Errorf("%s: %s", name, a.body)
		}
		n := a.object(t)["node"].(map[string]any)
		instance, properties := n["instance_info"].(map[string]any), n["properties"].(map[string]any)
		if fmt.Sprint(instance["root_device"], instance["capabilities"], properties["root_device"], properties["skip_block_devices"], properties["cpus"]) !=
			"map[wwn:0x5000] map[boot_mode:uefi] map[serial:s] [map[name:/dev/sda]] 4" {
			t.Errorf("%s: the agent misses what it reads: %v", name, n)
		}
		if !strings.Contains(a.body, "http://fw.example/x") {
			t.Errorf("%s: an address without a secret is gone: %s", name, a.body)
		}
	}
}
