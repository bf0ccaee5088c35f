package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/hardware"
)

const (
	firmwareSince         = 86
	firmwareIdentitySince = 114
)

// component is a firmware component as a request sees it.
type component struct {
	hardware.Component
	initial          string
	created, updated time.Time
}

// firmwareIdentity are the fields that say which part it is.
var firmwareIdentity = []string{"vendor", "model", "serial_number"}

// firmwareTable is every field of a firmware component.
var firmwareTable = fields.New("firmware component",
	fields.Time("created_at", firmwareSince, func(c *component) time.Time { return c.created }).List(),
	fields.Time("updated_at", firmwareSince, func(c *component) time.Time { return c.updated }).List(),
	fields.Computed("component", firmwareSince, func(c *component) any { return c.Name }).List(),
	fields.Said("initial_version", firmwareSince, func(c *component) string { return c.initial }).List(),
	fields.Said("current_version", firmwareSince, func(c *component) string { return c.Current }).List(),
	fields.Said("last_version_flashed", firmwareSince, func(c *component) string { return c.Flashed }).List(),
	fields.Said("vendor", firmwareIdentitySince, func(c *component) string { return c.Vendor }).List(),
	fields.Said("model", firmwareIdentitySince, func(c *component) string { return c.Model }).List(),
	fields.Said("serial_number", firmwareIdentitySince, func(c *component) string { return c.Serial }).List(),
).Choices(append([]string{"created_at", "updated_at", "component", "initial_version", "current_version", "last_version_flashed"}, firmwareIdentity...)...)

func (s *Server) nodeFirmware() Resource {
	return Resource{Since: firmwareSince, Routes: []Route{{Method: http.MethodGet, Path: "nodes/{node}/firmware",
		Summary: "List the components of a machine that have firmware", Policy: "baremetal:node:firmware:get", Handle: s.listFirmware}}}
}

func (s *Server) listFirmware(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields", "detail"); err != nil {
		return Reply{}, err
	}
	if detail, given := r.Query["detail"]; given { // a word for yes or no is none of its values, and an argument is a word
		return Reply{}, schemaError(detail, "is not of type 'boolean'")
	}
	if r.Query.Has("fields") {
		for _, name := range r.Query.List("fields") {
			if r.Version < firmwareIdentitySince && slices.Contains(firmwareIdentity, name) {
				return Reply{}, wire.Invalid("Fields %s are not allowed in this API version. They require at least API version %s.",
					name, microversion.Version(firmwareIdentitySince))
			}
		}
		r.Query["fields"] += ",created_at,updated_at" // whatever is asked for, these are shown
	}
	sel, err := selectFields(r, firmwareTable, false, firmwareSince, firmwareSince)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	items, err := s.Store.Hardware(r.Context(), n.UUID, store.FirmwareComponent)
	if err != nil {
		return Reply{}, storeError(err)
	}
	b := []byte(`{"firmware":[`)
	for i, item := range items {
		c := &component{initial: item.Initial, created: item.CreatedAt, updated: item.UpdatedAt}
		if err := json.Unmarshal([]byte(item.Data), &c.Component); err != nil {
			return Reply{}, fmt.Errorf("firmware component %s of node %s: %w", item.Name, n.UUID, err)
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(firmwareTable.Append(append(b, '{'), sel, c), '}')
	}
	return ok(append(b, `]}`...))
}
