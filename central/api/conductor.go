package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
)

// conductor is a rackd as the API shows it.
type conductor struct {
	name, group string
	drivers     []string
	// alive: its lease holds, as far as central can see: not while its site is away,
	// although it may well go on with its work.
	alive            bool
	created, updated time.Time
}

// conductorTable is every field of a conductor.
var conductorTable = fields.New("conductor",
	fields.Text("hostname", 49, func(c *conductor) *string { return &c.name }).List().Sort(),
	fields.Computed("conductor_group", 49, func(c *conductor) any { return c.group }).List().Sort(),
	fields.Computed("alive", 49, func(c *conductor) any { return c.alive }).List(),
	fields.Time("created_at", 49, func(c *conductor) time.Time { return c.created }).Sort(),
	fields.Computed("drivers", 49, func(c *conductor) any { return c.drivers }),
	fields.Time("updated_at", 49, func(c *conductor) time.Time { return c.updated }).Sort(),
).Order("created_at", "updated_at", "hostname", "conductor_group", "drivers", "links", "alive").
	Choices("alive", "conductor_group", "created_at", "drivers", "hostname", "links", "updated_at")

func (s *Server) conductors() Resource {
	return Resource{Name: "conductors", Since: 49, Routes: []Route{
		{Method: http.MethodGet, Path: "conductors", Policy: "baremetal:conductor:get", Handle: s.listConductors},
		{Method: http.MethodGet, Path: "conductors/{hostname}", Policy: "baremetal:conductor:get", Handle: s.showConductor},
	}}
}

// everyConductor returns the rackds that live and those that once did, in order of name.
// What lives is the roster's to say; the rows add the others, and when each came first.
func (s *Server) everyConductor(ctx context.Context) ([]*conductor, error) {
	rows, err := s.Store.Conductors(ctx)
	if err != nil {
		return nil, storeError(err)
	}
	byName := make(map[string]*conductor, len(rows))
	for _, row := range rows {
		byName[row.Name] = &conductor{name: row.Name, group: row.Group, drivers: row.Drivers, created: row.Created, updated: row.Updated}
	}
	for _, m := range s.Roster.Conductors() {
		c := &conductor{name: m.Name, group: m.Group, drivers: slices.Sorted(maps.Keys(m.Drivers)), alive: s.Away(m.Group) == nil,
			created: m.StartedAt, updated: m.RenewedAt}
		if row := byName[m.Name]; row != nil {
			c.created = row.created
		}
		byName[m.Name] = c
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *conductor) int { return cmp.Compare(a.name, b.name) }), nil
}

func appendConductor(b []byte, r *Request, sel fields.Selection, c *conductor) []byte {
	return append(conductorTable.AppendLinked(append(b, '{'), sel, c, r.Base, "conductors/", c.name), '}')
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
	if err = cmp.Or(orderBySchema(r), err); err != nil {
		return Reply{}, err
	}
	if marker, given := r.Query["marker"]; given && marker == "" {
		return Reply{}, wire.Invalid("Missing host in marker")
	}
	if err := conductorTable.CheckSort(r.Version, p.SortKey); err != nil {
		return Reply{}, err
	}
	list, err := s.everyConductor(r.Context())
	if err != nil {
		return Reply{}, err
	}
	if list, err = conductorPage(list, p); err != nil {
		return Reply{}, err
	}
	b := []byte(`{"conductors":[`)
	for i, c := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendConductor(b, r, sel, c)
	}
	b = append(b, ']')
	if len(list) == p.Limit {
		b = wire.AppendString(wire.AppendName(b, "next"), nextLink(r, conductorTable, sel, 49, "conductors", p, list[len(list)-1].name))
	}
	return ok(append(b, '}'))
}

// conductorPage sorts list and cuts the page out.
func conductorPage(list []*conductor, p wire.Page) ([]*conductor, error) {
	slices.SortFunc(list, func(a, b *conductor) int {
		order := 0
		switch p.SortKey {
		case "conductor_group":
			order = cmp.Compare(a.group, b.group)
		case "created_at":
			order = a.created.Compare(b.created)
		case "updated_at":
			order = a.updated.Compare(b.updated)
		}
		order = cmp.Or(order, cmp.Compare(a.name, b.name))
		if p.Desc {
			order = -order
		}
		return order
	})
	if p.Marker != "" {
		i := slices.IndexFunc(list, func(c *conductor) bool { return c.name == p.Marker })
		if i < 0 {
			return nil, conductorMissing(p.Marker)
		}
		list = list[i+1:]
	}
	return list[:min(len(list), p.Limit)], nil
}

func (s *Server) showConductor(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, conductorTable, true, 49, 49)
	if err != nil {
		return Reply{}, err
	}
	list, err := s.everyConductor(r.Context())
	if err != nil {
		return Reply{}, err
	}
	for _, name := range []string{r.Param(0), r.Param(0) + r.suffix} {
		for _, c := range list {
			if c.name == name {
				return ok(appendConductor(nil, r, sel, c))
			}
		}
	}
	return Reply{}, conductorMissing(r.Param(0))
}

func conductorMissing(name string) error {
	return wire.Errorf(http.StatusNotFound, "Conductor %.255s could not be found.", name)
}
