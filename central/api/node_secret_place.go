package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// redirectSecrets is the rule of callers that may change where stored secrets of driver_info are
// sent without sending the secrets again.
const redirectSecrets = "ironyard:node:redirect_secrets"

// checkSecretPlaces refuses to send a stored secret of driver_info to a place that is named by a
// caller who does not know the secret. Otherwise an owner who may change an address, and may not
// see the password, would be sent that password. before and n are the node before and after the
// change, with their secrets sealed: a secret that the request brings again is sealed again.
func (s *Server) checkSecretPlaces(r *Request, before, n *store.Node) error {
	kept := keptSecrets("", n.DriverInfo, before.DriverInfo)
	if len(kept) == 0 {
		return nil
	}
	moved := movedFields(before.DriverInfo, n.DriverInfo)
	for _, field := range moved {
		var sent []string // where field says
		for _, path := range kept {
			outermost, _, _ := strings.Cut(path, "/")
			if seal.DecidesPlace(field, outermost) {
				sent = append(sent, "driver_info/"+path)
			}
		}
		if len(sent) == 0 || s.allowed(r, redirectSecrets, before) == nil || r.sightOf().passwords {
			continue
		}
		return wire.Invalid("driver_info/%s decides where racks send %s of node %s. To change it, send that secret again in the same request, or remove the secret.",
			field, strings.Join(sent, ", "), n.UUID)
	}
	return nil
}

// keptSecrets are the paths, in order, of the secrets in fields that are stored as they were in old.
func keptSecrets(path string, fields, old map[string]any) (kept []string) {
	for name, v := range fields {
		switch v := v.(type) {
		case map[string]any:
			before, _ := old[name].(map[string]any)
			kept = append(kept, keptSecrets(path+name+"/", v, before)...)
		case string:
			if isSecret(name) && seal.Sealed(v) && old[name] == v {
				kept = append(kept, path+name)
			}
		}
	}
	slices.Sort(kept)
	return kept
}

// movedFields are the outermost fields, in order, that are otherwise in after than in before, apart
// from secrets.
func movedFields(before, after map[string]any) (moved []string) {
	for name, v := range after {
		if old, there := before[name]; !isSecret(name) && (!there || !sameValue(v, old)) {
			moved = append(moved, name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there && !isSecret(name) {
			moved = append(moved, name)
		}
	}
	slices.Sort(moved)
	return moved
}

// sameValue reports whether two values are the same JSON. Secrets inside count too: a secret that is
// sent again beside a changed field of the same object has changed with it.
func sameValue(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}
