package storetest

import (
	"reflect"
	"testing"

	"github.com/ironyard/ironyard/central/store"
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
