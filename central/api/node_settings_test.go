package api

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/provision"
)

func TestNodeSettings(t *testing.T) {
	b := newBench(t)
	b.server.Nodes = NodeSettings{DefaultResourceClass: "gold", KeepAvailable: true}
	b.addNode()
	if n := b.node("n1"); n.ResourceClass != "gold" {
		t.Errorf("resource class %q", n.ResourceClass)
	}
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n2","driver":"fake-hardware","resource_class":"silver"}`)
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n3","driver":"fake-hardware","resource_class":""}`)
	if n2, n3 := b.node("n2"), b.node("n3"); n2.ResourceClass != "silver" || n3.ResourceClass != "gold" {
		t.Errorf("resource classes %q and %q", n2.ResourceClass, n3.ResourceClass)
	}
	b.server.Nodes.DefaultConductorGroup = "East"
	b.want(201, "POST", "/v1/nodes", "1.115", `{"name":"n4","driver":"fake-hardware"}`)
	b.want(201, "POST", "/v1/nodes", "1.1", `{"driver":"fake-hardware","uuid":"22222222-2222-4333-8444-555555555555"}`)
	if n4, old := b.node("n4"), b.node("22222222-2222-4333-8444-555555555555"); n4.ConductorGroup != "east" || old.ConductorGroup != "east" {
		t.Errorf("conductor groups %q and %q", n4.ConductorGroup, old.ConductorGroup)
	}
	b.move("n1", provision.Available, provision.NoState, nil)
	a := b.want(409, "DELETE", "/v1/nodes/n1", "1.115", "")
	if text := a.fault(t); !strings.Contains(text, "'manageable', 'enroll', 'adopt failed'") || strings.Contains(text, "'available'") {
		t.Errorf("refused with %s", text)
	}
	b.want(202, "PUT", "/v1/nodes/n1/maintenance", "1.115", "")
	b.want(204, "DELETE", "/v1/nodes/n1", "1.115", "")
}

func TestNodeSettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]NodeSettings{
		"":                          {DefaultConductorGroup: "Rack.1", DefaultResourceClass: "gold", Limits: dispatch.Limits{Deploys: 250, Cleans: 50}},
		"--default-conductor-group": {DefaultConductorGroup: "rack 1"},
		"at most 255 characters":    {DefaultConductorGroup: strings.Repeat("r", 256)},
		"at most 80 characters":     {DefaultResourceClass: strings.Repeat("g", 81)},
		"can be negative":           {Limits: dispatch.Limits{Cleans: -1}},
	} {
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
