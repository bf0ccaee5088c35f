package daemon

import (
	"testing"

	"github.com/ironyard/ironyard/protocol/bus"
)

// A medium is served for as long as a rackd lives at its address that serves nodes of its group, by TLS or without.
func TestWhereMediaAreServed(t *testing.T) {
	s := mediaServer{base: "http://10.0.0.1:8080", members: func() []bus.Member {
		return []bus.Member{{Group: "g", BootURL: "http://10.0.0.2:8080", BootTLSURL: "https://10.0.0.2:8443"}, {Group: "f", BootURL: "http://10.0.0.3:8080"}, {Group: "h", BootURL: "http://10.0.0.4:8080"}}
	}, serves: func(by, group string) bool { return group == "g" && by != "h" }}
	for base, want := range map[string]bool{"": false, "http://10.0.0.1:8080": true, "https://10.0.0.1:8443": false, "http://10.0.0.2:8080": true,
		"https://10.0.0.2:8443": true, "http://10.0.0.3:8080": true, "https://10.0.0.3:8443": false, "http://10.0.0.4:8080": false} {
		if got := s.Served(base, "g"); got != want {
			t.Errorf("%q is served: %t", base, got)
		}
	}
	if s.secure = "https://10.0.0.1:8443"; !s.Served(s.TLSBase(), "g") || s.Served("", "g") {
		t.Error("its own base by TLS is not served, or none is")
	}
}
