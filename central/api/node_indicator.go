package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
)

func (s *Server) nodeIndicators() Resource {
	const all, get = "nodes/{node}/management/indicators", "baremetal:node:get_indicator_state"
	// They came with 1.63, but Ironic has always answered at any version.
	return Resource{Routes: []Route{
		{Method: http.MethodGet, Path: all, Summary: "List the lights of a machine", Policy: get, Handle: s.listIndicators, Shows: indicatorsAnswer},
		{Method: http.MethodGet, Path: all + "/{indicator}", Summary: "Show a light of a machine", Policy: get, Handle: s.showIndicator, Shows: indicatorAnswer},
		{Method: http.MethodPut, Path: all + "/{indicator}", Summary: "Switch a light of a machine", Policy: "baremetal:node:set_indicator_state", Handle: s.setIndicator, Takes: indicatorBody},
	}}
}

func (s *Server) listIndicators(r *Request) (Reply, error) { // whatever its arguments are
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var list []hardware.Indicator
	if err := s.ask(r, n, ask.Indicators, nil, &list); err != nil {
		return Reply{}, err
	}
	b := []byte(`{"indicators":[`)
	for i, led := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIndicator(b, r, n, led)
	}
	return ok(append(b, `]}`...))
}

func appendIndicator(b []byte, r *Request, n *store.Node, led hardware.Indicator) []byte {
	name := led.Name + "@" + led.Component
	b = wire.AppendString(append(b, `{"name":`...), name)
	b = wire.AppendString(wire.AppendName(b, "component"), led.Component)
	b = wire.AppendValue(wire.AppendName(b, "readonly"), led.ReadOnly)
	b = wire.AppendValue(wire.AppendName(b, "states"), led.States)
	b = wire.AppendLinks(wire.AppendName(b, "links"), r.Base, "nodes/"+n.UUID+"/management/indicators/"+name)
	return append(b, '}')
}

// indicator reads which light the path names: NAME@COMPONENT.
func (r *Request) indicator() (ask.Indicator, error) {
	name, component, found := strings.Cut(r.Param(1), "@")
	if !found || name == "" || component == "" {
		return ask.Indicator{}, wire.Invalid("Malformed indicator name \"%.80s\"", r.Param(1)).Detailed("it is NAME@COMPONENT")
	}
	return ask.Indicator{Name: name, Component: component}, nil
}

func (s *Server) showIndicator(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	led, err := r.indicator()
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if err := s.ask(r, n, ask.GetIndicator, led, &led); err != nil {
		return Reply{}, err
	}
	return ok(append(wire.AppendString([]byte(`{"state":`), led.State), '}'))
}

func (s *Server) setIndicator(r *Request) (Reply, error) {
	v, err := r.argument("state")
	if err != nil {
		return Reply{}, err
	}
	led, err := r.indicator()
	if err != nil {
		return Reply{}, err
	}
	led.State, _ = v.(string)
	led.State = strings.ToLower(led.State)
	if !slices.Contains(hardware.IndicatorStates, led.State) {
		return Reply{}, wire.Invalid("Invalid indicator state %.40q: there are %s", led.State, strings.Join(hardware.IndicatorStates, ", "))
	}
	n, err := s.idleNode(r)
	if err != nil {
		return Reply{}, err
	}
	return s.order(r, n, ask.SetIndicator, led)
}
