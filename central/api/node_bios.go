package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/ironyard/ironyard/central/api/fields"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/hardware"
)

// biosRegistrySince is the version that brought what the BIOS's registry says, and the
// arguments that ask for it.
const biosRegistrySince = 74

// setting is a BIOS setting as a request sees it.
type setting struct {
	hardware.Setting
	created, updated time.Time
}

// biosTable is every field of a BIOS setting.
var biosTable = fields.New("BIOS setting", func() []fields.Field[setting] {
	computed := fields.Computed[setting]
	registry := func(name string, get func(*setting) any) fields.Field[setting] {
		return computed(name, biosRegistrySince, get)
	}
	return []fields.Field[setting]{
		fields.Time("created_at", 1, func(s *setting) time.Time { return s.created }).List(),
		fields.Time("updated_at", 1, func(s *setting) time.Time { return s.updated }).List(),
		computed("name", 1, func(s *setting) any { return s.Name }).List(),
		computed("value", 1, func(s *setting) any { return null(s.Value) }).List(),
		registry("attribute_type", func(s *setting) any { return null(s.Type) }),
		registry("allowable_values", func(s *setting) any {
			if s.Allowed == nil {
				return []string{}
			}
			return s.Allowed
		}),
		registry("lower_bound", func(s *setting) any { return null(s.Lower) }),
		registry("max_length", func(s *setting) any { return null(s.MaxLength) }),
		registry("min_length", func(s *setting) any { return null(s.MinLength) }),
		registry("read_only", func(s *setting) any { return null(s.ReadOnly) }),
		registry("reset_required", func(s *setting) any { return null(s.ResetRequired) }),
		registry("unique", func(s *setting) any { return null(s.Unique) }),
		registry("upper_bound", func(s *setting) any { return null(s.Upper) }),
	}
}()...)

// settingName is what a request may call a BIOS setting.
var settingName = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)

// null is what p points to, or null.
func null[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func (s *Server) nodeBIOS() Resource {
	const all, policy = "nodes/{node}/bios", "baremetal:node:bios:get"
	return Resource{Since: 40, Routes: []Route{
		{Method: http.MethodGet, Path: all, Policy: policy, Handle: s.listBIOS},
		{Method: http.MethodGet, Path: all + "/{setting}", Policy: policy, Handle: s.showBIOS, Shows: biosSettingAnswer},
	}}
}

// settings reads the BIOS settings of a node.
func (s *Server) settings(r *Request, n *store.Node) ([]*setting, error) {
	items, err := s.Store.Hardware(r.Context(), n.UUID, store.BIOSSetting)
	if err != nil {
		return nil, storeError(err)
	}
	list := make([]*setting, len(items))
	for i, item := range items {
		list[i] = &setting{created: item.CreatedAt, updated: item.UpdatedAt}
		if err := json.Unmarshal([]byte(item.Data), &list[i].Setting); err != nil {
			return nil, fmt.Errorf("BIOS setting %s of node %s: %w", item.Name, n.UUID, err)
		}
	}
	return list, nil
}

func appendSetting(b []byte, r *Request, n *store.Node, sel fields.Selection, item *setting) []byte {
	b = biosTable.Append(append(b, '{'), sel, item)
	b = wire.AppendLinks(wire.AppendName(b, "links"), r.Base, "nodes/"+n.UUID+"/bios/"+item.Name)
	return append(b, '}')
}

func (s *Server) listBIOS(r *Request) (Reply, error) {
	if err := r.Query.Allow("fields", "detail"); err != nil {
		return Reply{}, err
	}
	if fields, given := r.Query["fields"]; given && r.Version < biosRegistrySince {
		return Reply{}, wire.Invalid("Invalid query parameter ?fields=%.80s received.", fields)
	}
	if r.Query.Has("fields") {
		r.Query["fields"] += ",created_at,updated_at" // whatever is asked for, these are shown
	}
	sel, err := selectFields(r, biosTable, false, biosRegistrySince, biosRegistrySince)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	list, err := s.settings(r, n)
	if err != nil {
		return Reply{}, err
	}
	b := []byte(`{"bios":[`)
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSetting(b, r, n, sel, item)
	}
	return ok(append(b, `]}`...))
}

func (s *Server) showBIOS(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	if !settingName.MatchString(r.Param(1)) {
		return Reply{}, schemaError(r.Param(1), "does not match '(?i)^[A-Z0-9-._~]+$'")
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	list, err := s.settings(r, n)
	if err != nil {
		return Reply{}, err
	}
	for _, item := range list {
		if item.Name == r.Param(1) || item.Name == r.Param(1)+r.suffix {
			b := wire.AppendString([]byte{'{'}, item.Name)
			return ok(append(appendSetting(append(b, ':'), r, n, biosTable.All(r.Version), item), '}'))
		}
	}
	return Reply{}, wire.Errorf(http.StatusNotFound, "Node %s doesn't have a BIOS setting '%.200s'", n.UUID, r.Param(1))
}
