package api

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/bus"
)

// conductor is a rackd as the API shows it.
type conductor struct {
	bus.Member
	// alive: its lease holds, as far as central can see: not while its site is away,
	// although it may well go on with its work.
	alive bool
}

// conductorTable is every field of a conductor.
var conductorTable = fields.New("conductor",
	fields.Text("hostname", 49, func(c *conductor) *string { return &c.Name }).List().Sort(),
	fields.Computed("conductor_group", 49, func(c *conductor) any { return c.Group }).List().Sort(),
	fields.Computed("alive", 49, func(c *conductor) any { return c.alive }).List(),
	fields.Time("created_at", 49, func(c *conductor) time.Time { return c.StartedAt }).Sort(),
	fields.Computed("drivers", 49, func(c *conductor) any { return slices.Sorted(maps.Keys(c.Drivers)) }),
	fields.Time("updated_at", 49, func(c *conductor) time.Time { return c.RenewedAt }).Sort(),
)

func (s *Server) conductors() Resource {
	return Resource{Name: "conductors", Since: 49, Routes: []Route{
		{Method: http.MethodGet, Path: "conductors", Policy: "baremetal:conductor:get", Handle: s.listConductors},
		{Method: http.MethodGet, Path: "conductors/{hostname}", Policy: "baremetal:conductor:get", Handle: s.showConductor},
	}}
}

func (s *Server) appendConductor(b []byte, r *Request, sel fields.Selection, m bus.Member) []byte {
	b = conductorTable.Append(append(b, '{'), sel, &conductor{m, s.Away(m.Group) == nil})
	b = wire.AppendLinks(wire.AppendName(b, "links"), r.Base, "conductors/"+m.Name)
	return append(b, '}')
}

func (s *Server) listConductors(r *Request) (Reply, error) {
	if err := r.Query.Allow(append(wire.PageArguments, "fields", "detail")...); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, conductorTable, false, 49, 49)
	if err != nil {
		return Reply{}, err
	}
	p, err := r.Query.Page("id")
	if err != nil {
		return Reply{}, err
	}
	if err := conductorTable.CheckSort(r.Version, p.SortKey); err != nil {
		return Reply{}, err
	}
	members, err := conductorPage(s.Roster.Conductors(), p)
	if err != nil {
		return Reply{}, err
	}
	b := []byte(`{"conductors":[`)
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendConductor(b, r, sel, m)
	}
	b = append(b, ']')
	if len(members) == p.Limit {
		b = wire.AppendString(wire.AppendName(b, "next"), r.Query.Next(r.Base, "conductors", p, members[len(members)-1].Name))
	}
	return ok(append(b, '}'))
}

// conductorPage sorts a copy of members and cuts the page out.
func conductorPage(members []bus.Member, p wire.Page) ([]bus.Member, error) {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b bus.Member) int {
		order := 0
		switch p.SortKey {
		case "conductor_group":
			order = cmp.Compare(a.Group, b.Group)
		case "created_at":
			order = a.StartedAt.Compare(b.StartedAt)
		case "updated_at":
			order = a.RenewedAt.Compare(b.RenewedAt)
		}
		order = cmp.Or(order, cmp.Compare(a.Name, b.Name))
		if p.Desc {
			order = -order
		}
		return order
	})
	if p.Marker != "" {
		i := slices.IndexFunc(members, func(m bus.Member) bool { return m.Name == p.Marker })
		if i < 0 {
			return nil, conductorMissing(p.Marker)
		}
		members = members[i+1:]
	}
	return members[:min(len(members), p.Limit)], nil
}

func (s *Server) showConductor(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, conductorTable, true, 49, 49)
	if err != nil {
		return Reply{}, err
	}
	for _, name := range []string{r.Param(0), r.Param(0) + r.suffix} {
		for _, m := range s.Roster.Conductors() {
			if m.Name == name {
				return ok(s.appendConductor(nil, r, sel, m))
			}
		}
	}
	return Reply{}, conductorMissing(r.Param(0))
}

func conductorMissing(name string) error {
	return wire.Errorf(http.StatusNotFound, "Conductor %.255s could not be found.", name)
}
