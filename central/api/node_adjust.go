package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/work"
)

// nodeAdjust is what a request changes about a machine without moving its state.
func (s *Server) nodeAdjust() Resource {
	return Resource{Routes: []Route{
		{Method: http.MethodPut, Path: "nodes/{node}/states/boot_mode", Summary: "Set in which mode a machine starts", Since: 76, Policy: "baremetal:node:set_boot_mode",
			Handle: s.setBootMode, Takes: bootModeBody, Success: http.StatusAccepted, AfterPolicy: true},
		{Method: http.MethodPut, Path: "nodes/{node}/states/secure_boot", Summary: "Switch the secure boot of a machine", Since: 76, Policy: "baremetal:node:set_secure_boot",
			Handle: s.setSecureBoot, Takes: secureBootBody, Success: http.StatusAccepted, AfterPolicy: true},
	}}
}

// bootModes are the boot modes there are.
var bootModes = []string{"bios", "uefi"}

// argument reads the one argument of a request.
func (r *Request) argument(name string) (any, error) {
	args, err := r.Arguments(wire.MaxBody, name, name)
	return args[name], err
}

// flag reads the one argument of a request as a yes or no.
func (r *Request) flag(name string) (bool, error) {
	v, err := r.argument(name)
	if err != nil {
		return false, err
	}
	return truth(name, v)
}

// truth reads an argument of a body as a yes or no, which may also be a text or a number that
// says so.
func truth(name string, v any) (bool, error) {
	if on, isBool := v.(bool); isBool {
		return on, nil
	}
	on, known := wire.Bool(said(v))
	if !known {
		return false, wire.Invalid("Invalid %s: Unrecognized value '%.80s', acceptable values are: %s", name, said(v), wire.BoolWords)
	}
	return on, nil
}

func (s *Server) setBootMode(r *Request) (Reply, error) {
	v, err := r.argument("target")
	if err != nil {
		return Reply{}, err
	}
	mode, isText := v.(string)
	if !isText && v != nil {
		return Reply{}, wire.Invalid("Expected string for target: %.80s", said(v))
	}
	if !slices.Contains(bootModes, mode) {
		return Reply{}, wire.Invalid("Invalid boot mode %.40s requested for node. Allowed boot modes are: %s", said(v), strings.Join(bootModes, ", "))
	}
	return s.adjust(r, dispatch.Adjustment{Change: work.Change{BootMode: mode}, Resting: true, What: "boot mode " + mode}, statesLocation(r))
}

func (s *Server) setSecureBoot(r *Request) (Reply, error) {
	on, err := r.flag("target")
	if err != nil {
		return Reply{}, err
	}
	return s.adjust(r, dispatch.Adjustment{Change: work.Change{SecureBoot: &on}, Resting: true, What: "secure boot " + onOff(on)}, statesLocation(r))
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// adjust hands the change of the path's node to its rack.
func (s *Server) adjust(r *Request, a dispatch.Adjustment, location string) (Reply, error) {
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	a.Node, a.Caller = n, caller(r)
	if err := s.dispatch.Adjust(r.Context(), a); err != nil {
		return Reply{}, storeError(err)
	}
	return accepted(location)
}
