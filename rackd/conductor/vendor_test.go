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

// detecting is a management interface that knows the machine's vendor.
type detecting struct{ driver.Management }

func (detecting) DetectVendor(context.Context, *node.Document) (string, error) {
	return "Contoso", nil
}

// When a node is managed, its BMC says who made the machine, unless an operator has said so before.
func TestManagedNodesGetTheirVendor(t *testing.T) {
	for known, want := range map[string]any{"": "Contoso", "Fabrikam": nil} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf()
			s.put(&node.Document{UUID: nodeA, Driver: "fake-hardware", State: provision.Enroll, Properties: map[string]any{"vendor": known}})
			typ := fake.New(fake.Options{}).Type()
			typ.Interfaces["management"] = []driver.Named{{Name: "fake", Impl: detecting{typ.Interfaces["management"][0].Impl.(driver.Management)}}}
			reg, err := driver.NewRegistry(typ)
			if err != nil {
				t.Fatal(err)
			}
			_, _, kill := conductorOn(t, s, "a", owned("a"), &machine{}, func(c *Config) { c.Hardware = reg })
			defer kill()
			s.request(nodeA, work.Manage, provision.Verifying, work.Args{})
			synctest.Wait()
			if d := s.Work(nodeA).Doc; d.Open() || !d.Result.OK {
				t.Fatalf("work ended as %+v", d.Result)
			}
			var got any
			for _, e := range s.observed() {
				if e.Properties != nil {
					got = e.Properties["vendor"]
				}
				if e.Work == "" {
					t.Error("the event names no work")
				}
			}
			if got != want {
				t.Errorf("a node whose vendor is known as %q is told %v, want %v", known, got, want)
			}
		})
	}
}
