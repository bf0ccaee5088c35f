package join

import "testing"

func TestAddresses(t *testing.T) {
	for text, want := range map[string][3]string{
		"hub.example":       {"hub.example:4222", "hub.example:6222", "hub.example:7422"},
		"10.0.0.1":          {"10.0.0.1:4222", "10.0.0.1:6222", "10.0.0.1:7422"},
		"10.0.0.1:4223":     {"10.0.0.1:4223", "10.0.0.1:6223", "10.0.0.1:7423"},
		"fd00::1":           {"[fd00::1]:4222", "[fd00::1]:6222", "[fd00::1]:7422"},
		"[fd00::1]:5000":    {"[fd00::1]:5000", "[fd00::1]:7000", "[fd00::1]:8200"},
		"hub.example:62335": {"hub.example:62335", "hub.example:64335", "hub.example:65535"},
	} {
		a, err := ParseAddress(text)
		if got := [3]string{a.Client(), a.Cluster(), a.Leaf()}; err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a b", "a:", "a:0", "a:x", "a:62336", "a:-1", ":4222", "[::1]", "a:1:2", `"`, "-a"} {
		if a, err := ParseAddress(text); err == nil {
			t.Errorf("%q is an address: %+v", text, a)
		}
	}
}
