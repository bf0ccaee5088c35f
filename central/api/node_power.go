package api

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
)

// softPowerSince is the version that brought soft power actions and the timeout.
const softPowerSince = 27

// maxPowerTimeout bounds the timeout of a change of power, in seconds.
const maxPowerTimeout = 24 * 60 * 60

func (s *Server) setPower(r *Request) (Reply, error) {
	body, err := r.Arguments(wire.MaxBody, "target", "target", "timeout")
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	p, err := readPower(r, n, body)
	if err != nil {
		return Reply{}, err
	}
	p.Node, p.Caller = n, caller(r)
	if err := s.dispatch.Power(r.Context(), p); err != nil {
		return Reply{}, storeError(err)
	}
	return accepted(statesLocation(r))
}

func readPower(r *Request, n *store.Node, body map[string]any) (p dispatch.Power, err error) {
	if p.Target, err = targetOf(body); err != nil {
		return p, err
	}
	if (p.Target == dispatch.SoftPowerOff || p.Target == dispatch.SoftRebooting) && r.Version < softPowerSince {
		return p, wire.NotAcceptable("The power target "+p.Target, softPowerSince)
	}
	if body["timeout"] != nil {
		seconds, isNumber := roughly(body["timeout"])
		if seconds != 0 && r.Version < softPowerSince {
			return p, wire.NotAcceptable("The argument timeout", softPowerSince)
		}
		if !isNumber {
			return p, wire.Invalid("Expected an integer for timeout: %.80s", said(body["timeout"]))
		}
		if seconds < 1 {
			return p, wire.Invalid("timeout has to be positive integer")
		}
		if seconds > maxPowerTimeout {
			return p, wire.Invalid("timeout is %d seconds at most: a node is not reserved for longer by a change of its power", maxPowerTimeout)
		}
		p.TimeoutSeconds = seconds
	}
	if !slices.Contains(dispatch.PowerTargets, p.Target) {
		return p, wire.Invalid("The requested action \"%.80s\" can not be performed on node \"%s\" while it is in state \"%s\".",
			said(body["target"]), r.Param(0), cmp.Or(n.PowerState, "None")).Detailed("the power targets are '%s'", strings.Join(dispatch.PowerTargets, "', '"))
	}
	return p, nil
}

// roughly reads a whole number as Ironic does: of another one what stands before the point, and
// true as one. One that is too large for an int is as large as it can be.
func roughly(v any) (int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case json.Number:
		f, err := v.Float64()
		return int(max(math.MinInt32, min(f, math.MaxInt32))), err == nil
	}
	return whole(v)
}

// targetOf reads the target of a request for another state: a text, whichever.
func targetOf(body map[string]any) (string, error) {
	target, isText := body["target"].(string)
	if !isText && body["target"] != nil {
		return "", wire.Invalid("Expected string for target: %.80s", said(body["target"]))
	}
	return target, nil
}

// said is an argument of a body as a message repeats it.
func said(v any) string {
	if text, isText := v.(string); isText {
		return text
	}
	return wire.Repr(v)
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
