package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/node"
)

// The versions that brought the drivers' type and fields.
const (
	driverTypeSince   = 30
	driverFieldsSince = 77
	driverLinksSince  = 14
)

// driver is a hardware type with all that live rackds offer for it.
type driver struct {
	name       string
	hosts      []string
	interfaces map[string][]string // kind → implementations, best first
	base       string
}

// driverTable is every field of a driver.
var driverTable = func() *fields.Table[driver] {
	computed := fields.Computed[driver]
	list := []fields.Field[driver]{
		computed("name", 1, func(d *driver) any { return d.name }).List(),
		computed("hosts", 1, func(d *driver) any { return d.hosts }).List(),
		computed("properties", driverLinksSince, func(d *driver) any {
			return json.RawMessage(wire.AppendLinks(nil, d.base, "drivers/"+d.name+"/properties"))
		}).List(),
		computed("type", driverTypeSince, func(*driver) any { return "dynamic" }).List(),
	}
	order := []string{"name", "hosts", "links", "properties", "type"}
	for _, kind := range node.InterfaceKinds {
		since := max(driverTypeSince, sinceOf(kind))
		if kind == "network" || since == 31 {
			since = driverTypeSince
		}
		list = append(list,
			computed("default_"+kind+"_interface", since, func(d *driver) any {
				if offered := d.interfaces[kind]; len(offered) > 0 {
					return offered[0]
				}
				return nil
			}),
			computed("enabled_"+kind+"_interfaces", since, func(d *driver) any { return d.interfaces[kind] }))
	}
	for _, f := range list[len(order)-1:] {
		order = append(order, f.Name)
	}
	choices := []string{"hosts", "links", "name"}
	for _, kind := range []string{"boot", "console", "deploy", "inspect", "management", "network", "power", "raid", "vendor", "storage", "rescue", "bios", "firmware"} {
		choices = append(choices, "default_"+kind+"_interface", "enabled_"+kind+"_interfaces")
	}
	return fields.New("driver", list...).Order(order...).Choices(append(choices, "properties", "type")...).Dated()
}()

// listless are the fields that the list of drivers shows only with all the others: those about
// interfaces.
func listless(name string) bool {
	return strings.HasSuffix(name, "_interface") || strings.HasSuffix(name, "_interfaces")
}

func (s *Server) drivers() Resource {
	return Resource{Name: "drivers", Routes: []Route{
		{Method: http.MethodGet, Path: "drivers", Policy: "baremetal:driver:get", Handle: s.listDrivers},
		{Method: http.MethodGet, Path: "drivers/{driver}", Policy: "baremetal:driver:get", Handle: s.showDriver},
		{Method: http.MethodGet, Path: "drivers/{driver}/properties", Summary: "List what a driver has to know of a node", Policy: "baremetal:driver:get_properties", Handle: s.driverProperties, Shows: propertiesAnswer},
	}}
}

// liveDrivers gathers the drivers of all live rackds, in order of name.
func (s *Server) liveDrivers(base string) []*driver {
	byName := map[string]*driver{}
	for _, m := range s.Roster.Conductors() {
		for name, offered := range m.Drivers {
			d := byName[name]
			if d == nil {
				d = &driver{name: name, interfaces: map[string][]string{}, base: base}
				byName[name] = d
			}
			d.hosts = append(d.hosts, m.Name)
			for kind, names := range offered {
				for _, n := range names {
					if !slices.Contains(d.interfaces[kind], n) {
						d.interfaces[kind] = append(d.interfaces[kind], n)
					}
				}
			}
		}
	}
	list := make([]*driver, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list
}

func appendDriver(b []byte, sel fields.Selection, d *driver) []byte {
	return append(driverTable.AppendLinked(append(b, '{'), sel, d, d.base, "drivers/", d.name), '}')
}

func (s *Server) listDrivers(r *Request) (Reply, error) {
	if err := r.Query.Allow("type", "detail", "fields"); err != nil {
		return Reply{}, err
	}
	if _, err := r.Query.Bool("detail"); err != nil {
		return Reply{}, err
	}
	kind, given := r.Query["type"]
	if _, detail := r.Query["detail"]; detail && r.Version < driverTypeSince {
		return Reply{}, wire.Needs(driverTypeSince, "the argument detail")
	}
	switch {
	case given && r.Version < driverTypeSince:
		return Reply{}, wire.Needs(driverTypeSince, "the argument type")
	case given && kind != "classic" && kind != "dynamic":
		return Reply{}, wire.Invalid("\"type\" filter must be one of \"classic\" or \"dynamic\", if specified.")
	}
	sel, err := selectFields(r, driverTable, false, driverFieldsSince, driverTypeSince)
	if err != nil {
		return Reply{}, err
	}
	if none := slices.DeleteFunc(r.Query.List("fields"), func(name string) bool { return !listless(name) }); len(none) > 0 {
		return Reply{}, wire.Invalid("Field(s) \"%s\" are not valid", strings.Join(none, ", "))
	}
	b := []byte(`{"drivers":[`)
	for _, d := range s.liveDrivers(r.Base) {
		if kind == "classic" {
			break // there are none
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = appendDriver(b, sel, d)
	}
	return ok(append(b, `]}`...))
}

func (s *Server) showDriver(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields"); err != nil {
		return Reply{}, err
	}
	sel, err := selectFields(r, driverTable, true, driverFieldsSince, driverTypeSince)
	if err != nil {
		return Reply{}, err
	}
	d, err := s.driver(r, noDriver)
	if err != nil {
		return Reply{}, err
	}
	return ok(appendDriver(nil, sel, d))
}

// The words for a driver that is not there: where it is shown, and elsewhere.
const (
	noDriver      = "Could not find the following driver(s) or hardware type(s): %.80s."
	unknownDriver = "The driver '%.80s' is unknown."
)

// driver returns the driver of the path; otherwise is what is said where there is none.
func (s *Server) driver(r *Request, otherwise string) (*driver, error) {
	for _, name := range []string{r.Param(0), r.Param(0) + r.suffix} {
		for _, d := range s.liveDrivers(r.Base) {
			if d.name == name {
				return d, nil
			}
		}
	}
	return nil, wire.Errorf(http.StatusNotFound, otherwise, r.Param(0))
}

func (s *Server) driverProperties(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	d, err := s.driver(r, unknownDriver)
	if err != nil {
		return Reply{}, err
	}
	m, err := s.conductorOf(d)
	if err != nil {
		return Reply{}, err
	}
	body, err := s.Ask.Ask(r.Context(), m, ask.Request{Method: ask.DriverProperties, Driver: d.name})
	if err != nil {
		return Reply{}, err
	}
	var properties map[string]any
	if err := json.Unmarshal(body, &properties); err != nil {
		return Reply{}, fmt.Errorf("read the answer of conductor %s about driver %s: %w", m.Name, d.name, err)
	}
	return ok(wire.AppendValue(nil, properties))
}

// conductorOf returns a live rackd with the driver, of a site that is not away.
func (s *Server) conductorOf(d *driver) (bus.Member, error) {
	err := error(wire.Errorf(http.StatusServiceUnavailable, "No conductor with driver %s is alive any more; retry.", d.name))
	for _, m := range s.Roster.Conductors() {
		if m.Drivers[d.name] == nil {
			continue
		}
		away := s.Away(m.Group)
		if away == nil {
			return m, nil
		}
		err = away
	}
	return bus.Member{}, err
}
