package fleet

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"name":     func(c *Config) { c.Name = "A b" },
		"machines": func(c *Config) { c.Machines = 0 },
		"network":  func(c *Config) { c.Network = netip.MustParsePrefix("127.80.0.0/28") },
		"IPv6":     func(c *Config) { c.Network = netip.MustParsePrefix("fd00::/64") },
		"port":     func(c *Config) { c.AgentPort = c.BMCPort },
		"password": func(c *Config) { c.Password = "" },
	} {
		c := Default
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestEveryMachineIsItsOwn(t *testing.T) {
	c := Default
	c.Machines, c.Light = 1000, true
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range f.Members {
		for _, id := range []string{m.Name, m.UUID, m.MAC, m.Address.String()} {
			if seen[id] {
				t.Fatalf("%s belongs to two machines", id)
			}
			seen[id] = true
		}
		if !c.Network.Contains(m.Address) || f.Member(m.Name) != m {
			t.Fatalf("%+v", m)
		}
	}
	if e := f.Enrolment(f.Members[999]); e.Name != "sim-0999" || e.DriverInfo["redfish_address"] != "https://127.80.3.232:8443" || e.MACs[0] != "02:1f:7f:50:03:e8" {
		t.Errorf("enrolment %+v", e)
	}
}

// A write to a BMC reaches its machine and the journal; a session is no write.
func TestBMCs(t *testing.T) {
	c := Default
	c.Machines, c.Light, c.Network, c.BMCPort = 3, true, netip.MustParsePrefix("127.83.0.0/16"), 18443
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- f.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-done:
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	post := func(path, body string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.83.0.2:18443/redfish/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(c.User, c.Password)
		req.Header.Set("X-Ironyard-Work", "w-1")
		req.Header.Set("X-Ironyard-Epoch", "4")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if code := post("/SessionService/Sessions", `{"UserName":"admin","Password":"`+c.Password+`"}`); code != http.StatusCreated {
		t.Errorf("session: %d", code)
	}
	if code := post("/Systems/1/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`); code != http.StatusNoContent {
		t.Errorf("reset: %d", code)
	}
	for i, m := range f.Members {
		if m.Machine.On() != (i == 1) {
			t.Errorf("%s: on %t", m.Name, m.Machine.On())
		}
	}
	all := f.Journal.After(0, 0)
	if len(all) != 2 || all[0].Kind != journal.BMCWrite || all[0].Machine != "sim-0001" || all[0].Work != "w-1" || all[0].Epoch != "4" || all[0].Status != 204 ||
		all[1].Kind != journal.PowerOn {
		t.Errorf("journal %+v", all)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if f.Members[1].Machine.On() {
		t.Error("a machine is on after the fleet's end")
	}
}
