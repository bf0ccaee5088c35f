package driverinfo

import (
	"strings"
	"testing"
)

// A refusal of central stands in answers, in its log and in the audit. Who mistakes an address for a URL with a password in it, or sends
// a megabyte, finds neither there.
func TestRefusalsTellNoPasswordAndNoMegabyte(t *testing.T) {
	interfaces := map[string]string{"power": "ipmitool", "management": "redfish", "console": "irmc", "boot": "msftocs", "vendor": "ssh", "raid": "snmp", "deploy": "seamicro"}
	for _, value := range []string{"admin:s3cret@192.0.2.1", "https://admin:s3cret@h:x/redfish/v1/Systems/1", "HTTP://ADMIN:S3CRET@H:X", "a\"dmin:s3cret@\\h", strings.Repeat("/x", 1<<15), strings.Repeat("é", 1<<15), strings.Repeat("@", 1<<15),
		strings.Repeat("a", 1<<16) + "://h"} {
		refused := 0
		Each(func(field string, readers []string) {
			fields := map[string]any{field: value, "ipmi_bridging": "dual", "snmp_version": "3"}
			fields[field] = value
			for _, r := range NewlyWrong(Info{UUID: "u", Fields: fields}, map[string]any{"ipmi_bridging": "dual", "snmp_version": "3"}, interfaces, "******") {
				refused++
				if told := r.Told(); strings.Contains(strings.ToLower(told), "s3cret") || len(told) > longestTold+len("…") || told == "" {
					t.Errorf("%s: %.300s", field, told)
				}
			}
		})
		if refused < 10 {
			t.Errorf("%.40q was refused %d times: it is not tried", value, refused)
		}
	}
	if told := (Refusal{`ipmi_port "abc" is not a valid integer`, "abc"}).Told(); told != `ipmi_port "abc" is not a valid integer` {
		t.Errorf("of a usual value it says %q", told)
	}
	if told := (Refusal{Why: `Invalid IPMI address "a:b@h": must be`, Value: "a:b@h"}).Told(); told != `Invalid IPMI address "******@h": must be` {
		t.Errorf("%q", told)
	}
}
