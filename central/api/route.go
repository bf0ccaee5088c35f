package api

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/schema"
	"github.com/ironyard/ironyard/central/api/wire"
)

// Resource is a part of the API that one file brings in.
type Resource struct {
	// Name of the collection in the /v1 document; empty: not listed there.
	Name string
	// Since is the version that brought it; older requests get 404.
	Since  microversion.Version
	Routes []Route
}

// Route is one method on one path.
type Route struct {
	Method string
	// Path is below /v1, parts in braces are parameters: "nodes/{node}/states".
	Path string
	// Summary says what the route is for; empty: what its method usually does with what its
	// path names, which is in usualSummaries.
	Summary string
	// Since is the version that brought the route, 0: with its resource. Late is
	// the status that older requests get, 0: 404.
	Since microversion.Version
	Late  int
	// AfterPolicy: who may not call the route hears that, whatever the version.
	AfterPolicy bool
	// Policy names the rule that says who may call it; Public: anybody may.
	Policy string
	// Own, if not empty, is the rule that decides instead for callers of a project whom it
	// may let pass: what they may do with nodes of their own.
	Own string
	// Last, if not empty, is the rule that Ironic asks last of who may not do it by Policy: the one that refusals name.
	Last string
	// ByField: the handler asks for the rules of the fields that the request changes;
	// before it runs only what the caller may not read is kept back.
	ByField bool
	Handle  Handler
	// Body is how many bytes the body of a request may have that needs no account; 0: none is read.
	Body int64
	// Known, if not nil, reports whether a request that needs no account is of an agent whose token was right before. Its
	// body has been read.
	Known func(*Request) bool
	// Takes describes the body of an action, Shows an answer; nil: the tables of fields do,
	// or it may be any.
	Takes, Shows schema.Schema
	// Success is the status of a request that is carried out; 0: the usual one of Method.
	Success int
}

// success is the status of a request that is carried out.
func (r *Route) success() int {
	switch {
	case r.Success != 0:
		return r.Success
	case r.Method == http.MethodPost:
		return http.StatusCreated
	case r.Method == http.MethodPut || r.Method == http.MethodDelete:
		return http.StatusNoContent
	}
	return http.StatusOK
}

// late is the answer to a request of version v that is too old for the route; nil when it
// is not.
func (r *Route) late(v microversion.Version) error {
	switch {
	case v >= r.Since:
		return nil
	case r.Late == http.StatusNotAcceptable: // a handler's own answer, not the framework's
		return wire.Errorf(r.Late, "Request not acceptable.")
	case r.AfterPolicy:
		return wire.Errorf(cmp.Or(r.Late, http.StatusNotFound), "This endpoint is supported starting with the API version %s", r.Since)
	}
	status := cmp.Or(r.Late, http.StatusNotFound)
	parts := split(r.Path)
	text := untimely[parts[0]]
	if r.Policy == "baremetal:allocation:update" {
		text = "The API version does not allow updating allocations"
	}
	switch {
	case status == http.StatusMethodNotAllowed && !slices.Contains(methodsRefused, parts[0]):
	case !r.aloof():
		return wire.Errorf(status, "%s", cmp.Or(text, "Resource could not be found."))
	case parts[len(parts)-1] == "vmedia" && v >= mediaSince:
		return notThere
	case parts[0] == "runbooks" && len(parts) > 2:
		text = "The API version does not allow runbook traits"
	case parts[0] == "volume" || len(parts) > 2: // what lies below others
		text = ""
	}
	return wire.FrameworkError(status, text)
}

// methodsRefused are the resources that refuse the methods of a request that is too old by
// themselves; for others the framework does.
var methodsRefused = []string{"allocations", "inspection_rules"}

// untimely is what requests hear that are too old for a whole resource, where Ironic has
// words of its own for that.
var untimely = map[string]string{
	"allocations":      "The API version does not allow allocations",
	"conductors":       "The API is not supported for this version",
	"deploy_templates": "The API version does not allow deploy templates",
	"events":           "The API is not supported for this version",
	"portgroups":       "The API is not supported for this version",
	"inspection_rules": "The API version does not allow inspection rules",
	"runbooks":         "The API version does not allow runbooks",
	"shards":           "The API version does not allow shards",
	"volume":           "The API is not supported for this version",
}

// aloof reports whether a request that is too old is turned away before anybody looks at it,
// so that the answer is the framework's: so it is for some resources, and for what lies
// below a node.
func (r *Route) aloof() bool {
	parts := split(r.Path)
	if parts[0] == "nodes" && len(parts) > 2 {
		return parts[2] == "volume" && len(parts) > 3 || parts[2] != "traits" && slices.Contains(unbornParts, parts[2])
	}
	if len(parts) > 1 && parts[0] == "volume" || len(parts) > 2 && parts[0] == "portgroups" { // what lies below, not they themselves
		return true
	}
	return slices.Contains([]string{"deploy_templates", "runbooks"}, parts[0])
}

// Public is the policy of routes that need no authentication.
const Public = "public"

// heads reports whether the route answers HEAD, too: the documents that everybody may read
// do, for those who look whether a server is there. Resources are read with GET only, as in
// Ironic.
func (r *Route) heads() bool { return r.Method == http.MethodGet && r.Policy == Public }

// public reports whether a path is one that needs no authentication, whatever the method.
func public(methods map[string]*Route) bool {
	for _, route := range methods {
		if route.Policy == Public || anonymous[route.Policy] {
			return true
		}
	}
	return false
}

// anonymous are the rules of what machines in a ramdisk ask for, which have no account.
var anonymous = map[string]bool{"baremetal:driver:ipa_lookup": true, "baremetal:node:ipa_heartbeat": true,
	"baremetal:driver:ipa_continue_inspection": true}

// ofStrangers reports whether a request for the route takes its part of what strangers may have: a ramdisk's does, and a
// public one that names an object, which has to be looked up. Public documents are in memory and cost nothing.
func (r *Route) ofStrangers() bool {
	return anonymous[r.Policy] || r.Policy == Public && strings.Contains(r.Path, "{")
}

// Handler answers a request, or says why not.
type Handler func(*Request) (Reply, error)

// Reply is an answer that says yes.
type Reply struct {
	Status   int
	Location string // URL, empty for none
	Body     []byte // JSON, nil for none
	lent     bool   // Body is a buffer that is used again
	// Long, if not nil, is JSON that is put together while it is written.
	Long long
	// ContentType of a body that is not JSON.
	ContentType string
	// Stream, if not nil, writes the body until its context ends; see streamed.
	Stream func(context.Context, *stream) error
	// Upgrade, if not nil, takes the connection over until its context ends.
	Upgrade func(context.Context)
}

// long is a body that knows its length before it is written.
type long interface {
	Size() int
	io.WriterTo
}

func ok(body []byte) (Reply, error) { return Reply{Status: http.StatusOK, Body: body}, nil }

func noContent() (Reply, error) { return Reply{Status: http.StatusNoContent}, nil }

func accepted(location string) (Reply, error) {
	return Reply{Status: http.StatusAccepted, Location: location}, nil
}

// router finds routes by path. A literal part wins over a parameter.
type router struct{ root branch }

type branch struct {
	literal map[string]*branch
	param   *branch
	methods map[string]*Route
}

func newRouter(resources []Resource) *router {
	r := &router{}
	for i := range resources {
		for j := range resources[i].Routes {
			route := resources[i].Routes[j]
			route.Since = max(route.Since, resources[i].Since)
			r.add(&route)
		}
	}
	return r
}

func (r *router) add(route *Route) {
	b := &r.root
	for _, part := range split(route.Path) {
		if strings.HasPrefix(part, "{") {
			if b.param == nil {
				b.param = &branch{}
			}
			b = b.param
			continue
		}
		if b.literal == nil {
			b.literal = map[string]*branch{}
		}
		if b.literal[part] == nil {
			b.literal[part] = &branch{}
		}
		b = b.literal[part]
	}
	if b.methods == nil {
		b.methods = map[string]*Route{}
	}
	if b.methods[route.Method] != nil || route.Policy == "" {
		panic("api: route " + route.Method + " " + route.Path + " is there twice or has no policy")
	}
	b.methods[route.Method] = route
}

// find returns the methods of a path and the values of its parameters in order;
// nil when there is no such path.
func (r *router) find(parts []string) (methods map[string]*Route, params []string) {
	b := &r.root
	for _, part := range parts {
		switch {
		case b.literal[part] != nil:
			b = b.literal[part]
		case b.param != nil && part != "":
			b = b.param
			params = append(params, part)
		default:
			return nil, nil
		}
	}
	return b.methods, params
}

// fieldOf finds the route of RESOURCE/ITEM for the path RESOURCE/ITEM/FIELD that leads
// nowhere else: it shows that field of the item.
func (r *router) fieldOf(parts []string) (methods map[string]*Route, params []string, field string) {
	last := len(parts) - 1
	if last < 2 || last > 2 && parts[0] != "volume" || slices.Contains(headings, parts[last]) ||
		parts[last] == "detail" && slices.Contains(detailed, parts[0]) {
		return nil, nil, ""
	}
	methods, params = r.find(parts[:last])
	if show := methods[http.MethodGet]; show == nil || !strings.HasSuffix(show.Path, "}") {
		return nil, nil, ""
	}
	return methods, params, parts[last]
}

// born reports whether a path has a method in version v.
func (r *router) born(parts []string, v microversion.Version) bool {
	methods, _ := r.find(parts)
	for _, route := range methods {
		if route.Since <= v {
			return true
		}
	}
	return false
}

// below returns the route that a path would lead to with one more part, a parameter; nil when
// there is no such path.
func (r *router) below(parts []string, method string) *Route {
	if method == http.MethodGet {
		return nil
	}
	methods, params := r.find(append(slices.Clone(parts), "-"))
	route := methods[method]
	if route == nil || len(params) == 0 || params[len(params)-1] != "-" {
		return nil
	}
	return route
}

func allow(methods map[string]*Route) string {
	var names []string
	for m, route := range methods {
		names = append(names, m)
		if route.heads() {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// escapedSlashes keeps escaped slashes escaped when the path around them is unescaped.
var escapedSlashes = strings.NewReplacer("%2F", "%252F", "%2f", "%252f")

// pathParts cuts a URL's path at its slashes. An escaped slash is not one of them: whoever
// decides by the path before central does, a proxy, takes it for part of a name, too. It
// stays escaped, so that no name is found that has it.
func pathParts(u *url.URL) []string {
	if u.RawPath == "" { // nothing is escaped that need not be
		return split(u.Path)
	}
	path, err := url.PathUnescape(escapedSlashes.Replace(u.RawPath))
	if err != nil {
		path = u.Path // RawPath is not that of Path, says net/url
	}
	return split(path)
}

// split cuts a path at its slashes; a slash at either end does not count.
func split(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
