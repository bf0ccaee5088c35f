package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/seal"
)

// poweredOff is the power state of a node whose volumes may change.
const poweredOff = "power off"

// volumesGoFreely are the states in which volumes may be removed whatever the power.
var volumesGoFreely = []provision.State{provision.Manageable, provision.Enroll, provision.AdoptFail}

// volumeNode reads the node of a volume that is added (before is empty), moved or
// changed, and of one that is removed (after is empty). kind is what the volume is.
func (s *Server) volumeNode(ctx context.Context, r *Request, tx *store.Tx, kind, before, after string) error {
	action := kind + " update"
	if after == "" {
		action = kind + " deletion"
	}
	read := s.linkedNode
	if before == "" {
		read = s.namedNode
	}
	for _, id := range []string{before, after} {
		if id == "" {
			continue
		}
		n, err := read(ctx, r, tx, id)
		if e, refused := errors.AsType[*wire.Error](err); refused && e.Status == http.StatusBadRequest && before == "" {
			return wire.Invalid("Invalid input for field/attribute node_uuid. Value: '%s'. ", id).Detailed("%s", e.Text)
		}
		if err != nil {
			return err
		}
		if before != "" && n.PowerState != poweredOff && (after != "" || !n.ProvisionState.In(volumesGoFreely)) {
			return wire.Invalid("The requested action \"%s\" can not be performed on node \"%s\" while it is in state \"%s\".",
				action, n.UUID, cmp.Or(n.PowerState, "None")).Detailed("it must be powered off")
		}
		if before != "" && id != before {
			if err := s.allowed(r, "baremetal:volume:update", n); err != nil {
				return err
			}
		}
		if before == after {
			break
		}
	}
	return nil
}

func (s *Server) checkConnector(ctx context.Context, r *Request, tx *store.Tx, before, v *store.VolumeConnector) error {
	old := ""
	if before != nil {
		old = before.Node
	}
	return s.volumeNode(ctx, r, tx, "volume connector", old, v.Node)
}

func (s *Server) mayRemoveConnector(ctx context.Context, r *Request, tx *store.Tx, v *store.VolumeConnector) error {
	return s.volumeNode(ctx, r, tx, "volume connector", v.Node, "")
}

// checkTarget also seals the secrets of the target's properties.
func (s *Server) checkTarget(ctx context.Context, r *Request, tx *store.Tx, before, v *store.VolumeTarget) (err error) {
	old, properties := "", map[string]any(nil)
	if before != nil {
		old, properties = before.Node, before.Properties
	}
	if err := s.volumeNode(ctx, r, tx, "volume target", old, v.Node); err != nil {
		return err
	}
	v.Properties, err = s.sealSecrets(seal.Label{Kind: seal.Volume, Of: v.UUID}, "properties", v.Properties, properties)
	if err != nil || before == nil {
		return err
	}
	return s.checkVolumeSecretPlace(ctx, r, tx, before, v)
}

// portalFields of a target's properties say which server is shown its secret.
var portalFields = []string{"target_portal", "target_portals"}

// checkVolumeSecretPlace is checkSecretPlaces for a volume target. CHAP shows its secret to the portal, as a hash, and rackd tells
// it to the machine.
func (s *Server) checkVolumeSecretPlace(ctx context.Context, r *Request, tx *store.Tx, before, v *store.VolumeTarget) error {
	kept := keptSecrets("", v.Properties, before.Properties)
	moved := slices.DeleteFunc(movedFields(before.Properties, v.Properties), func(field string) bool { return !slices.Contains(portalFields, field) })
	if before.Node != v.Node {
		moved = append(moved, "node_uuid")
	}
	if len(kept) == 0 || len(moved) == 0 || r.sightOf().passwords {
		return nil
	}
	n, err := tx.Node(ctx, before.Node)
	if err != nil {
		return err
	}
	if s.allowed(r, redirectSecrets, n) == nil {
		return nil
	}
	return wire.Invalid("%s of volume target %s decides where properties/%s is sent. To change it, send that secret again in the same request, or remove the secret.",
		moved[0], v.UUID, kept[0])
}

func (s *Server) mayRemoveTarget(ctx context.Context, r *Request, tx *store.Tx, v *store.VolumeTarget) error {
	return s.volumeNode(ctx, r, tx, "volume target", v.Node, "")
}
