package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// offers is a deploy interface whose ramdisk takes a minute to come up and then offers an erase.
type offers struct {
	*machine
	log *[]string
}

func (o offers) Up(*node.Document, driver.Flows) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "up", Kind: driver.Reattachable, Abortable: true, Boots: true, Discovers: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		if t.Record.Handle() == nil {
			t.Facts[driver.FactBoot], t.Facts[driver.FactBooted] = driver.BootRamdisk, "yes"
			if err := t.Record.SaveHandle(ctx, "up"); err != nil {
				return driver.Outcome{}, err
			}
			if err := t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOn); err != nil {
				return driver.Outcome{}, err
			}
		}
		if left := time.Until(t.Entered.Add(time.Minute)); left > 0 {
			return driver.Wait(left), nil
		}
		t.Facts["offered"] = "yes"
		return driver.Done(), nil
	}}}
}

func (o offers) Down(*node.Document, driver.Flows) []driver.Step {
	return []driver.Step{{Interface: "deploy", Name: "down", Kind: driver.Repeatable, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
		*o.log = append(*o.log, "down")
		return driver.Done(), t.Hardware.Power().SetPower(ctx, t.Fence, t.Node, driver.PowerOff)
	}}}
}

func (o offers) Offered(facts map[string]string, _ driver.Flows) ([]driver.Step, bool, error) {
	s := did("erase", o.log)
	s.Priority, s.In, s.InBand = 10, driver.InClean, true
	return []driver.Step{s}, facts["offered"] != "", nil
}

// A cleaning whose ramdisk still boots goes on under a rackd with other flags, or the node's field says by now that nothing is cleaned. The
// agent's steps are taken in as if nothing had changed: the node is not available without its erase, and its machine is off.
func TestAListGrowsByTheFlagsThatBeganIt(t *testing.T) {
	for name, c := range map[string]struct {
		off   bool
		field bool
		flags map[string]int
	}{
		"the same":              {},
		"no automated cleaning": {off: true},
		"the field says no":     {field: true},
		"erase is switched off": {flags: map[string]int{"deploy.erase": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				m := &machine{power: driver.PowerOff}
				s := newShelf()
				oneNode(s)
				owner := owned("a")
				named := []driver.Named{{Name: "m", Impl: m}}
				reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
					"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: offers{m, &log}}}}})
				if err != nil {
					t.Fatal(err)
				}
				_, _, kill := conductorOn(t, s, "a", owner, m, func(cfg *Config) { cfg.Hardware = reg })
				s.request(nodeA, work.Provide, provision.Cleaning, work.Args{})
				time.Sleep(30 * time.Second)
				kill()
				if c.field {
					s.put(func() *node.Document { n := *s.Node(nodeA); n.AutomatedClean = new(bool); return &n }())
				}
				owner.Store("b")
				_, _, kill = conductorOn(t, s, "b", owner, m, func(cfg *Config) {
					cfg.Hardware, cfg.AutomatedClean, cfg.CleanPriorities = reg, !c.off, c.flags
				})
				defer kill()
				time.Sleep(10 * time.Minute)
				d := s.Work(nodeA).Doc
				if got := strings.Join(log, ","); d.Open() || d.State == provision.Available && (got != "erase,down" || m.power != driver.PowerOff) {
					t.Errorf("ran %q, ended in %q, the machine is %q; %+v", got, d.State, m.power, d.Result)
				}
			})
		})
	}
}

// offersToDeploy is a deploy interface whose agent offers a step of its own.
type offersToDeploy struct{ offers }

func (o offersToDeploy) Offered(facts map[string]string, _ driver.Flows) ([]driver.Step, bool, error) {
	s := did("the agent's extra", o.log)
	s.Name, s.Priority, s.In, s.InBand = "extra", 40, driver.InDeploy, true
	return []driver.Step{s}, facts["offered"] != "", nil
}

// A deploy whose ramdisk still boots goes on under a rackd of another version. The rackd that made the list decides whether the agent's
// step runs: a step of that name hides the agent's where that rackd had it, run or not, and nowhere else.
func TestADeploysListGrowsByTheVersionThatBeganIt(t *testing.T) {
	const runs, hidden = "write,the agent's extra,boot", "write,boot"
	for name, c := range map[string]struct {
		had, has int // priority of the rack's step of that name; -1: it has none
		want     string
	}{
		"neither has it":        {-1, -1, runs},
		"the next runs it":      {-1, 45, runs},
		"the next has it off":   {-1, 0, runs},
		"both have it off":      {0, 0, hidden},
		"the next lacks it":     {0, -1, hidden},
		"the next switches it":  {0, 45, hidden},
		"the next has it below": {-1, 5, runs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				owner, s := owned("a"), newShelf()
				oneNode(s)
				begin := func(rackd string, priority int) (kill func()) {
					m := &machine{power: driver.PowerOff}
					o := offersToDeploy{offers{m, &log}}
					up, write, boot := o.Up(nil, driver.InDeploy)[0], did("write", &log), did("boot", &log)
					up.Priority, boot.Priority = 60, 10
					m.deploy = []driver.Step{up, write, boot}
					if priority >= 0 {
						extra := did("the rack's extra", &log)
						extra.Name, extra.Priority = "extra", priority
						m.deploy = append(m.deploy, extra)
					}
					named := []driver.Named{{Name: "m", Impl: m}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
						"power": named, "management": named, "boot": named, "deploy": {{Name: "m", Impl: o}}}})
					if err != nil {
						t.Fatal(err)
					}
					owner.Store(rackd)
					_, _, kill = conductorOn(t, s, rackd, owner, m, func(cfg *Config) { cfg.Hardware = reg })
					return kill
				}
				kill := begin("a", c.had)
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{From: provision.Available})
				time.Sleep(30 * time.Second)
				kill()
				kill = begin("b", c.has)
				defer kill()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if got := strings.Join(log, ","); d.Open() || d.State != provision.Active || got != c.want {
					t.Errorf("ran %q, want %q; ended in %q: %+v", got, c.want, d.State, d.Result)
				}
			})
		})
	}
}
