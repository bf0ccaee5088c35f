package clients

import "strings"

// newerCommands are those that came after Debian 12's release: they run where the program
// has them. TestNewerCommands sends what they send wherever it runs.
func newerCommands(s *session) {
	s.run("node", "create", "--driver", "fake-hardware", "--name", "five")
	s.run("node", "manage", "five", "--wait", "60")
	for _, c := range []struct {
		needs string
		run   func(*session)
	}{
		{"shard list", shardsAndChildren}, {"node inventory save", discovered}, {"runbook create", runbooks},
		{"inspection rule create", inspectionRules}, {"node unhold", holds}, {"node service", services},
	} {
		if s.has(c.needs) {
			c.run(s)
		}
	}
	s.run("node", "delete", "five")
}

func shardsAndChildren(s *session) {
	s.run("node", "set", "five", "--shard", "s1")
	if l := s.list("shard", "list"); brief(l) != `[{"count":1,"name":"s1"}]` {
		s.t.Errorf("shards: %s", brief(l))
	}
	if l := s.list("node", "list", "--shards", "s1", "s2"); len(l) != 1 {
		s.t.Errorf("nodes of the shard: %v", l)
	}
	s.run("node", "unset", "five", "--shard")
	if !s.has("node children list") {
		return
	}
	child := brief(s.object("node", "create", "--driver", "fake-hardware", "--name", "child", "--parent-node", "five")["uuid"])
	s.want([]string{`children=["` + child + `"]`}, "node", "children", "list", "five")
	if l := s.list("node", "list", "--parent-node", brief(s.object("node", "show", "five")["uuid"])); len(l) != 1 || l[0]["name"] != "child" {
		s.t.Errorf("children: %v", l)
	}
	if l := s.list("node", "list", "--include-children"); len(l) != 2 {
		s.t.Errorf("nodes with children: %v", l)
	}
	s.run("node", "delete", "child")
}

func discovered(s *session) {
	s.run("node", "inspect", "five", "--wait", "60")
	if out := s.run("node", "inventory", "save", "five"); !strings.Contains(out, `"inventory"`) {
		s.t.Errorf("inventory: %s", out)
	}
	if s.has("node firmware list") {
		if l := s.list("node", "firmware", "list", "five"); len(l) == 0 {
			s.t.Error("no firmware components")
		}
	}
}

func runbooks(s *session) {
	const steps = `[{"interface":"bios","step":"factory_reset","args":{},"order":1}]`
	s.run("runbook", "create", "--name", "CUSTOM_RAISE", "--steps", steps, "--extra", "a=1")
	s.refused("already exists", "runbook", "create", "--name", "CUSTOM_RAISE", "--steps", steps)
	s.run("runbook", "set", "CUSTOM_RAISE", "--extra", "b=2", "--owner", "me")
	s.want([]string{"owner=me", `extra={"a":1,"b":2}`}, "runbook", "show", "CUSTOM_RAISE")
	s.run("runbook", "unset", "CUSTOM_RAISE", "--extra", "a", "--owner")
	s.want([]string{"owner=null", `extra={"b":2}`}, "runbook", "show", "CUSTOM_RAISE")
	if l := s.list("runbook", "list", "--long"); len(l) != 1 {
		s.t.Errorf("runbooks: %v", l)
	}
	if s.has("runbook trait add") {
		s.run("runbook", "trait", "add", "CUSTOM_RAISE", "CUSTOM_GOLD", "CUSTOM_OLD")
		s.run("runbook", "trait", "remove", "CUSTOM_RAISE", "CUSTOM_OLD")
		if l := s.list("runbook", "trait", "list", "CUSTOM_RAISE"); len(l) != 1 {
			s.t.Errorf("traits: %v", l)
		}
		s.refused("approved", "node", "clean", "five", "--runbook", "CUSTOM_RAISE")
		s.run("node", "trait", "add", "five", "CUSTOM_GOLD", "CUSTOM_OLD")
		s.run("node", "trait", "remove", "five", "CUSTOM_OLD")
		s.run("node", "clean", "five", "--runbook", "CUSTOM_RAISE", "--wait", "60")
		s.want([]string{"provision_state=manageable", "last_error=null"}, "node", "show", "five")
	}
	s.run("runbook", "delete", "CUSTOM_RAISE")
	s.refused("could not be found", "runbook", "show", "CUSTOM_RAISE")
}

func inspectionRules(s *session) {
	const actions = `[{"op":"set-attribute","args":{"path":"/extra/seen","value":"yes"}}]`
	id := brief(s.object("inspection", "rule", "create", "--description", "label it", "--conditions", `[]`, "--actions", actions)["uuid"])
	s.run("inspection", "rule", "set", id, "--description", "labelled")
	s.want([]string{"description=labelled", "phase=main"}, "inspection", "rule", "show", id)
	if l := s.list("inspection", "rule", "list", "--long"); len(l) != 1 {
		s.t.Errorf("rules: %v", l)
	}
	s.run("node", "inspect", "five", "--wait", "60")
	s.want([]string{`extra={"seen":"yes"}`}, "node", "show", "five")
	s.run("inspection", "rule", "unset", id, "--description")
	s.want([]string{"description=null"}, "inspection", "rule", "show", id)
	s.run("inspection", "rule", "delete", id)
	if l := s.list("inspection", "rule", "list"); len(l) != 0 {
		s.t.Errorf("rules are left: %v", l)
	}
}

func holds(s *session) {
	s.run("node", "clean", "five", "--clean-steps", `[{"interface":"deploy","step":"hold"}]`)
	s.waitFor("provision_state=clean hold", "node", "show", "five")
	s.run("node", "unhold", "five")
	s.waitFor("provision_state=manageable", "node", "show", "five")
}

func services(s *session) {
	s.run("node", "provide", "five", "--wait", "60")
	s.run("node", "set", "five", "--instance-info", "image_source=http://example.org/i.raw")
	s.run("node", "deploy", "five", "--wait", "60")
	s.run("node", "service", "five", "--wait", "60", "--service-steps", `[{"interface":"bios","step":"factory_reset"}]`)
	s.want([]string{"provision_state=active", "last_error=null"}, "node", "show", "five")
	s.run("node", "undeploy", "five", "--wait", "60")
}
