package verdict

import (
	"maps"
	"reflect"
	"slices"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
)

// keys holds the sites' buckets to the rows: no work is left, and each node has its
// document at the site of its group and nowhere else.
func (j *judge) keys() {
	siteOf := map[string]*Site{} // group token → site
	for i := range j.Sites {
		for key := range j.Sites[i].Expected {
			siteOf[key] = &j.Sites[i]
		}
	}
	expected := map[*Site]map[string]bool{}
	for i := range j.Sites {
		expected[&j.Sites[i]] = map[string]bool{}
	}
	for _, n := range j.Nodes {
		key := bus.NodeKey(n.Group, n.UUID)
		s := siteOf[bus.GroupToken(n.Group)]
		if s == nil {
			j.blame("node %s (%s) is of group %q, which no site serves", n.UUID, n.Name, n.Group)
			continue
		}
		expected[s][key] = true
		doc, there := s.Nodes[key]
		if !there {
			j.blame("node %s (%s) has no document at site %s", n.UUID, n.Name, s.Name)
			continue
		}
		j.document(n, s, doc)
	}
	for i := range j.Sites {
		s := &j.Sites[i]
		for _, key := range slices.Sorted(maps.Keys(s.Nodes)) {
			if !expected[s][key] {
				j.blame("site %s has a document %s of no node of its own", s.Name, key)
			}
		}
		for _, e := range s.Events {
			if siteOf[bus.GroupToken(e.Group)] != s {
				j.blame("site %s has an event of group %q, which is not its own: %s %s of node %s", s.Name, e.Group, e.Kind, e.ID, e.Node)
				break
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.Work)) {
			w := s.Work[key]
			j.blame("site %s has work left under %s: %s %s, owner %q, epoch %d, step %q", s.Name, key, w.Verb, w.ID, w.Owner, w.Epoch, w.Checkpoint.Step)
		}
		for key, want := range s.Expected {
			got, there := s.Groups[key]
			if !there && len(want.Failover) > 0 || there && !slices.Equal(got.Failover, want.Failover) {
				j.blame("site %s: group %s has failover %v, configured is %v", s.Name, key, got.Failover, want.Failover)
			}
		}
	}
}

func (j *judge) document(n Node, s *Site, doc node.Document) {
	type seen struct {
		Name, Driver, Instance, State string
		Generation                    int64
		Maintenance                   bool
		MACs                          []string
	}
	row := seen{n.Name, n.Driver, n.InstanceUUID, string(n.State), n.Generation, n.Maintenance, n.MACs}
	there := seen{doc.Name, doc.Driver, doc.InstanceUUID, string(doc.State), doc.Generation, doc.Maintenance, []string{}}
	for _, p := range doc.Ports {
		there.MACs = append(there.MACs, p.Address)
	}
	slices.Sort(there.MACs)
	if !reflect.DeepEqual(row, there) {
		j.blame("node %s (%s): site %s has %+v, the row is %+v", n.UUID, n.Name, s.Name, there, row)
	}
}
