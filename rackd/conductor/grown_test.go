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
