package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/provision"
)

// What a refusal repeats of a request goes to the log and the audit. No secret is in it, wherever in the request it stood.
func TestRefusalsRepeatNoSecret(t *testing.T) {
	const secret = "90210731"
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Active, provision.NoState, nil)
	const n, states = "/v1/nodes/n1", "/v1/nodes/n1/states/provision"
	for _, c := range []struct{ method, path, body string }{
		{"PUT", states, `{"target":"rescue","rescue_password":90210731}`},
		{"PUT", states, `{"target":"rescue","rescue_password":["90210731"]}`},
		{"PUT", states, `{"target":"rebuild","configdrive":["90210731"]}`},
		{"PUT", states, `{"target":{"password":"90210731"}}`},
		{"PUT", states, `{"target":"service","service_steps":[{"interface":"nope","step":"x","args":{"password":"90210731"}}]}`},
		{"PUT", states, `{"target":"service","service_steps":[{"interface":"deploy","step":"x","args":"password=90210731"}]}`},
		{"PUT", states, `{"target":"service","service_steps":[{"interface":{"password":"90210731"},"step":"x"}]}`},
		{"PATCH", n, `[{"op":"add","path":"/driver_info/redfish_password/0","value":"90210731"}]`},
		{"PATCH", n, `[{"op":"remove","path":"/driver_info/redfish_password/a/b","value":"90210731"}]`},
		{"PATCH", n, `[{"op":"dance","path":"/driver_info/redfish_password","value":"90210731"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/driver_info/redfish password","value":"90210731"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/driver_info","value":"redfish_username=a redfish_password: 90210731"}]`},
		{"PATCH", n, `[{"path":"/driver_info/redfish_password","value":"90210731"}]`},
		{"PATCH", n, `{"op":"add","path":"/driver_info/redfish_password","value":"90210731"}`},
		{"PATCH", n, `[{"op":"add","path":"/driver_info/image_http_proxy/0","value":"http://u:90210731@proxy"}]`},
		{"PATCH", n, `[{"op":"remove","path":"/instance_info/image_https_proxy/a","value":"u:90210731@proxy"}]`},
		{"PATCH", n, `[{"op":"dance","path":"/driver_info/image_http_proxy","value":"http://u:90210731@proxy"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/instance_info","value":"image_http_proxy=http://u:90210731@proxy"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/instance_info","value":[{"image_http_proxy":"http://u:90210731@proxy"}]}]`},
		{"PATCH", n, `{"op":"add","path":"/instance_info/image_http_proxy","value":"http://u:90210731@proxy"}`},
		{"PATCH", n, `[{"op":"add","path":"/instance_info/list","value":[{"image_http_proxy":"http://u:90210731@proxy"}]}]`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":"image_http_proxy=http://u:90210731@proxy"}`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":{"image_http_proxy":"ftp://u:90210731@proxy"},"deploy_interface":"direct"}`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":{"redfish_password":["90210731"]}}`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":"redfish_password=90210731"}`},
		{"PATCH", n, `[{"op":"add","path":"/instance_info/image_source/0","value":"https://u:90210731@images/a.raw"}]`},
		{"PATCH", n, `[{"op":"dance","path":"/instance_info/image_source","value":"https://u:90210731@images/a.raw"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/instance_info","value":"a https://u:90210731@images/a.raw"}]`},
		{"PATCH", n, `[{"op":"replace","path":"/instance_info","value":[{"x":["https://u:90210731@images/a.raw"]}]}]`},
		{"PATCH", n, `[{"op":"add","path":"/instance_info/list","value":["https://u:90210731@images/a.raw"]}]`},
		{"PATCH", n, `{"op":"add","path":"/instance_info/image_source","value":"https://u:90210731@images/a.raw"}`},
		{"POST", "/v1/nodes", `{"driver":"fake-hardware","driver_info":"https://u:90210731@images/a.raw"}`},
		{"PUT", states, `{"target":"service","service_steps":[{"interface":"nope","step":"x","args":{"url":"https://u:90210731@images/a.bin"}}]}`},
		{"PUT", states, `{"target":"service","service_steps":[{"interface":"deploy","step":"x","args":"https://u:90210731@images/a.bin"}]}`},
		{"PUT", states, `{"target":"service","service_steps":"https://u:90210731@images/a.bin"}`},
		{"PUT", states, `{"target":"https://u:90210731@images/a.bin"}`},
		{"POST", n + "/vmedia", `{"device_type":"cdrom","image_url":"ftp://user:90210731@host/x.iso"}`},
		{"POST", n + "/vmedia", `{"device_type":"cdrom","image_url":"ftp://host/x.iso?sig=90210731"}`},
		{"POST", "/v1/heartbeat/n1", `{"callback_url":"http://x","agent_token":90210731}`},
		{"POST", "/v1/heartbeat/n1", `{"callback_url":"http://x","agent_token":["90210731"]}`},
		{"POST", n + "/vendor_passthru/heartbeat", `{"agent_url":"http://x","agent_token":90210731}`},
		{"POST", "/v1/volume/targets", `{"node_uuid":"` + nodeID + `","volume_type":"iscsi","boot_index":0,"volume_id":"1","properties":{"auth_password":["90210731"]}}`},
		{"POST", "/v1/inspection_rules", `{"actions":[{"op":"set-attribute","args":{"path":"/driver_info/redfish_password","value":"90210731","colour":1}}]}`},
	} {
		b.log.Reset()
		a := b.do(c.method, c.path, "1.115", c.body)
		if a.StatusCode < 400 || a.StatusCode >= 500 {
			t.Errorf("%s %s %s: status %d, want a refusal", c.method, c.path, c.body, a.StatusCode)
		}
		if strings.Contains(a.body, secret) || strings.Contains(b.log.String(), secret) {
			t.Errorf("%s %s %s: the refusal repeats it: %s", c.method, c.path, c.body, a.body)
		}
	}
	if kept := b.strings("SELECT error FROM audit WHERE error LIKE '%" + secret + "%'"); len(kept) > 0 {
		t.Errorf("the audit has %q", kept)
	}
}

// Not every caller who may see the media of a node may load their images.
func TestMediaAreShownWithoutCredentials(t *testing.T) {
	b := newBench(t)
	b.addNode()
	cfg := b.server.Config
	cfg.Ask = askerFunc(func(q ask.Request) (json.RawMessage, error) {
		return json.RawMessage(`[{"media_types":["CD"],"inserted":true,"image":"https://user:hunter2@images.example/boot.iso?sig=hunter2#hunter2"}]`), nil
	})
	b.server = New(cfg)
	if a := b.want(200, "GET", "/v1/nodes/n1/vmedia", "1.115", ""); strings.Contains(a.body, "hunter2") || !strings.Contains(a.body, `"https://images.example/boot.iso"`) {
		t.Errorf("the media are shown as %s", a.body)
	}
}
