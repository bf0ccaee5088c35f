package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// volumes and settings are interfaces with scripted steps.
type volumes struct {
	driver.RAID
	steps []driver.Step
}

func (v volumes) NamedSteps(*node.Document) []driver.Step { return slices.Clone(v.steps) }

type settings struct {
	driver.BIOS
	steps []driver.Step
}

func (s settings) NamedSteps(*node.Document) []driver.Step { return slices.Clone(s.steps) }

// ramdisk is a deploy interface with an agent: the fact "agent" holds what it offers.
type ramdisk struct{ driver.Deploy }

func (ramdisk) NamedSteps(*node.Document) []driver.Step { return nil }

func step(kind, name string, priority int) driver.Step {
	return driver.Step{Interface: kind, Name: name, Priority: priority,
		Run: func(context.Context, *driver.Task) (driver.Outcome, error) { return driver.Done(), nil }}
}

func (ramdisk) DeploySteps(*node.Document) []driver.Step {
	up := step("deploy", "deploy", 100)
	up.Discovers = true
	return []driver.Step{step("deploy", "fetch", 110), up, step("deploy", "write_image", 80), step("deploy", "boot_instance", 20)}
}

func (ramdisk) Up(*node.Document, driver.Flows) []driver.Step {
	up := step("deploy", "up", 0)
	up.Discovers = true
	return []driver.Step{up}
}

func (ramdisk) Down(*node.Document, driver.Flows) []driver.Step {
	return []driver.Step{step("deploy", "down", 0)}
}

func (ramdisk) Offered(facts map[string]string, f driver.Flows) (steps []driver.Step, ok bool, err error) {
	raw, ok := facts["agent"]
	if !ok {
		return nil, false, nil
	}
	if err := json.Unmarshal([]byte(raw), &steps); err != nil {
		return nil, false, err
	}
	for i := range steps {
		steps[i].InBand, steps[i].In = true, f
	}
	return steps, true, nil
}

// request is one about a node with a raid and a bios interface, with the ramdisk's
// agent or, without one, on fake hardware.
func request(t *testing.T, agent bool, asked ...driver.AskedStep) *Request {
	t.Helper()
	f := fake.New(fake.Options{})
	kinds := map[string][]driver.Named{}
	for _, kind := range []string{"power", "management", "boot", "deploy"} {
		kinds[kind] = []driver.Named{{Name: "fake", Impl: f.Interface(kind)}}
	}
	if agent {
		kinds["deploy"] = []driver.Named{{Name: "agent", Impl: ramdisk{f.Interface("deploy").(driver.Deploy)}}}
	}
	create := step("raid", "create", 0)
	create.NoRamdisk = true
	create.Takes = map[string]driver.Argument{"size": {Description: "GiB", Required: true}, "name": {Description: "of the volume"}}
	create.Check = func(n *node.Document, args map[string]any) error {
		if args["size"] != 1 {
			return fmt.Errorf("node %s: the size is %v", n.UUID, args["size"])
		}
		return nil
	}
	reset := step("bios", "reset", 30)
	reset.In = driver.InClean
	check := step("bios", "check", 5)
	check.In = driver.InVerify
	kinds["raid"] = []driver.Named{{Name: "m", Impl: volumes{f.Interface("raid").(driver.RAID), []driver.Step{create, step("raid", "wipe", 30)}}}}
	kinds["bios"] = []driver.Named{{Name: "m", Impl: settings{f.Interface("bios").(driver.BIOS), []driver.Step{reset, check}}}}
	reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: kinds})
	if err != nil {
		t.Fatal(err)
	}
	n := &node.Document{UUID: "n-1", Driver: "t"}
	hw, err := reg.Resolve(n)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Hardware: hw, Node: n, Facts: map[string]string{}, Asked: asked,
		Own: func(a driver.AskedStep) (driver.Step, bool) { return step(a.Interface, a.Step, 0), a.Step == "reboot" }}
}

func names(steps []driver.Step) string {
	var out []string
	for _, s := range steps {
		out = append(out, name(s))
	}
	return strings.Join(out, " ")
}

func TestCleaning(t *testing.T) {
	for _, c := range []struct {
		name       string
		agent      bool
		offers     string
		priorities map[string]int
		want       string
	}{
		{"without an agent", false, "", nil, "bios.reset raid.wipe deploy.erase_devices"},
		{"before the agent", true, "", nil, "deploy.up bios.reset raid.wipe deploy.down"},
		{"with the agent's", true, `[{"Interface":"deploy","Name":"erase","Priority":40},{"Interface":"deploy","Name":"burn","Priority":0},{"Interface":"raid","Name":"wipe","Priority":99}]`, nil,
			"deploy.up deploy.erase bios.reset raid.wipe deploy.down"},
		{"other priorities", true, `[{"Interface":"deploy","Name":"erase","Priority":40},{"Interface":"deploy","Name":"burn","Priority":0}]`,
			map[string]int{"deploy.erase": 0, "deploy.burn": 1, "bios.reset": 29}, "deploy.up raid.wipe bios.reset deploy.burn deploy.down"},
	} {
		r := request(t, c.agent)
		if r.Priorities = c.priorities; c.offers != "" {
			r.Facts["agent"] = c.offers
		}
		if steps, err := r.Clean(); err != nil || names(steps) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, names(steps), err, c.want)
		}
	}
}

func TestListedSteps(t *testing.T) {
	size := map[string]any{"size": 1}
	raid := driver.AskedStep{Interface: "raid", Step: "create", Args: size}
	erase := driver.AskedStep{Interface: "deploy", Step: "erase"}
	offers := `[{"Interface":"deploy","Name":"erase","Priority":40}]`
	for _, c := range []struct {
		name, offers string
		noRamdisk    bool
		asked        []driver.AskedStep
		want, refuse string
	}{
		{"no need of a ramdisk", "", false, []driver.AskedStep{raid, raid}, "raid.create raid.create", ""},
		{"a reboot without a ramdisk", "", true, []driver.AskedStep{{Interface: "power", Step: "reboot"}, raid}, "power.reboot raid.create", ""},
		{"a reboot of the ramdisk", offers, false, []driver.AskedStep{{Interface: "power", Step: "reboot"}}, "deploy.up power.reboot deploy.down", ""},
		{"one that needs it", offers, false, []driver.AskedStep{raid, {Interface: "raid", Step: "wipe"}}, "deploy.up raid.create raid.wipe deploy.down", ""},
		{"the agent's, before it is there", "", false, []driver.AskedStep{raid, erase}, "deploy.up raid.create deploy.down", ""},
		{"the agent's", offers, false, []driver.AskedStep{erase, raid}, "deploy.up deploy.erase raid.create deploy.down", ""},
		{"nobody's", offers, false, []driver.AskedStep{{Interface: "deploy", Step: "paint"}}, "", "node does not support this clean step: deploy.paint"},
		{"the agent's without a ramdisk", "", true, []driver.AskedStep{erase}, "", "does not support"},
		{"one that needs it without a ramdisk", "", true, []driver.AskedStep{{Interface: "raid", Step: "wipe"}}, "", "requires booting a ramdisk"},
		{"an argument too many", "", false, []driver.AskedStep{{Interface: "raid", Step: "create", Args: map[string]any{"size": 1, "colour": 2}}}, "", "unexpected arguments: colour"},
		{"an argument too few", "", false, []driver.AskedStep{{Interface: "raid", Step: "create"}}, "", "missing these required arguments: size (GiB)"},
		{"an argument that says nothing", "", false, []driver.AskedStep{{Interface: "raid", Step: "create", Args: map[string]any{"size": "big"}}}, "", "clean step raid.create: node n-1: the size is big"},
		{"an argument that central withholds", "", false, []driver.AskedStep{{Interface: "raid", Step: "create", Args: map[string]any{"size": Withheld}}}, "raid.create", ""},
		{"an argument that is null", "", false, []driver.AskedStep{{Interface: "raid", Step: "create", Args: map[string]any{"size": nil}}}, "", "the size is <nil>"},
		{"a step of another flow", offers, false, []driver.AskedStep{{Interface: "bios", Step: "check"}}, "", "does not support"},
	} {
		r := request(t, true, c.asked...)
		if r.NoRamdisk = c.noRamdisk; c.offers != "" {
			r.Facts["agent"] = c.offers
		}
		steps, err := r.Listed(driver.InClean)
		if c.refuse == "" && (err != nil || names(steps) != c.want) {
			t.Errorf("%s: %s, %v; want %s", c.name, names(steps), err, c.want)
		}
		if c.refuse != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refuse)
		}
	}
}

func TestDeploySteps(t *testing.T) {
	size := map[string]any{"size": 1}
	ask := func(kind, step string, priority int) driver.AskedStep {
		return driver.AskedStep{Interface: kind, Step: step, Priority: priority}
	}
	raid := driver.AskedStep{Interface: "raid", Step: "create", Args: size, Priority: 90}
	const core = "deploy.fetch deploy.deploy deploy.write_image raid.wipe deploy.boot_instance"
	for _, c := range []struct {
		name         string
		offers       string
		asked        []driver.AskedStep
		want, refuse string
	}{
		{"as the drivers have it", "", nil, core, ""},
		{"one of one's own", "", []driver.AskedStep{raid}, "deploy.fetch deploy.deploy raid.create deploy.write_image raid.wipe deploy.boot_instance", ""},
		{"one disabled, one moved", "", []driver.AskedStep{ask("raid", "wipe", 0), ask("deploy", "write_image", 10)}, "deploy.fetch deploy.deploy deploy.boot_instance deploy.write_image", ""},
		{"the agent's, before it is there", "", []driver.AskedStep{ask("deploy", "tune", 50)}, core, ""},
		{"the agent's", `[{"Interface":"deploy","Name":"tune"},{"Interface":"deploy","Name":"early","Priority":105}]`, []driver.AskedStep{ask("deploy", "tune", 50)},
			"deploy.fetch deploy.deploy deploy.early deploy.write_image deploy.tune raid.wipe deploy.boot_instance", ""},
		{"nobody's", `[]`, []driver.AskedStep{ask("deploy", "tune", 50)}, "", "does not support this deploy step: deploy.tune"},
		{"twice", "", []driver.AskedStep{raid, raid}, "", "asked for twice"},
		{"reboots", "", []driver.AskedStep{ask("power", "reboot", 70), ask("power", "reboot", 90), ask("power", "reboot", 0)},
			"deploy.fetch deploy.deploy power.reboot deploy.write_image power.reboot raid.wipe deploy.boot_instance", ""},
		{"the core step moved", "", []driver.AskedStep{ask("deploy", "deploy", 5)}, "", "core step"},
		{"the core step disabled", "", []driver.AskedStep{ask("deploy", "deploy", 0)}, "deploy.fetch deploy.write_image raid.wipe deploy.boot_instance", ""},
		{"an argument that says nothing", "", []driver.AskedStep{{Interface: "raid", Step: "create", Args: map[string]any{"size": 2}, Priority: 90}}, "", "deploy step raid.create: node n-1: the size is 2"},
		{"disabled without its arguments", "", []driver.AskedStep{ask("raid", "create", 0)}, core, ""},
	} {
		r := request(t, true, c.asked...)
		if c.offers != "" {
			r.Facts["agent"] = c.offers
		}
		steps, err := r.Deploy()
		if c.refuse == "" && (err != nil || names(steps) != c.want) {
			t.Errorf("%s: %s, %v; want %s", c.name, names(steps), err, c.want)
		}
		if c.refuse != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refuse)
		}
	}
}

// What comes up to the step that discovers stays where it was, or a checkpoint would
// point to another step.
func TestDiscoveryChangesNothingBeforeIt(t *testing.T) {
	r := request(t, true, driver.AskedStep{Interface: "deploy", Step: "first", Priority: 500}, driver.AskedStep{Interface: "raid", Step: "wipe", Priority: 120})
	before, err := r.Deploy()
	if err != nil {
		t.Fatal(err)
	}
	r.Facts["agent"] = `[{"Interface":"deploy","Name":"first"},{"Interface":"raid","Name":"wipe","Priority":7}]`
	after, err := r.Deploy()
	at := slices.IndexFunc(before, func(s driver.Step) bool { return s.Discovers })
	if err != nil || names(before[:at+1]) != names(after[:at+1]) || names(after[at+1:at+2]) != "deploy.first" {
		t.Errorf("%v: %s became %s", err, names(before), names(after))
	}
}

func TestVerify(t *testing.T) {
	r := request(t, false)
	if got := names(r.Verify()); got != "bios.check management.verify_clock" {
		t.Errorf("verify steps: %s", got)
	}
	r.Priorities = map[string]int{"bios.check": 0}
	if got := names(r.Verify()); got != "management.verify_clock" {
		t.Errorf("verify steps with one disabled: %s", got)
	}
}
