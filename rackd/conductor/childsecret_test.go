package conductor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// A step that gives a BMC a new password is refused on a child, before anything is accepted and when the list is made. One that does
// not say so of itself finds no secrets there. Neither BMC, and neither driver_info, gets another password.
func TestNoNewPasswordOnAChild(t *testing.T) {
	const parents = "parents-0wn"
	for _, says := range []bool{true, false} {
		t.Run(fmt.Sprint("the step says so: ", says), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				child := &locked{password: oldPassword}
				step := driver.Step{Interface: "deploy", Name: "reset_credential", Kind: driver.Reattachable, NoRamdisk: true, ReplacesSecrets: says,
					Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
						return child.change().Run(ctx, t, newPassword)
					}}
				s := newShelf()
				sealedNode(s, map[string]any{passwordOf: parents})
				s.put(&node.Document{UUID: nodeB, Driver: "t", State: provision.Available,
					DriverInfo: testKey.SealFields(seal.Label{Kind: seal.DriverInfo, Of: nodeB}, map[string]any{passwordOf: oldPassword})})
				told := s.central(t)
				c, _, kill := conductorOn(t, s, "a", owned("a"), &machine{power: driver.PowerOff, clean: []driver.Step{step}}, nil)
				defer kill()
				steps := []work.Step{{Interface: "deploy", Step: "reset_credential", OnChildren: true, Children: []string{nodeB}}}
				if reason := judgement(t, c, ask.Flow{Verb: work.Clean, DisableRamdisk: true, Steps: steps}); strings.Contains(reason, "not for child nodes") != says {
					t.Errorf("judged %q", reason)
				}
				s.request(nodeA, work.Clean, provision.Cleaning, work.Args{DisableRamdisk: true, Steps: steps})
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.CleanFail || !strings.Contains(d.Result.Error, nodeB) || d.Checkpoint.Touched == says {
					t.Errorf("the work: %q %+v", d.State, d.Result)
				}
				if child.told != 0 || child.password != oldPassword || *told != 0 || s.info(t)[passwordOf] != parents {
					t.Errorf("the child's BMC was told %d times and takes %q; central was told %d times; the parent has %q", child.told, child.password, *told, s.info(t)[passwordOf])
				}
			})
		})
	}
}

// judgement is what c answers about the steps of a flow of the node, empty when nothing speaks against them.
func judgement(t *testing.T, c *Conductor, f ask.Flow) string {
	t.Helper()
	args, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	reply := answersOf(c).Answer(t.Context(), ask.Request{Method: ask.Validate, Node: nodeA, Args: args})
	var found map[string]ask.Validation
	if err := json.Unmarshal(reply.Body, &found); err != nil {
		t.Fatalf("%v, %+v", err, reply.Error)
	}
	return found[ask.Steps].Reason
}
