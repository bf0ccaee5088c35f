package policy

import (
	"strconv"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/auth"
)

const own, lent, foreign = "own", "lent", "foreign"

func system(roles ...string) *auth.Caller { return &auth.Caller{System: true, Roles: roles} }

func project(id string, roles ...string) *auth.Caller { return &auth.Caller{Project: id, Roles: roles} }

// admin, manager, member and reader hold the lower roles too, as Keystone's do.
var (
	admin   = []string{"admin", "manager", "member", "reader"}
	manager = admin[1:]
	member  = admin[2:]
	reader  = admin[3:]
	service = []string{"service"}
)

// TestDefaults is Ironic's matrix of roles for a node that belongs to one project and is lent
// to another.
func TestDefaults(t *testing.T) {
	rules := Default("service")
	node := &Target{NodeOwner: own, NodeLessee: lent, AllocationOwner: own, RunbookOwner: own}
	callers := []struct {
		letter byte
		caller *auth.Caller
	}{{'A', system(admin...)}, {'M', system(member...)}, {'R', system(reader...)}, {'S', system(service...)},
		{'a', project(own, admin...)}, {'g', project(own, manager...)}, {'m', project(own, member...)}, {'r', project(own, reader...)}, {'s', project(own, service...)},
		{'b', project(lent, admin...)}, {'h', project(lent, manager...)}, {'n', project(lent, member...)}, {'q', project(lent, reader...)},
		{'x', project(foreign, admin...)}, {'y', project(foreign, service...)},
		{'V', &auth.Caller{Project: "p", ProjectName: "service", Roles: service}},
		{'d', &auth.Caller{Domain: "d", Roles: append(service, admin...)}}} // of a domain
	for rule, want := range map[string]string{
		"baremetal:node:create":                   "AS",
		"baremetal:node:create:self_owned_node":   "ASasbxyV",
		"baremetal:node:delete":                   "A",
		"baremetal:node:delete:self_owned_node":   "a",
		"baremetal:node:list":                     "AMRSagmrsbhnqxyV",
		"baremetal:node:list_all":                 "AMRSV",
		"baremetal:node:get":                      "AMRSagmrsbhnqV",
		"baremetal:node:get:driver_info":          "AMRSagmrsV",
		"baremetal:node:update:driver_info":       "AMSagmsV",
		"baremetal:node:update:owner":             "AMV",
		"baremetal:node:update:shard":             "A",
		"baremetal:node:update":                   "AMSagmbhnV",
		"baremetal:node:set_provision_state":      "AMSagmsbhV",
		"baremetal:node:set_power_state":          "AMSagmbhnV",
		"baremetal:node:set_boot_device":          "AMSagsV",
		"baremetal:node:vendor_passthru":          "A",
		"baremetal:port:create":                   "ASags",
		"baremetal:volume:create":                 "AMSagsbhV",
		"baremetal:volume:view_target_properties": "AMRSabxV",
		"baremetal:chassis:get":                   "AMRS",
		"baremetal:allocation:create":             "AMagmbhnxV",
		"baremetal:driver:ipa_lookup":             "AMRSagmrsbhnqxyVd",
		"baremetal:allocation:get":                "AMRSagmrV",
		"baremetal:runbook:create":                "AMSagsbhxyV",
		"baremetal:runbook:use":                   "AMSagsyV",
		"ironyard:node:redirect_secrets":          "AS",
		"show_password":                           "",
		"baremetal:no:such":                       "A",
	} {
		got := ""
		for _, c := range callers {
			if rules.For(c.caller).Allows(rule, node) {
				got += string(c.letter)
			}
		}
		if got != want {
			t.Errorf("%s: %q pass, want %q", rule, got, want)
		}
	}
}

// A file brought from Ironic says nothing of scopes: there, rules are registered for some.
func TestAFileDoesNotOpenTheSystemsRulesToProjects(t *testing.T) {
	rules, err := Default("").With([]byte(`{"baremetal:chassis:create": "role:admin", "baremetal:conductor:get": "role:reader", "baremetal:runbook:create": ""}`))
	if err != nil {
		t.Fatal(err)
	}
	ofDomain := &auth.Caller{Domain: "d", Roles: admin}
	for _, row := range []struct {
		rule   string
		caller *auth.Caller
		want   bool
	}{
		{"baremetal:chassis:create", system(admin...), true}, {"baremetal:chassis:create", project(own, admin...), false},
		{"baremetal:conductor:get", project(own, reader...), true}, {"baremetal:conductor:get", ofDomain, false},
		{"baremetal:runbook:create", project(own, reader...), true}, {"baremetal:runbook:create", ofDomain, false},
	} {
		if got := rules.For(row.caller).Allows(row.rule, &Target{}); got != row.want {
			t.Errorf("%s by %+v: %t", row.rule, row.caller, got)
		}
	}
}

// As oslo.policy has it: what was once part of a rule follows the file's expression for that, unless it has one of its own.
func TestRulesFollowTheOneThatTheyWereSplitFrom(t *testing.T) {
	for old, parts := range splitFrom {
		for _, name := range append(parts, old) {
			if !Default("").Known(name) {
				t.Errorf("there is no rule %s", name)
			}
		}
	}
	auditor := project(foreign, "auditor")
	for text, want := range map[string]bool{
		`{}`:                                     false,
		`{"baremetal:node:get": "role:auditor"}`: true,
		`{"baremetal:node:get": "role:auditor", "baremetal:node:get:driver_info": "role:admin"}`: false,
		`{"baremetal:node:get": "rule:baremetal:node:get:driver_info"}`:                          false,
	} {
		rules, err := Default("").With([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := rules.For(auditor).Allows("baremetal:node:get:driver_info", &Target{NodeOwner: own}); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestTheServiceProjectIsOffUnlessNamed(t *testing.T) {
	c := &auth.Caller{Project: "p", ProjectName: "service", Roles: service}
	if Default("").For(c).Allows("baremetal:node:list_all", &Target{}) {
		t.Error("the service role of a project passes for one of the system")
	}
}

func TestWhatIsKnownOfTheCallerIsDecidedOnce(t *testing.T) {
	rules := Default("")
	if d := rules.For(system(admin...)).Decide("baremetal:node:get"); !d.Always() {
		t.Error("an administrator's right to read depends on the node")
	}
	if d := rules.For(project(own, admin...)).Decide("baremetal:node:delete"); !d.Never() {
		t.Error("a tenant's wish to delete depends on the node")
	}
	d := rules.For(project(own, admin...)).Decide("baremetal:node:get")
	if d.Always() || d.Never() || !d.Allows(&Target{NodeLessee: own}) || d.Allows(&Target{}) {
		t.Error("a tenant's right to read does not depend on the node as it should")
	}
	if d := rules.For(project("", reader...)).Decide("baremetal:node:get"); d.Allows(&Target{}) {
		t.Error("a caller without a project reads nodes without an owner")
	}
}

func TestExpressions(t *testing.T) {
	c := &auth.Caller{User: "u", UserID: "u-1", Project: own, ProjectName: "demo", Domain: "default", Roles: []string{"a", "b"}}
	for text, want := range map[string]bool{
		"":                                  true,
		"@":                                 true,
		"!":                                 false,
		"role:a":                            true,
		"role:A":                            true,
		"not role:c":                        true,
		"not not role:a":                    true,
		"role:c or role:a and role:b":       true,
		"role:a or role:c and role:c":       true, // "and" binds closer
		"(role:a or role:c) and role:c":     false,
		"not (role:a and role:b) or role:c": false,
		"((role:a))":                        true,
		"user_id:u-1 AND project_name:demo": true,
		"'demo':%(project_name)s":           true,
		"'lab':%(node.owner)s":              true,
		"project_id:%(node.lessee)s":        false,
		"project_id:%(project_id)s":         true,
		"system_scope:all":                  false,
		"domain_id:default and rule:mine":   true,
		"project_name:%(config.service_project_name)s": false,
	} {
		rules, err := Default("").With([]byte("mine: 'role:b'\nx: \"" + text + "\""))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := rules.For(c).Allows("x", &Target{NodeOwner: "lab"}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestErrorsInAFileNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"\"baremetal:node:get\": \"role:a\"\n\"baremetal:node:gett\": \"role:a\"": "line 2: there is no rule baremetal:node:gett",
		"x: role:a\n\ny: role:a and":           "line 3: y: the expression ends where",
		"x: (role:a":                           "line 1: x: a parenthesis is not closed",
		"x: role:a)":                           `line 1: x: unexpected ")" after`,
		"x: role:a role:b":                     `line 1: x: unexpected "role:b" after`,
		"x: admin":                             `line 1: x: "admin" is not a check`,
		"x: project_id:%(node.oner)s":          "unknown %(name)s",
		"x: colour:red":                        "unknown attribute of the caller",
		"x: project_id:a%(node.owner)s":        "must be the whole value",
		"x: rule:y":                            "line 1: x refers to rule:y, which does not exist",
		"x: rule:y\ny: rule:x":                 "refers to itself",
		"x: role:a\nx: role:b":                 "line 2: rule x is there twice, first in line 1",
		"x: [role:a]":                          "line 1: x: the expression must be a string",
		"- x":                                  "line 1: the file must map",
		"{\"x\": 1}":                           "line 1: x: the expression must be a string",
		"x: " + strings.Repeat("(", 200) + "@": "parentheses",
	} {
		if _, err := Default("").With([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
	}
}

func TestAFileReplacesRules(t *testing.T) {
	for _, text := range []string{`{"baremetal:node:create": "role:maker"}`, "# who makes nodes\nbaremetal:node:create: role:maker\n"} {
		base := Default("")
		rules, err := base.With([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		maker := project(own, "maker")
		if !rules.For(maker).Allows("baremetal:node:create", &Target{}) || base.For(maker).Allows("baremetal:node:create", &Target{}) ||
			rules.For(system(admin...)).Allows("baremetal:node:create", &Target{}) || !rules.For(system(admin...)).Allows("baremetal:node:delete", &Target{}) {
			t.Errorf("%s: the file does not replace the one rule and leave the others", text)
		}
	}
	if _, err := Default("").With([]byte("# nothing\n")); err != nil {
		t.Errorf("a file of comments: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range defaults {
		f.Add(text)
	}
	f.Add("not ( 'a':%(node.owner)s or !")
	c := project(own, reader...)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse(text)
		if err != nil {
			return
		}
		r := &Rules{exprs: map[string]*expr{"x": e}}
		d := r.For(c).Decide("x")
		if d.Always() && !d.Allows(&Target{}) || d.Never() && d.Allows(&Target{NodeOwner: own}) {
			t.Errorf("%q: decided and undecided differ", text)
		}
	})
}

// What is remembered of one caller is not what another gets, however alike they are.
func TestCallersAreToldApart(t *testing.T) {
	rules, node := Default("service"), &Target{NodeOwner: own}
	for _, rule := range []string{"baremetal:node:get", "baremetal:node:create"} {
		for range 2 {
			for c, want := range map[*auth.Caller]bool{
				system(reader...): rule == "baremetal:node:get", project(own, reader...): rule == "baremetal:node:get", project(foreign, reader...): false,
				project("", own, "reader"): false, project("", own+"reader"): false, project(own, "read", "er"): false,
				{ProjectName: own, Roles: reader}: false, {UserID: own, Roles: reader}: false, {System: true}: false, system(admin...): true,
			} {
				if got := rules.For(c).Allows(rule, node); got != want {
					t.Errorf("%s for %+v: %t, want %t", rule, c, got, want)
				}
			}
		}
	}
}

func TestFewCallersAreRemembered(t *testing.T) {
	rules := Default("")
	first := rules.For(project(own, reader...))
	if rules.For(project(own, reader...)) != first {
		t.Error("a caller is not remembered")
	}
	for i := range 3 * maxViews {
		rules.For(project(strconv.Itoa(i), reader...))
	}
	if n := len(rules.views.known); n > maxViews {
		t.Errorf("%d callers are remembered, want %d at most", n, maxViews)
	}
}

func BenchmarkTenantPerNode(b *testing.B) {
	v := Default("").For(project(own, reader...))
	node := &Target{NodeOwner: foreign, NodeLessee: own}
	for b.Loop() {
		if !v.Allows("baremetal:node:get", node) {
			b.Fatal("denied")
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	rules, c := Default(""), project(own, reader...)
	for b.Loop() {
		rules.For(c).Decide("baremetal:node:get")
	}
}
