package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/store"
)

// Request is one request on its way through a handler.
type Request struct {
	*http.Request
	// Caller is who asks; the zero Caller on routes that are public.
	Caller auth.Caller
	// may says what the caller may do; nil on routes that are public.
	may *policy.View
	// sight says what it sees of nodes; sightOf makes it.
	sight *sight
	// scope is what Scope returns; unlimited: the handler has not asked for it yet.
	scope     string
	unlimited bool
	Version   microversion.Version
	Query     wire.Query
	// Base is the URL that links begin with, without a slash at the end.
	Base string
	// ID is the request's id, in its answer, in logs and in the work that it starts.
	ID     string
	params []string
	// suffix is what was cut off the path's last part (".json"), which may after
	// all have belonged to a name.
	suffix string
	// judge, if not nil, says once more whether the request may do what it asks for, by what its reader
	// of objects finds. judged has the node's UUID that it was judged by first.
	judge  func(context.Context, objects) error
	judged string
	// cause is on whose behalf the request writes; nil for those that only read.
	cause  *store.Cause
	writer http.ResponseWriter
	// stranger is what the request takes of the budget of callers who are not known; leave, if not nil, ends what it
	// takes a place in.
	stranger stranger
	leave    func()
	// bodies is where what a large body takes is counted, held how much of it this request has.
	bodies *bodyRoom
	held   int64
	// boot is the id of the boot that was in front of the API's path, as boot scripts give it
	// to agents; empty without one.
	boot string
}

// globalID is the id that the client gave to what it is doing, which may be more than this
// request; empty when it gave none, or one of another form than this server's own.
func (r *Request) globalID() string {
	id := r.Header.Get("X-Openstack-Request-Id")
	if rest, ok := strings.CutPrefix(id, "req-"); ok && len(rest) == len(uuid.Nil.String()) && uuid.Validate(rest) == nil {
		return id
	}
	return ""
}

// Param returns the path's parameter number i.
func (r *Request) Param(i int) string { return r.params[i] }

// listPath is the path of the request below /v1, for "next" links.
func (r *Request) listPath() string {
	parts := pathParts(r.URL)
	if len(parts) > 0 && parts[0] == "v1" {
		parts = parts[1:]
	}
	return strings.TrimSuffix(strings.Join(parts, "/"), r.suffix)
}

// Object reads the body as a JSON object of ordinary size.
func (r *Request) Object() (map[string]any, error) {
	if r.stranger.room != nil {
		return r.object()
	}
	return wire.Object(r.writer, r.Request, wire.MaxBody, r.holds)
}

// Arguments reads what an action is told: the members of the body and, where those leave
// one out, the arguments of the query. Others than names are refused; so is a body that
// lacks mandatory, if that is not empty.
func (r *Request) Arguments(limit int64, mandatory string, names ...string) (map[string]any, error) {
	body, err := r.JSON(limit)
	if err != nil {
		return nil, err
	}
	return r.withQuery(body, mandatory, names...)
}

// withQuery is Arguments of a body that was read.
func (r *Request) withQuery(body any, mandatory string, names ...string) (map[string]any, error) {
	args, isObject := body.(map[string]any)
	switch {
	case body == nil:
		args = map[string]any{}
	case !isObject:
		return nil, wire.Invalid("The request's body must be a JSON object")
	}
	for name, value := range r.Query {
		if _, given := args[name]; !given {
			args[name] = value
		}
	}
	if err := only(args, names...); err != nil {
		return nil, err
	}
	if _, given := args[mandatory]; !given && mandatory != "" {
		return nil, wire.Invalid("Missing mandatory parameter: %s", mandatory)
	}
	return args, nil
}

// noArguments refuses arguments where none are taken. Those of a DELETE may also be the members
// of a body of JSON, which Ironic looks at alike; any other body of one is not looked at.
func (r *Request) noArguments() error {
	given := maps.Clone(r.Query)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodDelete && kind == "application/json" {
		body, err := r.JSON(wire.MaxBody)
		if e, isRefusal := errors.AsType[*wire.Error](err); isRefusal && e.Shape == wire.Bare {
			return err // it is too large, or too deep
		}
		members, _ := body.(map[string]any)
		for name := range members {
			given[name] = ""
		}
	}
	return given.Allow()
}

// JSON reads the body as any JSON value of at most limit bytes.
func (r *Request) JSON(limit int64) (any, error) {
	return wire.ReadJSON(r.writer, r.Request, limit, r.holds)
}

// nodeIdent checks the name or UUID of a node as a request gives it: 404 for names
// before there were any.
func (r *Request) nodeIdent(ident string) (string, error) {
	if id, ok := wire.UUID(ident); ok {
		return id, nil
	}
	if slices.Contains(wire.NodeParts, ident) || r.Version < wire.NameSince && wire.ValidName(ident, microversion.Max) {
		return "", wire.Errorf(http.StatusNotFound, "Node %.80s could not be found.", ident)
	}
	if !wire.ValidName(ident, r.Version) {
		return "", r.misnamed(ident)
	}
	return ident, nil
}

// insideNode are the parts of a node whose own handlers read its name, and not the framework.
var insideNode = []string{"states", "management", "vendor_passthru", "maintenance"}

// misnamed says that ident cannot be the name of a node, as the part of Ironic says it that reads
// that part of a request: a path, the argument "node", or a body.
func (r *Request) misnamed(ident string) error {
	parts := split(r.listPath())
	switch {
	case len(parts) == 2 && parts[0] == "nodes" && slices.Contains(insideNode, ident):
		return wire.Invalid("Missing mandatory parameter: node_ident") // the node was left out
	case len(parts) > 1 && parts[0] == "nodes" && parts[1] == ident && (len(parts) == 2 || !slices.Contains(insideNode, parts[2])):
		return wire.FrameworkError(http.StatusBadRequest, fmt.Sprintf("Expected UUID or name for node: %.80s", ident))
	case len(parts) > 1 && parts[1] == ident:
		return wire.Invalid("Expected UUID or name for node_ident: %.80s", ident)
	case r.Query["node"] == ident:
		return wire.Invalid("Expected UUID or name for node: %.80s", ident)
	}
	return notLogical(ident)
}

// selection reads "fields" and "detail" for a resource: all fields for one item,
// the short list for many.
type selector[S any] interface {
	All(microversion.Version) S
	Short(microversion.Version) S
	Choose(microversion.Version, []string) (S, error)
}

// selectFields reads "fields" (since fieldsSince) and "detail" (since
// detailSince). whole: without either, all fields are shown.
func selectFields[S any](r *Request, t selector[S], whole bool, fieldsSince, detailSince microversion.Version) (S, error) {
	var none S
	names := r.Query.List("fields")
	_, given := r.Query["fields"]
	if given && r.Version < fieldsSince {
		return none, wire.NotAcceptable("The argument fields", fieldsSince)
	}
	detail, err := r.Query.Bool("detail")
	switch {
	case err != nil:
		return none, err
	case detail != nil && r.Version < detailSince:
		return none, wire.Invalid("Invalid query parameter ?detail=%s received.", map[bool]string{true: "True", false: "False"}[*detail])
	case detail != nil && *detail && given:
		return none, wire.Invalid("Can not specify ?detail=True and fields in the same request.")
	case given:
		return t.Choose(r.Version, names)
	case whole || detail != nil && *detail:
		return t.All(r.Version), nil
	}
	return t.Short(r.Version), nil
}

// nextLink is the "next" link of a list that t describes and that ends with the item that marker
// names. fieldsSince is as for selectFields.
func nextLink[T any](r *Request, t *fields.Table[T], sel fields.Selection, fieldsSince microversion.Version, path string, p wire.Page, marker string) string {
	var names []string
	if r.Version >= fieldsSince {
		names = t.Names(sel)
	}
	return r.Query.Next(r.Base, path, p, marker, names)
}
