package api

import (
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/protocol/seal"
)

// sight is what one request may see of nodes besides what everybody sees who may read
// them. It is worked out once for a request: on a list an administrator pays nothing
// for each node.
type sight struct {
	whole bool // nothing is kept back but secrets
	parts [len(guarded)]policy.Decision
	// Who sees secrets sees those of all nodes or of none: as in Ironic these two rules
	// are asked without a node, so that one that looks for its owner lets nobody pass.
	passwords, instanceWords bool
}

// guarded are the fields that not everybody sees who may read a node, and what is shown
// in their place: the words are Ironic's.
var guarded = [...]struct {
	field, rule string
	shown       any
}{
	{"last_error", "baremetal:node:get:last_error", "** Value Redacted - Requires baremetal:node:get:last_error permission. **"},
	{"reservation", "baremetal:node:get:reservation", "** Redacted - requires baremetal:node:get:reservation permission. **"},
	{"driver_internal_info", "baremetal:node:get:driver_internal_info",
		map[string]any{"content": "** Redacted - Requires baremetal:node:get:driver_internal_info permission. **"}},
	{"driver_info", "baremetal:node:get:driver_info",
		map[string]any{"content": "** Redacted - requires baremetal:node:get:driver_info permission. **"}},
}

// sightOf is the request's sight.
func (r *Request) sightOf() *sight {
	if r.sight != nil {
		return r.sight
	}
	r.sight = &sight{whole: true}
	if r.may == nil {
		return r.sight
	}
	r.sight.whole = r.may.Decide("baremetal:node:get:filter_threshold").Always()
	for i, g := range guarded {
		r.sight.parts[i] = r.may.Decide(g.rule)
	}
	r.sight.passwords, r.sight.instanceWords = r.may.Allows("show_password", nobodys), r.may.Allows("show_instance_secrets", nobodys)
	return r.sight
}

// look fills in what v's request sees of its node.
func (s *Server) look(r *Request, v *nodeView) {
	see := r.sightOf()
	if see.whole && !see.passwords && !see.instanceWords {
		return
	}
	target := nodeTarget(v.Node)
	if !see.whole && !r.may.Allows("baremetal:node:get:filter_threshold", target) {
		for i := range guarded {
			v.kept[i] = !see.parts[i].Allows(target)
		}
	}
	if see.passwords {
		v.driverInfo = opened(s.Key, seal.Label{Kind: seal.DriverInfo, Of: v.Node.UUID}, v.DriverInfo)
	}
	if see.instanceWords {
		v.instanceInfo = opened(s.Key, seal.Label{Kind: seal.InstanceInfo, Of: v.Node.UUID}, v.InstanceInfo)
	}
}

// opened is fields with their secrets; nil where these cannot be opened, so that they
// are masked as for everybody.
func opened(key *seal.Key, label seal.Label, fields map[string]any) map[string]any {
	plain, err := key.OpenFields(label, fields)
	if err != nil {
		return nil
	}
	return plain
}

// guard shows what stands in a field's place where it is kept back, else what get says.
func guard(field string, get func(*nodeView) any) func(*nodeView) any {
	i := guardedField(field)
	return func(n *nodeView) any {
		if n.kept[i] {
			return guarded[i].shown
		}
		return get(n)
	}
}

// withheld is what stands in a field's place where it is kept back. It is shared: nobody changes it.
func withheld(field string) any { return guarded[guardedField(field)].shown }

// guardedField is the place of a field in guarded.
func guardedField(field string) int {
	for i := range guarded {
		if guarded[i].field == field {
			return i
		}
	}
	panic("api: field " + field + " is not guarded")
}
