package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// nested are the collections that are listed below what their items belong to, and
// changed only where they are themselves at home.
var nested = []struct {
	above, path string
	since       microversion.Version
}{
	{"nodes", "ports", 1},
	{"nodes", "portgroups", 24},
	{"nodes", "volume/connectors", 32},
	{"nodes", "volume/targets", 32},
	{"portgroups", "ports", 24},
	{"chassis", "nodes", 1},
}

// notHere is the refusal of what those are asked for below others, notTogether that of what is
// asked for by more than one thing above it, notThere that of what parts of Ironic miss that read
// their paths themselves.
var (
	notHere     = wire.Invalid("Malformed request URI.")
	notTogether = wire.Errorf(http.StatusForbidden, "Operation not permitted.")
	notThere    = wire.Errorf(http.StatusNotFound, "The resource could not be found.")
)

// headings are parts of paths below which there is something, and which are nothing
// themselves.
var headings = []string{"management", "raid"}

// wholeParts are the parts of a node that are shown as a whole: what seems to lie below them
// is another method's.
var wholeParts = []string{"children", "firmware"}

// unread are parts of paths that nobody reads, nor what seems to lie below them: to read it is
// another method's as well.
var unread = []string{"management", "maintenance", "lookup", "events", "continue_inspection"}

// namesPart reports whether a path names, where a node would be, one of the parts of a node, and
// is none that Ironic reads without asking whether it does.
func namesPart(parts []string) bool {
	return len(parts) > 1 && parts[0] == "nodes" && slices.Contains(wire.NodeParts, parts[1]) &&
		(len(parts) == 2 || !slices.Contains(insideNode, parts[2]))
}

// unborn are collections that are not there at all, whatever the method, before the version
// that brought them. Of others only the methods are refused.
var unborn = map[string]microversion.Version{"volume": volumesSince}

// unbornParts are the parts of a node that are not there at all, whatever the method, before
// the version that brought them. Of others only the methods are refused.
var unbornParts = []string{"portgroups", "vifs", "bios", "allocation", "history", "inventory", "children", "firmware", "vmedia", "traits"}

// idents are the names of what routes' paths end with, where those are not the word in the
// path with "_ident": what has no name is told by its UUID.
var idents = map[string]string{
	"chassis/{chassis}":                              "chassis_uuid",
	"inspection_rules/{rule}":                        "inspection_rule_uuid",
	"volume/connectors/{volume}":                     "connector_uuid",
	"volume/targets/{volume}":                        "target_uuid",
	"nodes/{node}/vifs/{vif}":                        "vif_id",
	"nodes/{node}/management/indicators/{indicator}": "indicator",
}

// named is what the last part of the route's path is called.
func (r *Route) named() string {
	if name := idents[r.Path]; name != "" {
		return name
	}
	if r.Method == http.MethodDelete && r.Path == "ports/{port}" { // which a port's name does not do for
		return "port_uuid"
	}
	return strings.Trim(r.Path[strings.LastIndex(r.Path, "/")+1:], "{}") + "_ident"
}

// astray is the answer to a request for whose method and path there is no route; methods
// are those that the path has. Ironic looks at a request's arguments before it finds that
// nobody takes them, so that some are told of those.
func (s *Server) astray(method string, parts []string, v microversion.Version, methods map[string]*Route) error {
	if refusal := refuseNested(method, parts, v); refusal != nil {
		return refusal
	}
	notFound, notAllowed := wire.FrameworkError(http.StatusNotFound, ""), wire.FrameworkError(http.StatusMethodNotAllowed, "")
	last := len(parts) - 1
	if last < 0 {
		return notAllowed
	}
	if parts[0] == "shards" && last > 0 && method == http.MethodGet {
		return notThere
	}
	if s.router.root.literal[parts[0]] == nil || v < unborn[parts[0]] {
		return notFound
	}
	ofNode := parts[0] == "nodes" && last >= 2
	if ofNode && slices.Contains(unbornParts, parts[2]) && !s.router.born(parts[:3], v) {
		return notFound
	}
	if of := s.router.below(parts, method); of != nil {
		if late := of.late(v); late != nil && of.Late == http.StatusMethodNotAllowed {
			return late
		}
		return wire.Invalid("Missing mandatory parameter: %s", of.named())
	}
	strange := len(methods) == 0 && ofNode && s.router.root.literal["nodes"].param.literal[parts[2]] == nil
	switch above, _ := s.router.find(parts[:last]); {
	case method == http.MethodPost && (above[method] != nil || strange):
		return wire.Invalid("Schema error: '%.80s' is not of type 'object'", parts[last])
	case method == http.MethodPatch && strange:
		return wire.Invalid("Invalid reset_interfaces: Unrecognized value '%.80s'", parts[2])
	case method == http.MethodDelete && strange:
		return wire.Errorf(http.StatusNotFound, "Resource could not be found.")
	case len(methods) == 0 && method == http.MethodGet && !slices.Contains(headings, parts[last]) && !(ofNode && slices.Contains(wholeParts, parts[2])) &&
		!(last > 0 && slices.Contains(unread, parts[last-1])):
		return notFound
	}
	return notAllowed
}

// refuseNested is the refusal of what a request asks of a nested collection; nil when
// parts is not the path of one, or the method is none that the collection has at home.
func refuseNested(method string, parts []string, v microversion.Version) error {
	if len(parts) == 2 && parts[0] == "nodes" && slices.Contains(wire.NodeParts, parts[1]) {
		return wire.FrameworkError(http.StatusNotFound, "") // the node is left out
	}
	if len(parts) < 3 {
		return nil
	}
	if len(parts) == 3 && parts[2] == "detail" && method == http.MethodGet && slices.Contains(detailed, parts[0]) {
		return wire.Errorf(http.StatusNotFound, "Resource could not be found.")
	}
	if len(parts) == 3 && parts[1] == "detail" && method == http.MethodGet && slices.Contains(detailed[:3], parts[0]) {
		return wire.Errorf(http.StatusNotFound, "%s detail could not be found.", strings.ToUpper(parts[0][:1])+parts[0][1:len(parts[0])-1])
	}
	if len(parts) == 5 && parts[0] == "nodes" && parts[2] == "portgroups" && parts[4] == "ports" && method == http.MethodGet && v >= 24 {
		return notTogether
	}
	if len(parts) == 4 && parts[0] == "nodes" && parts[2] == "allocation" && v >= allocationsSince {
		return wire.FrameworkError(http.StatusMethodNotAllowed, "") // a node has one, which needs no name
	}
	for _, n := range nested {
		rest, below := strings.CutPrefix(strings.Join(parts[2:], "/"), n.path)
		if parts[0] != n.above || !below || v < n.since {
			continue
		}
		item, isItem := strings.CutPrefix(rest, "/")
		switch {
		case rest == "" && method == http.MethodPost:
			return notHere
		case rest == "" && (method == http.MethodPatch || method == http.MethodDelete):
			return wire.Invalid("Missing mandatory parameter: which of the %s of %s", n.path, parts[1])
		case isItem && !strings.Contains(item, "/") && slices.Contains(atHome, method):
			if _, isUUID := wire.UUID(item); !isUUID && n.path != "portgroups" && n.above != "chassis" {
				return wire.Invalid("Expected UUID for one of the %s: %.80s", n.path, item)
			}
			return notHere
		}
	}
	return nil
}

// detailed are the collections that have a list with everything under a path of its own, which
// is not the path of an item's field.
var detailed = []string{"nodes", "ports", "portgroups", "chassis"}

// atHome are the methods that items have.
var atHome = []string{http.MethodGet, http.MethodPatch, http.MethodDelete}
