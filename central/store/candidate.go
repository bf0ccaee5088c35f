package store

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ironyard/ironyard/protocol/provision"
)

// CandidateQuery asks for nodes that an allocation may take: available ones that
// nobody uses, whose power state is known.
type CandidateQuery struct {
	ResourceClass string
	Name          string   // only the node of that name
	Project       string   // owner or lessee of the node; empty: any
	UUIDs         []string // none but these; empty: any
	Traits        []string // the node has all of them
	// From is where in the order of UUIDs to begin; nodes before it come last.
	From  string
	Limit int
}

// candidates asks for the nodes from q.From on, or for those before it.
func candidates(q CandidateQuery, before bool) (string, []any) {
	var f filter
	f.add("n.resource_class = ?", q.ResourceClass)
	f.add("n.provision_state = ?", string(provision.Available))
	f.conds = append(f.conds, "n.instance_uuid = ''", "n.maintenance = FALSE", "n.retired = FALSE", "n.power_state <> ''")
	f.equal("n.name", q.Name)
	if q.Project != "" {
		f.add("(n.owner = ? OR n.lessee = ?)", q.Project, q.Project)
	}
	f.in("n.uuid", q.UUIDs)
	for _, trait := range q.Traits {
		f.add("EXISTS (SELECT 1 FROM node_traits x WHERE x.node = n.uuid AND x.trait = ?)", trait)
	}
	if before {
		f.add("n.uuid < ?", q.From)
	} else {
		f.add("n.uuid >= ?", q.From)
	}
	return "SELECT n.uuid FROM nodes n" + f.where() + " ORDER BY n.uuid LIMIT " + strconv.Itoa(q.Limit), f.args
}

func init() {
	builders = append(builders, func() []string {
		q := CandidateQuery{ResourceClass: "r", Name: "n", Project: "p", UUIDs: []string{"a", "b"}, Traits: []string{"A"}, From: "f", Limit: 64}
		from, _ := candidates(q, false)
		before, _ := candidates(q, true)
		return []string{from, before}
	})
}

// Candidates returns the UUIDs of up to q.Limit nodes that an allocation may take at
// this moment.
func (s *Store) Candidates(ctx context.Context, q CandidateQuery) ([]string, error) {
	var list []string
	for _, before := range []bool{false, true} {
		stmt, args := candidates(q, before)
		r, err := s.engine.query(ctx, stmt, args...)
		err = scanAll(r, err, func(r rows) error {
			var id string
			if err := r.Scan(&id); err != nil {
				return err
			}
			if len(list) < q.Limit {
				list = append(list, id)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for nodes of class %q: %w", q.ResourceClass, err)
		}
		if q.From == "" || len(list) >= q.Limit {
			break
		}
	}
	return list, nil
}
