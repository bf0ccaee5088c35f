package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
)

func (s *Server) nodeInventory() Resource {
	return Resource{Since: 81, Routes: []Route{{Method: http.MethodGet, Path: "nodes/{node}/inventory",
		Summary: "Show what a machine was found to consist of", Policy: "baremetal:node:inventory:get", Handle: s.showInventory, Shows: inventoryAnswer}}}
}

func (s *Server) showInventory(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	inventory, err := s.Store.Inventory(r.Context(), n.UUID)
	if errors.Is(err, store.ErrNotFound) {
		return Reply{}, wire.Errorf(http.StatusNotFound, "Node inventory record for node %s could not be found.", n.UUID).Detailed("the node was never inspected")
	}
	if err != nil {
		return Reply{}, storeError(err)
	}
	plugin := inventory.Plugin
	if len(plugin) == 0 {
		plugin = []byte("{}")
	}
	b := wire.AppendValue([]byte(`{"inventory":`), json.RawMessage(inventory.Data))
	return ok(append(wire.AppendValue(wire.AppendName(b, "plugin_data"), json.RawMessage(plugin)), '}'))
}
