package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// nested are the collections that are listed below what their items belong to, and
// changed only where they are themselves at home. What lies below a chassis is not even
// spoken of.
var nested = []struct {
	above, path string
	since       microversion.Version
	refusal     *wire.Error
}{
	{"nodes", "ports", 1, notHere},
	{"nodes", "portgroups", 24, notHere},
	{"nodes", "volume/connectors", 32, notHere},
	{"nodes", "volume/targets", 32, notHere},
	{"portgroups", "ports", 24, notHere},
	{"chassis", "nodes", 1, wire.Invalid("Malformed request URI.")},
}

var notHere = wire.Errorf(http.StatusForbidden, "Operation not permitted.")

// refuseNested is the refusal of what a request asks of a nested collection; nil when
// parts is not the path of one, or the method is none that the collection has at home.
func refuseNested(method string, parts []string, v microversion.Version) error {
	if len(parts) == 2 && parts[0] == "nodes" && slices.Contains(subcollections, parts[1]) {
		return wire.FrameworkError(http.StatusNotFound, "") // the node is left out
	}
	if len(parts) < 3 {
		return nil
	}
	if len(parts) == 4 && parts[0] == "nodes" && parts[2] == "allocation" && v >= allocationsSince {
		return wire.FrameworkError(http.StatusMethodNotAllowed, "") // a node has one, which needs no name
	}
	if parts[0] == "nodes" && parts[2] == "states" && method == http.MethodPut {
		return wire.FrameworkError(http.StatusMethodNotAllowed, "") // there are states, and none that is called so
	}
	for _, n := range nested {
		rest, below := strings.CutPrefix(strings.Join(parts[2:], "/"), n.path)
		if parts[0] != n.above || !below || v < n.since {
			continue
		}
		item, isItem := strings.CutPrefix(rest, "/")
		switch {
		case rest == "" && method == http.MethodPost:
			return n.refusal
		case rest == "" && (method == http.MethodPatch || method == http.MethodDelete):
			return wire.Invalid("Missing mandatory parameter: which of the %s of %s", n.path, parts[1])
		case isItem && !strings.Contains(item, "/") && slices.Contains(atHome, method):
			return n.refusal
		}
	}
	return nil
}

// atHome are the methods that items have.
var atHome = []string{http.MethodGet, http.MethodPatch, http.MethodDelete}
