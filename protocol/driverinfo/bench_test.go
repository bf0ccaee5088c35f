package driverinfo

import "testing"

// BenchmarkNewlyWrong is what a POST of a usual node with IPMI costs more.
func BenchmarkNewlyWrong(b *testing.B) {
	n := Info{UUID: "u", Fields: map[string]any{"ipmi_address": "192.0.2.1", "ipmi_port": "623", "ipmi_username": "admin", "ipmi_password": "secret", "ipmi_priv_level": "OPERATOR",
		"deploy_kernel": "http://192.0.2.9/k", "deploy_ramdisk": "http://192.0.2.9/r"}}
	interfaces := map[string]string{"power": "ipmitool", "management": "ipmitool", "boot": "ipxe", "deploy": "direct", "console": "no-console", "inspect": "agent", "network": "flat"}
	b.ReportAllocs()
	for b.Loop() {
		if wrong := NewlyWrong(n, nil, interfaces, "******"); wrong != nil {
			b.Fatal(wrong)
		}
	}
}
