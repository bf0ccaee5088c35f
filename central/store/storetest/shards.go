package storetest

import (
	"context"
	"reflect"
	"testing"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

func shards(t *testing.T, s *store.Store) {
	parent := NewNode("parent")
	first, second := NewNode("first"), NewNode("second")
	first.Owner, second.Lessee = "p", "q"
	first.Shard, second.Shard, first.ParentNode, second.ParentNode = "s", "s", parent.UUID, parent.UUID
	Insert(t, s, parent, first, second)
	list, err := s.Shards(t.Context())
	if want := []store.Shard{{Name: "s", Nodes: 2}, {Nodes: 1}}; err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("shards %+v, error %v, want %+v", list, err, want)
	}
	want := []string{min(first.UUID, second.UUID), max(first.UUID, second.UUID)}
	if children, err := s.Children(t.Context(), parent.UUID, ""); err != nil || !reflect.DeepEqual(children, want) {
		t.Errorf("children %v, error %v, want %v", children, err, want)
	}
	if children, err := s.Children(t.Context(), first.UUID, ""); err != nil || len(children) != 0 {
		t.Errorf("children of a leaf: %v, error %v", children, err)
	}
	for project, want := range map[string][]string{"p": {first.UUID}, "q": {second.UUID}, "r": nil} {
		if children, err := s.Children(t.Context(), parent.UUID, project); err != nil || !reflect.DeepEqual(children, want) {
			t.Errorf("children of project %s: %v, error %v, want %v", project, children, err, want)
		}
	}
}

func nodesIn(t *testing.T, s *store.Store) {
	for name, state := range map[string]provision.State{"a": provision.Available, "b": provision.Deploying, "c": provision.Deploying, "d": provision.DeployWait} {
		n := NewNode(name)
		n.AcceptedState = state
		Insert(t, s, n)
	}
	for _, c := range []struct {
		states     []provision.State
		most, want int
	}{
		{[]provision.State{provision.Deploying, provision.DeployWait}, 10, 3},
		{[]provision.State{provision.Deploying, provision.DeployWait}, 2, 2},
		{[]provision.State{provision.Deleting, provision.Cleaning, provision.CleanWait}, 10, 0},
		{[]provision.State{provision.Available}, 1, 1},
	} {
		err := s.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			got, err := tx.CountNodesIn(ctx, c.states, c.most)
			if err == nil && got != c.want {
				t.Errorf("%v, at most %d: %d nodes, want %d", c.states, c.most, got, c.want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
