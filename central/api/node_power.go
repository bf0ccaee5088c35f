package api

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
)

// softPowerSince is the version that brought soft power actions and the timeout.
const softPowerSince = 27

// maxPowerTimeout bounds the timeout of a soft power action, in seconds.
const maxPowerTimeout = 24 * 60 * 60

func (s *Server) setPower(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	p, err := readPower(r, body)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	p.Node, p.Caller = n.UUID, caller(r)
	if err := s.dispatch.Power(r.Context(), p); err != nil {
		return Reply{}, storeError(err)
	}
	return accepted(statesLocation(r))
}

func readPower(r *Request, body map[string]any) (p dispatch.Power, err error) {
	if err := only(body, "target", "timeout"); err != nil {
		return p, err
	}
	target, isText := body["target"].(string)
	if !isText || !slices.Contains(dispatch.PowerTargets, target) {
		return p, wire.Invalid("The requested action %.80q can not be performed on node %q: the power targets are 'power on', 'power off', "+
			"'rebooting', 'soft rebooting' and 'soft power off'.", wire.AppendValue(nil, body["target"]), r.Param(0))
	}
	p.Target = target
	if (target == dispatch.SoftPowerOff || target == dispatch.SoftRebooting) && r.Version < softPowerSince {
		return p, wire.NotAcceptable("The power target "+target, softPowerSince)
	}
	if body["timeout"] == nil {
		return p, nil
	}
	if r.Version < softPowerSince {
		return p, wire.NotAcceptable("The argument timeout", softPowerSince)
	}
	seconds, isWhole := whole(body["timeout"])
	if !isWhole || seconds < 1 || seconds > maxPowerTimeout {
		return p, wire.Invalid("Invalid timeout: it must be a whole number of seconds from 1 to %d", maxPowerTimeout)
	}
	p.TimeoutSeconds = seconds
	return p, nil
}

// whole reads a JSON number, or a text, that is a whole number.
func whole(v any) (int, bool) {
	var s string
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
	default:
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
