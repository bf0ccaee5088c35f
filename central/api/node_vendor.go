package api

import (
	"errors"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/protocol/ask"
)

// vendorVerbs are the HTTP methods that methods of vendor interfaces may have.
var vendorVerbs = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (s *Server) nodeVendor() Resource {
	const path, policy = "nodes/{node}/vendor_passthru", "baremetal:node:vendor_passthru"
	routes := []Route{{Method: http.MethodGet, Path: path + "/methods", Summary: "List the vendor methods of a node", Policy: policy, Handle: s.listNodeMethods, Shows: vendorMethodsAnswer}}
	for _, verb := range vendorVerbs {
		routes = append(routes, Route{Method: verb, Path: path, Summary: "Call the vendor method of a node that an argument names", Policy: policy, Handle: s.callNodeMethod, Success: http.StatusOK},
			Route{Method: verb, Path: path + "/{method}", Summary: "Call a vendor method of a node", Policy: policy, Handle: s.callNodeMethod, Success: http.StatusOK})
	}
	return Resource{Routes: routes}
}

func (s *Server) listNodeMethods(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var methods map[string]ask.VendorMethod
	if err := s.ask(r, n, ask.VendorMethods, nil, &methods); err != nil {
		return Reply{}, err
	}
	return ok(wire.AppendValue(nil, methods))
}

// vendorCall reads the call of a method: its name is in the path or in the argument
// "method", its arguments are the body, and for who can send none, the query.
func (r *Request) vendorCall() (call ask.VendorCall, err error) {
	call.HTTPMethod = r.Method
	body, err := r.JSON(wire.MaxBody)
	if err != nil {
		return call, err
	}
	data, isObject := body.(map[string]any)
	if body != nil && !isObject {
		return call, wire.Invalid("The arguments of a vendor method must be a JSON object")
	}
	call.Data = data
	for name, value := range r.Query {
		if name == "method" {
			continue
		}
		if call.HTTPMethod != http.MethodGet || body != nil {
			return call, wire.Invalid("Unexpected arguments: %s", name)
		}
		if call.Data == nil {
			call.Data = map[string]any{}
		}
		call.Data[name] = value
	}
	if call.Method = r.Query["method"]; len(r.params) > 1 {
		call.Method = r.Param(1)
	}
	if call.Method == "" && r.URL.Query().Has("method") { // without a value, which r.Query leaves out
		return call, wire.Invalid("Method not specified")
	}
	if call.Method == "" {
		return call, wire.Invalid("Missing mandatory parameter: method")
	}
	return call, nil
}

func (s *Server) callNodeMethod(r *Request) (Reply, error) {
	call, err := r.vendorCall()
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	if call.HTTPMethod != http.MethodGet {
		if err := s.free(r.Context(), n); err != nil {
			return Reply{}, err
		}
	}
	var answer ask.VendorReply
	if err := s.ask(r, n, ask.CallVendor, call, &answer); err != nil {
		return Reply{}, callError(call, err)
	}
	switch {
	case answer.Work:
		id := dispatch.NewWorkID()
		change, err := s.dispatch.VendorCall(n, id, call.Method, call.HTTPMethod, call.Data)
		if err != nil {
			return Reply{}, err
		}
		a := dispatch.Adjustment{Node: n, Change: change, Work: id, What: "vendor method " + call.Method, Caller: caller(r)}
		if err := s.dispatch.Adjust(r.Context(), a); err != nil {
			return Reply{}, storeError(err)
		}
	case answer.Exclusive:
		if err := s.touch(r.Context(), n); err != nil { // the call was made: its answer is worth more than that time
			s.Log.WarnContext(r.Context(), "updated_at stays as it is after a call of a vendor method", "node", n.UUID, "method", call.Method, "error", err)
		}
	}
	return vendorReply(answer)
}

// callError is what a call is refused with that failed with err. One that may have been
// done, by a rackd that has died before it could say so, is not called as safe to repeat.
func callError(call ask.VendorCall, err error) error {
	silent := interface{ Sent() bool }(nil)
	if call.HTTPMethod == http.MethodGet || !errors.As(err, &silent) || !silent.Sent() {
		return err
	}
	doubt := call.InDoubt(err)
	return &dispatch.Refusal{Status: doubt.Status, Text: doubt.Message}
}

// vendorReply is the answer to the call of a method.
func vendorReply(v ask.VendorReply) (Reply, error) {
	if v.Async {
		return Reply{Status: http.StatusAccepted}, nil
	}
	if len(v.Return) == 0 {
		return Reply{Status: http.StatusOK}, nil
	}
	if !v.Attach {
		return ok(v.Return)
	}
	return attach(v.Return)
}
