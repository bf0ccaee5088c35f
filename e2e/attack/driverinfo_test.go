package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Values of driver_info are judged when they are set. A tenant who sets hostile ones costs central no more than other requests, brings no
// secret into a log, and loses no node: what was refused changes nothing.
func TestHostileDriverInfo(t *testing.T) {
	y, ctx := theYard(t), t.Context()
	const secret = "hunter2-in-a-value"
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": "judged", "driver": "redfish", "conductor_group": groupB, "owner": "tenant-j",
		"driver_info": map[string]any{"redfish_address": "https://" + addresses["operator"] + ":1", "redfish_username": "u", "redfish_password": "p"}}, &n); err != nil {
		t.Fatal(err)
	}
	owner := y.operator.as(y.token("owners", "tenant-j"))
	before, err := y.operator.node(ctx, n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("A", 900<<10)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	slowest, most, over := time.Duration(0), 0, []string{}
	for name, body := range map[string]string{
		"large":               fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_auth_type","value":%q}]`, large),
		"large brackets":      fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_system_id","value":"%s"}]`, strings.Repeat("../", 300<<10)),
		"large PEM":           fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_verify_ca","value":%q}]`, strings.Repeat("-----BEGIN CERTIFICATE-----\n", 30<<10)),
		"large address":       fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_address","value":"%s"},{"op":"add","path":"/driver_info/redfish_password","value":"p"}]`, strings.Repeat(":", 900<<10)),
		"deep":                fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_auth_type","value":%s}]`, deep),
		"a number":            `[{"op":"add","path":"/driver_info/redfish_auth_type","value":1e999}]`,
		"a large number":      fmt.Sprintf(`[{"op":"add","path":"/driver_info/redfish_auth_type","value":1%s}]`, strings.Repeat("0", 500<<10)),
		"an object":           `[{"op":"add","path":"/driver_info/redfish_auth_type","value":{"a":{"b":"c"}}}]`,
		"twice":               `[{"op":"add","path":"/driver_info","value":{"redfish_auth_type":"auto","redfish_auth_type":"x"}}]`,
		"credentials in it":   `[{"op":"add","path":"/driver_info/redfish_address","value":"https://u:` + secret + `@h:x"},{"op":"add","path":"/driver_info/redfish_password","value":"p"}]`,
		"a user in it":        `[{"op":"add","path":"/driver_info/redfish_address","value":"https://u:` + secret + `@h"},{"op":"add","path":"/driver_info/redfish_password","value":"p"}]`,
		"a URL for an id":     `[{"op":"add","path":"/driver_info/redfish_system_id","value":"https://u:` + secret + `@h/redfish/v1/Systems/1"}]`,
		"no place for it":     `[{"op":"replace","path":"/driver_info/ilo_password","value":"` + secret + `"}]`,
		"below a text":        `[{"op":"add","path":"/driver_info/redfish_password/x","value":"` + secret + `"}]`,
		"escape sequences":    `[{"op":"add","path":"/driver_info/redfish_identity","value":"\u001b]0;x\u0007\r\nlevel=ERROR msg=forged"}]`,
		"a historic driver":   `[{"op":"add","path":"/driver","value":"pxe_ipmitool"},{"op":"add","path":"/driver_info/ipmi_port","value":"` + secret + `"}]`,
		"moved":               `[{"op":"move","from":"/driver_info/redfish_username","path":"/driver_info/redfish_auth_type"}]`,
		"copied":              `[{"op":"copy","from":"/driver_info/redfish_password","path":"/driver_info/redfish_auth_type"}]`,
		"a secret's new name": `[{"op":"copy","from":"/driver_info/redfish_password","path":"/extra/x"}]`,
		"within":              `[{"op":"add","path":"/driver_info/redfish_auth_type/x","value":"x"}]`,
		"from extra":          `[{"op":"add","path":"/extra/y","value":"x"},{"op":"copy","from":"/extra/y","path":"/driver_info/redfish_identity"}]`,
	} {
		began := time.Now()
		status, said, err := owner.do(ctx, "PATCH", "/v1/nodes/"+n.UUID, []byte(body))
		took := time.Since(began)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		slowest, most = max(slowest, took), max(most, len(said))
		if status/100 == 2 || status/100 == 5 {
			over = append(over, fmt.Sprintf("%s: %d", name, status))
		}
		if took > 5*time.Second || len(said) > 16<<10 {
			t.Logf("%s: %d, %s, %d bytes: %.200s", name, status, took, len(said), said)
		}
	}
	slices.Sort(over)
	after, err := y.operator.node(ctx, n.UUID)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(before.DriverInfo)
	b, _ := json.Marshal(after.DriverInfo)
	judge(t, line{144, tenant, "hostile values of driver_info", fmt.Sprintf("taken %v, slowest %s, longest answer %d bytes, changed %t", over, slowest.Round(time.Millisecond), most, string(a) != string(b)),
		"none, 5 s, 16 KiB", len(over) > 0 || slowest > 5*time.Second || most > 16<<10 || string(a) != string(b)})
	if status, said, err := y.operator.do(ctx, "PATCH", "/v1/nodes/"+n.UUID, []map[string]any{{"op": "add", "path": "/driver_info/redfish_auth_type", "value": "basic"}}); err != nil || status != http.StatusOK {
		t.Errorf("after all that a good value: %d %s %v", status, said, err)
	}
	log, err := os.ReadFile(y.file("central.log"))
	if err != nil {
		t.Fatal(err)
	}
	status, audit, err := y.operator.do(ctx, "GET", "/v1/audit?limit=1000", nil)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{"log": strings.Contains(string(log), secret), "audit": strings.Contains(audit, secret), "a forged line": strings.Contains(string(log), "\nlevel=ERROR msg=forged")}
	judge(t, line{144, tenant, "bring a secret of a refused value into logs", fmt.Sprintf("%v (the audit answers %d)", in, status), "nowhere", in["log"] || in["audit"] || in["a forged line"]})
}
