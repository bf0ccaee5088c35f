package conductor

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/fake"
)

// trying is a power interface that notes the login that each call may make for its request.
type trying struct {
	driver.Power
	tries *[]*driver.Try
}

func (p trying) PowerState(ctx context.Context, n *node.Document) (driver.PowerState, error) {
	*p.tries = append(*p.tries, driver.TryOf(ctx))
	return p.Power.PowerState(ctx, n)
}

// The work of a request has one login of its own for its whole run, with credentials that the BMC refuses. Work that rackd itself has
// caused has none.
func TestTheWorkOfARequestMayLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.put(&node.Document{UUID: nodeA, Driver: "fake-hardware", State: provision.Active})
		typ := fake.New(fake.Options{}).Type()
		var tries []*driver.Try
		typ.Interfaces["power"] = []driver.Named{{Name: "fake", Impl: trying{typ.Interfaces["power"][0].Impl.(driver.Power), &tries}}}
		reg, err := driver.NewRegistry(typ)
		if err != nil {
			t.Fatal(err)
		}
		_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, func(c *Config) { c.Hardware = reg })
		defer kill()
		var first *driver.Try
		for _, id := range []string{"req-1", "req-2", ""} {
			tries, s.requestID = nil, id
			s.request(nodeA, work.Power, provision.Active, work.Args{PowerTarget: "rebooting"})
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK || len(tries) < 2 {
				t.Fatalf("work ended as %+v, with %d reads", d.Result, len(tries))
			}
			for _, try := range tries {
				if try != tries[0] || (try == nil) != (id == "") || try != nil && try == first {
					t.Errorf("the reads of request %q have logins %v", id, tries)
				}
			}
			first = tries[0]
		}
	})
}
