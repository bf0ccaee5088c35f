package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/schema"
	"github.com/ironyard/ironyard/central/api/wire"
)

// openAPI is ours: the description of the API that the routes and the tables of fields
// are, so it is never behind them.
func (s *Server) openAPI() Resource {
	show := func(*Request) (Reply, error) { return ok(s.document()) }
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: "openapi.json", Summary: "Show this description", Policy: Public, Handle: show},
		{Method: http.MethodGet, Path: "openapi", Summary: "Show this description", Policy: Public, Handle: show}, // what older versions make of it
	}}
}

// described are the tables of what routes show, by the part of the path that names them.
var described = map[string]interface {
	Describe() []fields.Description
	Resource() string
}{
	"nodes": nodeTable, "ports": portTable, "portgroups": portgroupTable, "chassis": chassisTable, "connectors": connectorTable,
	"targets": targetTable, "allocations": allocationTable, "deploy_templates": deployTemplateTable, "runbooks": runbookTable,
	"conductors": conductorTable, "drivers": driverTable, "history": historyTable, "bios": biosTable, "firmware": firmwareTable,
	"audit": auditTable, "inspection_rules": inspectionRuleTable,
}

// filtersOf are the arguments that filter what a route shows, or say what it is about, with the
// version that brought each.
func (s *Server) filtersOf(route *Route) map[string]microversion.Version {
	switch route.Method + " " + route.Path {
	case "GET lookup":
		return since(1, "addresses", "node_uuid")
	case "POST continue_inspection":
		return since(1, "node_uuid")
	case "GET nodes/validate":
		return since(1, "node", "node_uuid")
	case "GET drivers/{driver}/vendor_passthru/" + ipxeConfig:
		return since(1, "node_uuid", "port_address")
	case "PATCH nodes/{node}":
		return since(resetInterfacesSince, "reset_interfaces")
	case "PUT nodes/{node}/management/indicators/{indicator}":
		return since(1, "state")
	case "GET audit":
		return since(1, auditArguments...)
	case "GET notifications":
		return since(1, "event_type", "node", "level", "last_event_id")
	}
	if name, list := shape(route); list && route.Method == http.MethodGet {
		return s.listFilters(name)
	}
	return nil
}

// listFilters are what lists of a resource are filtered by, also of those that belong to one other.
func (s *Server) listFilters(name string) map[string]microversion.Version {
	switch name {
	case "nodes":
		return nodeFilters
	case "ports":
		return portFilters
	case "portgroups":
		return s.portgroupCollection().filters
	case "allocations":
		return s.allocationCollection().filters
	case "connectors":
		return s.volumeConnectors().filters
	case "targets":
		return s.volumeTargets().filters
	case "runbooks":
		return s.runbookCollection().filters
	case "inspection_rules":
		return s.inspectionRuleCollection().filters
	case "drivers":
		return since(30, "type")
	}
	return nil
}

// unpaged are lists that are shown whole; withoutFields and withoutDetail are those of which
// that cannot be asked.
var (
	unpaged       = []string{"bios", "drivers", "firmware"}
	withoutFields = []string{"history"}
	withoutDetail = []string{"allocations"}
)

// fieldsSince and detailSince are the lists of which fields, or details, could be asked
// since another version than of most.
var (
	fieldsSince = map[string]microversion.Version{"drivers": driverFieldsSince}
	detailSince = map[string]microversion.Version{"drivers": driverTypeSince, "connectors": volumesSince, "targets": volumesSince}
)

func since(v microversion.Version, names ...string) map[string]microversion.Version {
	list := map[string]microversion.Version{}
	for _, name := range names {
		list[name] = v
	}
	return list
}

type document = map[string]any

// shape is what a route shows: the name of a schema, and whether it is a list of them.
// An empty name: something that no table describes.
func shape(route *Route) (name string, list bool) {
	parts := split(route.Path)
	if len(parts) == 0 {
		return "", false
	}
	last := parts[len(parts)-1]
	if last == "detail" && len(parts) > 1 {
		last, parts = parts[len(parts)-2], parts[:len(parts)-1]
	}
	if last == "allocation" {
		return "allocations", false
	}
	if described[last] != nil {
		return last, true
	}
	if strings.HasPrefix(last, "{") && len(parts) > 1 && described[parts[len(parts)-2]] != nil && parts[len(parts)-2] != "bios" {
		return parts[len(parts)-2], false
	}
	return "", false
}

// describe builds the OpenAPI document.
func (s *Server) describe(resources []Resource) []byte {
	paths, creates := map[string]document{}, map[string]schema.Schema{}
	for _, resource := range resources {
		for i := range resource.Routes {
			route := resource.Routes[i]
			route.Since = max(route.Since, resource.Since, microversion.Min)
			path := strings.TrimSuffix("/v1/"+route.Path, "/")
			if paths[path] == nil {
				paths[path] = document{}
			}
			paths[path][strings.ToLower(route.Method)] = s.operation(&route)
			if name, list := shape(&route); list && route.Method == http.MethodPost {
				creates[name] = route.Takes
			}
		}
	}
	schemas := document{"Error": errorSchema, "Patch": patchSchema, "Links": document{"type": "array", "items": document{"type": "object"}}}
	for name, table := range described {
		schemas[name] = itemSchema(table.Describe())
		if takes, has := creates[name]; has && takes == nil {
			schemas[name+".create"] = bodySchema(table.Describe())
		} else if has {
			schemas[name+".create"] = takes
		}
	}
	all := document{
		"openapi": "3.1.0",
		"info": document{"title": "Ironyard", "version": microversion.Max.String(), "license": document{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
			"description": "Bare metal provisioning, compatible with OpenStack Ironic's API. x-since is the API version that brought something; " +
				"a request asks for a version with the header " + microversion.Header + "."},
		"servers":    []document{{"url": "/", "description": "The server that this description comes from."}},
		"security":   anyStrategy,
		"paths":      paths,
		"components": document{"schemas": schemas, "securitySchemes": securitySchemes},
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("api: " + err.Error())
	}
	return text
}

func (s *Server) operation(route *Route) document {
	params := []document{{"name": microversion.Header, "in": "header", "schema": document{"type": "string", "default": "1.1"},
		"description": "The version that the request speaks: 1.N, or latest."}}
	for _, part := range split(route.Path) {
		if name, isParam := strings.CutPrefix(part, "{"); isParam {
			params = append(params, document{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": document{"type": "string"}})
		}
	}
	name, list := shape(route)
	params = append(params, s.query(route, name, list)...)
	o := document{"operationId": operationID(route), "summary": route.summary(), "x-since": route.Since.String(), "x-policy": route.Policy, "parameters": params,
		"responses": document{
			strconv.Itoa(route.success()): s.response(route, name, list),
			"4XX":                         document{"description": "Refused: nothing has changed.", "content": inJSON(schema.Component("Error"))},
			"default":                     document{"description": "Failed.", "content": inJSON(schema.Component("Error"))},
		}}
	if route.Policy == Public {
		o["security"] = []document{}
	}
	switch {
	case route.Method == http.MethodPatch && name != "":
		o["requestBody"] = document{"required": true, "content": inJSON(schema.Component("Patch"))}
	case route.Method == http.MethodPost && list:
		o["requestBody"] = document{"required": true, "content": inJSON(schema.Component(name + ".create"))}
	case route.Takes != nil:
		o["requestBody"] = document{"required": route.Takes["required"] != nil, "content": inJSON(route.Takes)}
	case route.Method == http.MethodPatch || route.Method == http.MethodPost || route.Method == http.MethodPut:
		o["requestBody"] = document{"content": inJSON(schema.Any)}
	}
	return o
}

// securitySchemes are how callers may say who they are. Which of them a server takes, or that it asks
// nobody, is configured (docs/authentication.md).
var (
	securitySchemes = document{
		"basic":  document{"type": "http", "scheme": "basic", "description": "A user of the server's htpasswd file."},
		"bearer": document{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A token of the OpenID Connect issuer that the server trusts."},
		"token": document{"type": "apiKey", "in": "header", "name": "X-Auth-Token",
			"description": "A token of the Keystone that the server asks, or of the OpenID Connect issuer that it trusts."},
	}
	anyStrategy = []document{{"basic": []string{}}, {"bearer": []string{}}, {"token": []string{}}, {}}
)

// query are the arguments that a route takes behind a question mark.
func (s *Server) query(route *Route, name string, list bool) (params []document) {
	add := func(name string, since microversion.Version) {
		params = append(params, document{"name": name, "in": "query", "schema": document{"type": "string"}, "x-since": max(since, route.Since).String()})
	}
	filters := s.filtersOf(route)
	for _, arg := range slices.Sorted(maps.Keys(filters)) {
		add(arg, filters[arg])
	}
	if route.Method != http.MethodGet || name == "" || route.Path == "audit" {
		return params
	}
	if route.Path == "nodes" || route.Path == "nodes/{node}" {
		add("watch", microversion.Min)
	}
	if list && !slices.Contains(unpaged, name) {
		for _, arg := range wire.PageArguments {
			add(arg, route.Since)
		}
	}
	if strings.HasSuffix(route.Path, "/detail") {
		return params
	}
	if !slices.Contains(withoutFields, name) {
		add("fields", cmp.Or(fieldsSince[name], 8))
	}
	if list && !slices.Contains(withoutDetail, name) {
		add("detail", cmp.Or(detailSince[name], 43))
	}
	return params
}

func (s *Server) response(route *Route, name string, list bool) document {
	status := route.success()
	o := document{"description": http.StatusText(status)}
	switch {
	case status == http.StatusAccepted || status == http.StatusNoContent:
	case route.Path == "notifications":
		o["content"] = document{"text/event-stream": document{"schema": document{"type": "string"}}, "application/x-ndjson": document{"schema": document{"type": "string"}}}
	case route.Shows != nil:
		o["content"] = inJSON(route.Shows)
	case name == "":
		o["content"] = inJSON(schema.Any)
	case list && route.Method == http.MethodGet:
		o["content"] = inJSON(document{"type": "object", "required": []string{name}, "properties": document{
			name: document{"type": "array", "items": schema.Component(name)}, "next": document{"type": "string", "format": "uri"}}})
	default:
		o["content"] = inJSON(schema.Component(name))
	}
	return o
}

// operationID is unique: the method and the parts of the path.
func operationID(route *Route) string {
	return strings.ToLower(route.Method) + strings.Map(func(r rune) rune {
		switch r {
		case '/', '.':
			return '_'
		case '{', '}':
			return -1
		}
		return r
	}, "/"+route.Path)
}

func inJSON(s schema.Schema) document {
	return document{"application/json": document{"schema": s}}
}

func property(f fields.Description) schema.Schema {
	p := schema.Schema{"x-since": f.Since.String()}
	if f.Type != "" {
		p["type"] = []string{f.Type, "null"}
	}
	if f.Format != "" {
		p["format"] = f.Format
	}
	return p
}

// itemSchema is what answers show. Besides its fields an item has links, and some have
// links to what belongs to them.
func itemSchema(list []fields.Description) document {
	props := document{}
	for _, name := range []string{"links", "ports", "states", "portgroups", "volume", "connectors", "targets", "properties", "traits"} {
		props[name] = schema.Component("Links")
	}
	props["nodes"] = document{"type": "array", "items": schema.Component("Links")} // of a chassis
	for _, f := range list {
		p := property(f)
		if !f.Post && !f.Patch {
			p["readOnly"] = true
		}
		props[f.Name] = p
	}
	return document{"type": "object", "properties": props, "additionalProperties": false}
}

// bodySchema is what a POST takes.
func bodySchema(list []fields.Description) schema.Schema {
	props, required := schema.Members{}, []string{}
	for _, f := range list {
		if f.Post {
			p := property(f)
			if f.Type == "boolean" {
				p["type"] = []string{"boolean", "string", "null"} // "yes" and the like
			}
			props[f.Name] = p
			if f.Required {
				required = append(required, f.Name)
			}
		}
	}
	return props.Open(required...)
}

var errorSchema = document{"type": "object", "description": "error_message is itself a JSON text, of an object with faultstring, or with message.",
	"properties": document{"error_message": document{"type": "string"}, "faultcode": document{"type": "string"}, "faultstring": document{"type": "string"},
		"error": document{"type": "object"}}}

var patchSchema = document{"type": "array", "items": document{"type": "object", "required": []string{"op", "path"}, "additionalProperties": false,
	"properties": document{"op": document{"enum": []string{"add", "replace", "remove"}}, "path": document{"type": "string"}, "value": document{}}}}
