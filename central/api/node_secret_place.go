package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// redirectSecrets is the rule of callers that may change where stored secrets of driver_info and instance_info are
// sent without sending the secrets again.
const redirectSecrets = "ironyard:node:redirect_secrets"

// checkSecretPlaces refuses to send a stored secret of driver_info or instance_info to a place that is named by a
// caller who does not know the secret. Otherwise an owner who may change an address, and may not
// see the password, would be sent that password. before and n are the node before and after the
// change, with their secrets sealed: a secret that the request brings again is sealed again.
func (s *Server) checkSecretPlaces(r *Request, before, n *store.Node) error {
	for _, of := range []struct {
		object        string
		before, after map[string]any
		decides       func(field, secret string) bool
	}{
		{"driver_info", before.DriverInfo, n.DriverInfo, seal.DecidesPlace},
		{"instance_info", before.InstanceInfo, n.InstanceInfo, ofImage},
	} {
		kept := keptSecrets("", of.after, of.before)
		if len(kept) == 0 {
			continue
		}
		for _, field := range movedFields(of.before, of.after) {
			var sent []string // where field says
			for _, path := range kept {
				outermost, _, _ := strings.Cut(path, "/")
				if of.decides(field, outermost) {
					sent = append(sent, of.object+"/"+path)
				}
			}
			if len(sent) == 0 || s.mayChooseSecrets(r, before) {
				continue
			}
			return wire.Invalid("%s/%s decides where racks send %s of node %s. To change it, send that secret again in the same request, or remove the secret.",
				of.object, field, strings.Join(sent, ", "), n.UUID)
		}
	}
	return s.checkAskedSecrets(r, before, n)
}

// checkAskedSecrets refuses a field that asks the rack to give a BMC another secret, to a caller who does not know the one that it has:
// who has chosen a secret knows it.
func (s *Server) checkAskedSecrets(r *Request, before, n *store.Node) error {
	kept := keptSecrets("", n.DriverInfo, before.DriverInfo)
	for field, v := range n.DriverInfo {
		of := seal.AsksFor(field)
		if of == "" || !slices.Contains(kept, of) || sameValue(before.DriverInfo[field], v) || s.mayChooseSecrets(r, before) {
			continue
		}
		return wire.Invalid("driver_info/%s asks racks to replace driver_info/%s of node %s. To set it, send that secret again in the same request.", field, of, n.UUID)
	}
	return nil
}

// mayChooseSecrets reports whether the caller may say what takes the place of stored secrets of a node.
func (s *Server) mayChooseSecrets(r *Request, n *store.Node) bool {
	return s.allowed(r, redirectSecrets, n) == nil || r.sightOf().passwords
}

// checkChosenSecrets refuses steps that would give the BMC of a node a secret that the caller has chosen, where that takes the place of one
// that they may not see. Arguments of such steps bear the name of the field. children: it is the steps on child nodes
// that would run on n.
func (s *Server) checkChosenSecrets(r *Request, n *store.Node, steps []work.Step, children bool) error {
	for _, step := range steps {
		if step.OnChildren != children {
			continue
		}
		for name := range step.Args {
			if _, stored := n.DriverInfo[name]; stored && isSecret(name) && !s.mayChooseSecrets(r, n) {
				return wire.Errorf(http.StatusForbidden, "Step %.80s.%.80s may put another value in the place of driver_info/%s of node %s, which you may not see: the rule %s says who may choose one.",
					step.Interface, step.Step, name, n.UUID, redirectSecrets)
			}
		}
	}
	return nil
}

// imageWord begins the fields of instance_info that say where an image is, and those that hold the credentials for it.
const imageWord = "image_"

// ofImage is seal.DecidesPlace for instance_info: secrets there go nowhere but to the servers of images.
func ofImage(field, secret string) bool {
	return strings.HasPrefix(strings.ToLower(field), imageWord) && strings.HasPrefix(strings.ToLower(secret), imageWord)
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
