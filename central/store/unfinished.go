package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Unfinished is an open work and where its node stands.
type Unfinished struct {
	Work
	Driver string
	State  provision.State
	// Since is when the node entered State.
	Since time.Time
	// Maintenance and Fault are the node's.
	Maintenance bool
	Fault       string
}

var selectUnfinished = register("SELECT " + names(workColumns, "w.") + ", n.driver, n.provision_state, n.provision_updated_at, n.maintenance, n.fault" +
	" FROM works w JOIN nodes n ON n.uuid = w.node WHERE w.state = 'open' AND w.node > $1 ORDER BY w.node LIMIT $2")

// Unfinished returns up to limit open works of nodes after afterNode, in order of
// the node.
func (s *Store) Unfinished(ctx context.Context, afterNode string, limit int) ([]*Unfinished, error) {
	var list []*Unfinished
	r, err := s.engine.query(ctx, selectUnfinished, afterNode, limit)
	err = scanAll(r, err, func(r rows) error {
		u := new(Unfinished)
		list = append(list, u)
		return r.Scan(append(fields(workColumns, &u.Work), &u.Driver, &u.State, &micros{&u.Since}, &u.Maintenance, &u.Fault)...)
	})
	if err != nil {
		return nil, fmt.Errorf("read unfinished works: %w", err)
	}
	return list, nil
}
