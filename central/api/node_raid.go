package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
)

func (s *Server) nodeRAID() Resource {
	const since = 12
	return Resource{Routes: []Route{
		{Method: http.MethodPut, Path: "nodes/{node}/states/raid", Summary: "Set how the disks of a node are to be arranged", Since: since, Late: http.StatusNotAcceptable, AfterPolicy: true,
			Policy: "baremetal:node:set_raid_state", Handle: s.setTargetRAID, Takes: raidBody},
		{Method: http.MethodGet, Path: "drivers/{driver}/raid/logical_disk_properties", Summary: "List what may be said of a logical disk", Since: since, Late: http.StatusNotAcceptable, AfterPolicy: true,
			Policy: "baremetal:driver:get_raid_logical_disk_properties", Handle: s.logicalDiskProperties, Shows: propertiesAnswer},
	}}
}

// setTargetRAID keeps the RAID configuration that the next raid step is to make; {}
// takes it back.
func (s *Server) setTargetRAID(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.JSON(wire.MaxBody)
	if err != nil {
		return Reply{}, err
	}
	config, isObject := body.(map[string]any)
	if !isObject && (body != nil || r.ContentLength > 0) { // no body at all takes the target back, as an empty one does
		return Reply{}, wire.Invalid("Expected types <class 'dict'> for target_raid_config: %s", said(body))
	}
	n, err := s.node(r, r.Param(0))
	if err == nil && dispatch.Busy(n) { // nothing of it concerns work that waits
		err = dispatch.Locked(n)
	}
	if err != nil {
		return Reply{}, err
	}
	if len(config) > 0 {
		if err := s.ask(r, n, ask.CheckRAID, config, nil); err != nil {
			return Reply{}, cmp.Or(misconfigured(err, config), noRAID(err))
		}
	}
	err = s.Store.UpdateOf(r.Context(), r.Param(0), func(ctx context.Context, tx *store.Tx) error {
		n, err := s.nodeForWrite(ctx, r, tx, r.Param(0))
		if err != nil {
			return err
		}
		if dispatch.Busy(n) {
			return dispatch.Locked(n)
		}
		n.TargetRAIDConfig = config
		if err := checkSize(n); err != nil {
			return err
		}
		if err := tx.UpdateNode(ctx, n); err != nil {
			return err
		}
		return tx.Tell(ctx, dispatch.Dirty(n))
	})
	if err != nil {
		return Reply{}, storeError(err)
	}
	return noContent()
}

// misconfigured says in Ironic's words what is wrong with a RAID configuration that a rack refused
// with err; nil where no RAID at all is what it refused, or nothing is wrong in general.
func misconfigured(err error, config map[string]any) error {
	if e, isAsk := errors.AsType[*ask.Error](err); !isAsk || e.Unsupported {
		return nil
	}
	if wrong := hardware.CheckRAID(config); wrong != nil {
		return wire.Invalid("%v", wrong)
	}
	return nil
}

// noRAID turns "not supported" into 404: RAID is a part of the API that some nodes have.
func noRAID(err error) error {
	if e, isAsk := errors.AsType[*ask.Error](err); isAsk && e.Unsupported {
		return wire.Errorf(http.StatusNotFound, "%s", e.Message)
	}
	return err
}

func (s *Server) logicalDiskProperties(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	var properties map[string]string
	if err := s.askDriver(r, ask.RAIDProperties, nil, &properties); err != nil {
		return Reply{}, noRAID(err)
	}
	return ok(wire.AppendValue(nil, properties))
}
