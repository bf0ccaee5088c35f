package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// tells is a deploy interface whose agent's one step the node keeps.
type tells struct{ offers }

func (d tells) Up(n *node.Document, f driver.Flows) []driver.Step {
	up := d.offers.Up(n, f)
	up[0].Run = alsoTells(up[0].Run)
	return up
}

func (d tells) Offered(facts map[string]string, f driver.Flows) ([]driver.Step, bool, error) {
	s := did("erase", d.log)
	s.In, s.InBand = f, true
	return []driver.Step{s}, facts["offered"] != "", nil
}

func (tells) Remembered(n *node.Document, _ driver.Flows) ([]string, bool) {
	return []string{"deploy.erase"}, string(n.AgentSteps) == `"told"`
}

// A service whose ramdisk has run tells the node which steps the agent has. A misspelt step of the next one is refused before it is
// accepted. Where a request comes to the rack all the same, the machine is not touched.
func TestAMisspeltStepTakesNoInstanceDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		m := &machine{power: driver.PowerOn}
		s := newShelf()
		oneNode(s)
		named := []driver.Named{{Name: "m", Impl: m}}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
			"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: tells{offers{m, &log}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		c, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) { cfg.Hardware = reg })
		defer kill()
		service := func(step string) work.Document {
			s.request(nodeA, work.Service, provision.Servicing, work.Args{From: provision.Active, Steps: []work.Step{{Interface: "deploy", Step: step}}})
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			return s.Work(nodeA).Doc
		}
		if d := service("erase"); d.Open() || !d.Result.OK || strings.Join(log, ",") != "erase,down" {
			t.Fatalf("%q, %v, %+v", d.State, log, d.Result)
		}
		told := ""
		for _, e := range s.events {
			told += string(e.Internal[node.AgentStepsKey])
		}
		if told != `"told"` {
			t.Fatalf("the node is told to keep %q", told)
		}
		n := *s.Node(nodeA)
		n.AgentSteps, n.State = []byte(told), provision.Active
		s.put(&n)
		hw, err := reg.Resolve(&n)
		if err != nil {
			t.Fatal(err)
		}
		for step, refused := range map[string]bool{"erase": false, "eraze": true} {
			err := c.CheckFlow(ask.Flow{Verb: work.Service, Steps: []work.Step{{Interface: "deploy", Step: step}}, Whole: true}, &n, hw)
			if (err != nil) != refused {
				t.Errorf("a service with %s: %v", step, err)
			}
		}
		before := slices.Clone(m.written())
		if d := service("eraze"); d.Open() || d.State != provision.ServiceFail || d.Result.OK || !slices.Equal(before, m.written()) {
			t.Errorf("%q after %v; %+v", d.State, m.written()[len(before):], d.Result)
		}
	})
}

type stepFunc = func(context.Context, *driver.Task) (driver.Outcome, error)

func alsoTells(run stepFunc) stepFunc {
	return func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		t.Facts[driver.FactAgentSteps] = `"told"`
		return run(ctx, t)
	}
}
