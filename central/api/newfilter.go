package api

import (
	"net/http"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
)

// newFilter is the 406 for an argument that filters a list of nodes, ports or port groups and is newer
// than the request's version. Ironic says it of each in one of three ways.
func newFilter(name string, since microversion.Version) error {
	switch name {
	case "instance_name":
		return wire.Errorf(http.StatusNotAcceptable, "%s is not acceptable in this API version", name).Detailed("it needs API version %s or newer", since)
	case "provision_state", "portgroup":
		return wire.NotAcceptable("The argument "+name, since)
	}
	return wire.Needs(since, "the argument "+name)
}
