package dispatch

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// A bound counts the nodes that are busy; what is refused because of it changes nothing.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		others []provision.State // of two more nodes
		from   provision.State
		verb   string
		action string // of the refusal; empty: accepted
	}{
		{Limits{}, []provision.State{provision.Deploying, provision.DeployWait}, provision.Available, "active", ""},
		{Limits{Deploys: 2}, []provision.State{provision.Deploying, provision.DeployWait}, provision.Available, "active", "provisioning"},
		{Limits{Deploys: 2}, []provision.State{provision.Deploying, provision.DeployWait}, provision.Active, "rebuild", "provisioning"},
		{Limits{Deploys: 2}, []provision.State{provision.Deploying, provision.Cleaning}, provision.Available, "active", ""},
		{Limits{Deploys: 1}, []provision.State{provision.Deploying, provision.Deploying}, provision.Active, "deleted", ""},
		{Limits{Cleans: 2}, []provision.State{provision.CleanWait, provision.Deleting}, provision.Active, "deleted", "unprovisioning"},
		{Limits{Cleans: 2}, []provision.State{provision.Cleaning, provision.Deleting}, provision.Manageable, "clean", "cleaning"},
		{Limits{Cleans: 2}, []provision.State{provision.Cleaning, provision.Deleting}, provision.Manageable, "provide", ""},
		{Limits{Cleans: 2}, []provision.State{provision.Cleaning, provision.Active}, provision.Active, "deleted", ""},
	} {
		t.Run(string(c.from)+" "+c.verb, func(t *testing.T) {
			b := newBench(t)
			b.Limits = c.limits
			b.put(c.from, provision.NoState, nil)
			err := b.Store.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				for i, s := range c.others {
					if err := tx.InsertNode(ctx, &store.Node{UUID: store.NewID(), Name: "other-" + string(rune('a'+i)), Driver: "fake-hardware", AcceptedState: s}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			err = b.verb(c.verb, nil)
			if c.action == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if status(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "The concurrent action limit for "+c.action+" has been reached.") {
				t.Errorf("answered %v", err)
			}
			if n := b.node(); n.ProvisionState != c.from || n.WorkID != "" {
				t.Errorf("the node is %q and has work %q", n.ProvisionState, n.WorkID)
			}
		})
	}
}
