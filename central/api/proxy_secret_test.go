package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/provision"
)

// A password in the address of a proxy is shown to those alone who see passwords. It stays where a client sends back what it was shown, and
// goes to no other proxy.
func TestPasswordsOfProxiesAreMaskedAndKept(t *testing.T) {
	const at, shown = "http://user:hunter2@proxy.example:3128", "http://user:******@proxy.example:3128"
	b := newBench(t)
	b.addNode()
	b.move("n1", provision.Manageable, "", nil)
	const n = "/v1/nodes/n1"
	look := func(a answer, want string) {
		t.Helper()
		o := a.object(t)
		for _, field := range []string{"driver_info", "instance_info"} {
			info, _ := o[field].(map[string]any)
			if info["image_https_proxy"] != want || info["image_no_proxy"] != "a.example" {
				t.Errorf("%s shows %v, want %s", field, info, want)
			}
		}
	}
	stored := func() string {
		n := b.node("n1")
		if n.DriverInfo["image_https_proxy"] != n.InstanceInfo["image_https_proxy"] {
			t.Errorf("%v and %v are stored", n.DriverInfo, n.InstanceInfo)
		}
		return n.DriverInfo["image_https_proxy"].(string)
	}
	both := func(op, key, value string) string {
		return `[{"op":"` + op + `","path":"/driver_info` + key + `","value":` + value + `},{"op":"` + op + `","path":"/instance_info` + key + `","value":` + value + `}]`
	}
	whole := func(proxy string) string { return `{"image_https_proxy":"` + proxy + `","image_no_proxy":"a.example"}` }
	look(b.want(200, "PATCH", n, "1.115", both("replace", "", whole(at))), shown)
	look(b.want(200, "GET", n, "1.115", ""), shown)
	if list := b.want(200, "GET", "/v1/nodes?fields=driver_info,instance_info", "1.115", ""); strings.Contains(list.body, "hunter2") {
		t.Errorf("the list shows %s", list.body)
	}
	look(b.want(200, "PATCH", n, "1.115", both("replace", "", whole(shown))), shown)
	if got := stored(); got != at {
		t.Errorf("what was shown was sent back, and %s is stored", got)
	}
	for _, other := range []string{"http://user:******@evil.example:3128", "http://user:******@proxy.example:80", "http://eve:******@proxy.example:3128", "user:******@proxy.example:3128"} {
		if a := b.want(400, "PATCH", n, "1.115", `[{"op":"replace","path":"/driver_info/image_https_proxy","value":"`+other+`"}]`); !strings.Contains(a.fault(t), "the mask") {
			t.Errorf("%s: %s", other, a.body)
		}
	}
	b.want(400, "PATCH", n, "1.115", `[{"op":"add","path":"/driver_info/image_http_proxy","value":"`+shown+`"}]`)
	b.want(400, "POST", "/v1/nodes", "1.115", `{"driver":"fake-hardware","driver_info":{"image_http_proxy":"`+shown+`"}}`)
	look(b.want(200, "PATCH", n, "1.115", both("replace", "/image_https_proxy", `"http://proxy.example:3128"`)), "http://proxy.example:3128")
	if got := stored(); got != "http://proxy.example:3128" {
		t.Errorf("%s is stored", got)
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the log has it")
	}

	// In a list it could not be told from others, as no secret can. An error repeats none.
	for _, field := range []string{"http_proxy", "proxies"} {
		a := b.want(400, "PATCH", n, "1.115", `[{"op":"add","path":"/driver_info/`+field+`","value":["a",["`+at+`"]]}]`)
		if !strings.Contains(a.fault(t), "in a list") || strings.Contains(a.body, "hunter2") {
			t.Errorf("%s: %s", field, a.body)
		}
	}
	const template = "/v1/deploy_templates/CUSTOM_T"
	steps := `[{"interface":"raid","step":"x","priority":10,"args":{"deep":[{"proxy":"` + at + `"}],"proxies":["` + at + `"]}}]`
	answers := []answer{b.want(201, "POST", "/v1/deploy_templates", "1.115", `{"name":"CUSTOM_T","steps":`+steps+`}`),
		b.want(200, "PATCH", template, "1.115", `[{"op":"replace","path":"/steps","value":`+strings.ReplaceAll(steps, at, shown)+`}]`)}
	for _, a := range answers {
		if !strings.Contains(a.body, shown) || strings.Contains(a.body, "hunter2") {
			t.Errorf("a template shows %s", a.body)
		}
	}
	b.want(400, "PATCH", template, "1.115", `[{"op":"replace","path":"/steps/0/step","value":"y"},{"op":"replace","path":"/steps/0/args/deep","value":[{"proxy":"`+shown+`"}]}]`)
	if kept := b.strings("SELECT CAST(steps AS TEXT) FROM deploy_templates"); len(kept) != 1 || !strings.Contains(kept[0], at) {
		t.Errorf("%q is stored", kept)
	}
}
