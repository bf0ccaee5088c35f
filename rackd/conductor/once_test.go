package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/view"
)

// vendor is a machine whose vendor interface has one method.
type vendor struct {
	*machine
	method driver.VendorMethod
}

func (vendor) NamedSteps(*node.Document) []driver.Step { return nil }
func (vendor) DriverMethods() []driver.DriverMethod    { return nil }
func (v vendor) VendorMethods() []driver.VendorMethod  { return []driver.VendorMethod{v.method} }

// withVendor makes the shelf's node one whose vendor interface is v, and returns what calls
// the method in the work of that id.
func withVendor(t *testing.T, s *shelf, v vendor, id string, state provision.State) (func(*Config), work.Args) {
	t.Helper()
	s.put(&node.Document{UUID: nodeA, Driver: "t", State: state})
	hw := func(c *Config) {
		named := []driver.Named{{Name: "m", Impl: v.machine}}
		reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{
			"power": named, "management": named, "boot": named, "deploy": named, "vendor": {{Name: "v", Impl: v}}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Hardware = reg
	}
	return hw, work.Args{Change: &work.Change{Vendor: &work.VendorCall{Method: v.method.Name, HTTPMethod: "POST", Data: sealedFor(t, seal.VendorData, id, "{}")}}}
}

// burnFuse must not be done twice. Each call says that it was begun and lasts until its rackd dies.
func burnFuse() (m driver.VendorMethod, begun chan struct{}) {
	begun = make(chan struct{}, 2)
	return driver.VendorMethod{Once: true, Method: driver.Method{Name: "burn_fuse", HTTPMethods: []string{"POST"}, Async: true},
		Call: func(ctx context.Context, _ driver.Fence, _ *node.Document, _ map[string]any) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}}, begun
}

// A method that must not be done twice is not begun by a successor, who cannot know how far
// it came, and the node says so.
func TestOnceOnlyMethodIsNotRepeatedAfterATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, owner := newShelf(), owned("a")
		burn, begun := burnFuse()
		hw, args := withVendor(t, s, vendor{&machine{}, burn}, "work-1", provision.Active)
		_, _, killA := conductorOn(t, s, "a", owner, nil, hw)
		second, _, killB := conductorOn(t, s, "b", owner, nil, hw)
		defer killB()
		s.request(nodeA, work.Adjust, provision.Active, args)
		<-begun
		killA()
		owner.Store("b")
		second.RingChanged()
		time.Sleep(time.Minute)
		d := s.Work(nodeA).Doc
		if d.Open() || d.Owner != "b" || d.State != provision.Active || d.Result.OK ||
			!strings.Contains(d.Result.Error, "step vendor.burn_fuse was running when its rackd was lost") || !strings.Contains(d.Result.Error, "check the machine") {
			t.Errorf("%s ended it in state %q as %+v", d.Owner, d.State, d.Result)
		}
		if len(begun) != 0 {
			t.Error("it was begun a second time")
		}
	})
}

// So it is beside a flow that is held, which stays held; also where only the bus's loss of
// the document leaves open whether it was begun.
func TestOnceOnlyMethodBesideAHoldIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		lost bool // the bus has lost that the method was begun
		says string
	}{
		"its rackd dies":         {false, "step vendor.burn_fuse was running when its rackd was lost"},
		"its checkpoint is lost": {true, "step vendor.burn_fuse may have run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				erase := did("erase_devices", new([]string))
				erase.NoRamdisk = true
				s, owner := newShelf(), owned("a")
				burn, begun := burnFuse()
				hw, args := withVendor(t, s, vendor{&machine{clean: []driver.Step{erase}}, burn}, "work-1!", provision.Manageable)
				_, _, killA := conductorOn(t, s, "a", owner, nil, hw)
				inHold(t, s)
				s.errand(nodeA, args)
				<-begun
				killA()
				if c.lost {
					s.mu.Lock()
					d := s.works[nodeA].Doc
					d.Checkpoint.Errand, d.Lost = work.Errand{}, true
					s.rev++
					s.works[nodeA] = &view.Work{Doc: d, Revision: s.rev}
					s.mu.Unlock()
				}
				owner.Store("b")
				_, _, killB := conductorOn(t, s, "b", owner, nil, hw)
				defer killB()
				time.Sleep(time.Minute)
				d, told := s.Work(nodeA).Doc, s.errands()
				if !d.Open() || d.Owner != "b" || d.State != provision.CleanHold {
					t.Errorf("the flow is in state %q of %q, %+v", d.State, d.Owner, d.Result)
				}
				if len(told) != 1 || !strings.Contains(told[0].Error, c.says) || !strings.Contains(told[0].Error, "check the machine") {
					t.Errorf("told %+v", told)
				}
				if len(begun) != 0 {
					t.Error("it was begun a second time")
				}
			})
		})
	}
}
