package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Central takes changes of driver_info, with a new pin of the BMC's key, and of disable_power_off beside some flows that wait. Inspections
// are among them. The flow goes on with what they say, on each rackd that has it, and so does its end.
func TestAChangedNodeIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		look := func(name string, fails bool) driver.Step {
			return driver.Step{Interface: "deploy", Name: name, Kind: driver.Repeatable, NoRamdisk: true, Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
				seen = append(seen, fmt.Sprint(t.Node.DriverString("address"), t.Node.PinnedSince, string(t.Node.Kept)))
				if err := driver.Pause(ctx, time.Minute); err != nil || fails {
					return driver.Outcome{}, driver.ErrInvalid
				}
				return driver.Done(), nil
			}}
		}
		m := &machine{power: driver.PowerOff, identity: driver.Identity{UUID: boardOne}, deploy: []driver.Step{inRamdisk("up", true, time.Minute, new([]string)), look("one", false), look("two", true)}}
		for i := range m.deploy {
			m.deploy[i].Priority = 100 - i
		}
		s := newShelf()
		oneNode(s)
		put := func(change func(n *node.Document)) {
			n := *s.Node(nodeA)
			change(&n)
			s.put(&n)
			s.tell(nodeA)
			synctest.Wait()
		}
		put(func(n *node.Document) { n.DriverInfo = map[string]any{"address": "old"} })
		_, _, kill := conductorOn(t, s, "a", owned("a"), m, nil)
		defer kill()
		s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
		time.Sleep(90 * time.Second) // one runs
		s.maintain(true, "", time.Hour)
		put(func(n *node.Document) {
			n.DriverInfo, n.DisablePowerOff, n.PinnedSince, n.Kept = map[string]any{"address": "new"}, true, 7, json.RawMessage(`{"a":1}`)
		})
		s.maintain(false, "", time.Hour)
		d := s.Work(nodeA).Doc
		if d.Open() || !slices.Equal(seen, []string{"old0", `new7{"a":1}`}) || m.power != driver.PowerOn {
			t.Errorf("seen %q, the machine is %q after %q; %+v", seen, m.power, m.writes, d.Result)
		}
	})
}
