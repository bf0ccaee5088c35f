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

// A child's BMC writes firmware for a step of its parent. The parent's own power may be switched meanwhile. When the child's BMC stands
// still, the failure names the child, and says nothing of the parent's power.
func TestTheBMCOfAChildIsNotItsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{power: driver.PowerOn, clean: []driver.Step{flashing(100*time.Hour, func(time.Duration) string { return "running" }, nil)}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: []work.Step{{Interface: "deploy", Step: "flash", OnChildren: true, Children: []string{nodeB}}}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; d.State != provision.CleanWait || d.Checkpoint.BMC == nil || d.Checkpoint.BMC.Child != nodeB {
			t.Fatalf("in %q, at work is %+v; %+v", d.State, d.Checkpoint.BMC, d.Result)
		}
		s.errand(nodeA, work.Args{PowerTarget: string(driver.PowerOff)})
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := s.errands(); len(told) != 1 || told[0].Error != "" || told[0].Power != string(driver.PowerOff) {
			t.Errorf("the parent's power: %+v", told)
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		d := s.Work(nodeA).Doc
		if d.Open() || d.State != provision.CleanFail || !strings.Contains(d.Result.Error, "The BMC of child node "+nodeB) || strings.Contains(d.Result.Error, "keeps its power") {
			t.Errorf("in %q, %+v", d.State, d.Result)
		}
	})
}

// A step that changes the RAID of a child leaves the parent's disks as the last inspection has found them.
func TestRAIDOfAChildIsNotItsParents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, behind := &machine{power: driver.PowerOn}, "did not run"
		m.clean = []driver.Step{{Interface: "deploy", Name: "erase", Kind: driver.Repeatable, NoRamdisk: true, Run: func(_ context.Context, t *driver.Task) (driver.Outcome, error) {
			behind = t.Facts[driver.FactRAID]
			return driver.Done(), nil
		}}}
		s := newShelf()
		oneNode(s)
		s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available})
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, func(cfg *Config) {
			named := []driver.Named{{Name: "x", Impl: m}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
				"power": named, "management": named, "boot": named, "deploy": named, "raid": {{Name: "x", Impl: raid{}}}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Hardware = reg
		})
		defer kill()
		s.request(nodeA, work.Clean, provision.Cleaning, work.Args{Steps: []work.Step{{Interface: "raid", Step: "create", OnChildren: true, Children: []string{nodeB}}, {Interface: "deploy", Step: "erase"}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if d := s.Work(nodeA).Doc; behind != "" || d.Open() || !d.Result.OK {
			t.Errorf("the parent's fact: %q; in %q, %+v", behind, d.State, d.Result)
		}
	})
}
