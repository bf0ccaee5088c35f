package api

import (
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// root answers GET /, which tells any client of any version where v1 is.
func (s *Server) root(r *Request) (Reply, error) {
	v := appendVersion(nil, r.Base)
	b := append([]byte(nil), `{"name":"OpenStack Ironic API","description":"Ironyard provisions bare metal machines; its API is that of OpenStack Ironic.","default_version":`...)
	b = append(b, v...)
	b = append(b, `,"versions":[`...)
	b = append(b, v...)
	return ok(append(b, `]}`...))
}

// appendVersion appends the description of v1.
func appendVersion(b []byte, base string) []byte {
	b = append(b, `{"id":"v1","links":[{"href":`...)
	b = wire.AppendString(b, base+"/v1/")
	b = append(b, `,"rel":"self"}],"status":"CURRENT","min_version":"`...)
	b = append(b, microversion.Min.String()...)
	b = append(b, `","version":"`...)
	b = append(b, microversion.Max.String()...)
	return append(b, `"}`...)
}

func (s *Server) v1Resource() Resource {
	return Resource{Routes: []Route{{Method: http.MethodGet, Path: "", Summary: "Show what this version of the API has", Policy: Public, Handle: s.v1, Shows: versionAnswer}}}
}

// v1 answers GET /v1: the resources that the request's version knows.
func (s *Server) v1(r *Request) (Reply, error) {
	b := append([]byte(nil), `{"id":"v1","links":[{"href":`...)
	b = wire.AppendString(b, r.Base+"/v1/")
	b = append(b, `,"rel":"self"},{"href":"https://docs.openstack.org/ironic/latest/contributor/webapi.html","rel":"describedby","type":"text/html"}],`...)
	b = append(b, `"media_types":{"base":"application/json","type":"application/vnd.openstack.ironic.v1+json"}`...)
	names := []string{"version"}
	for _, resource := range s.resources {
		if resource.Name != "" && resource.Since <= r.Version {
			names = append(names, resource.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return v1Place(a) - v1Place(b) })
	for _, name := range names {
		b = wire.AppendName(b, name)
		if name == "version" {
			b = appendVersion(b, r.Base)
		} else {
			b = wire.AppendLinks(b, r.Base, name+"/")
		}
	}
	return ok(append(b, '}'))
}

// v1Order is the order in which Ironic's v1 names its resources.
var v1Order = []string{"chassis", "nodes", "ports", "drivers", "version", "portgroups", "volume", "lookup", "heartbeat", "conductors", "allocations",
	"events", "deploy_templates", "shards", "runbooks", "inspection_rules", "continue_inspection"}

// v1Place is where v1 names a resource: behind Ironic's if it is none of them.
func v1Place(name string) int {
	if i := slices.Index(v1Order, name); i >= 0 {
		return i
	}
	return len(v1Order)
}
