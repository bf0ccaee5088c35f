package api

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/ask"
)

func (s *Server) driverVendor() Resource {
	const path, policy = "drivers/{driver}/vendor_passthru", "baremetal:driver:vendor_passthru"
	routes := []Route{
		{Method: http.MethodGet, Path: path + "/methods", Summary: "List the vendor methods of a driver", Policy: policy, Handle: s.listDriverMethods, Shows: vendorMethodsAnswer},
		// Firmware has no credentials.
		{Method: http.MethodGet, Path: path + "/" + ipxeConfig, Summary: "Show the boot script of a machine", Policy: Public, Handle: s.bootScript},
	}
	for _, verb := range vendorVerbs {
		routes = append(routes, Route{Method: verb, Path: path, Summary: "Call the vendor method of a driver that an argument names", Policy: policy, Handle: s.callDriverMethod, Success: http.StatusOK},
			Route{Method: verb, Path: path + "/{method}", Summary: "Call a vendor method of a driver", Policy: policy, Handle: s.callDriverMethod, Success: http.StatusOK})
	}
	return Resource{Routes: routes}
}

// askDriver puts a question about the path's hardware type to a rackd that has it.
func (s *Server) askDriver(r *Request, method ask.Method, args, out any) error {
	d, err := s.driver(r, unknownDriver)
	if err != nil {
		return err
	}
	m, err := s.conductorOf(d)
	if err != nil {
		return err
	}
	q := ask.Request{Method: method, Driver: d.name}
	if args != nil {
		if q.Args, err = json.Marshal(args); err != nil {
			return fmt.Errorf("ask conductor %s %s about driver %s: %w", m.Name, method, d.name, err)
		}
	}
	body, err := s.Ask.Ask(r.Context(), m, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the answer of conductor %s to %s about driver %s: %w", m.Name, method, d.name, err)
	}
	return nil
}

func (s *Server) listDriverMethods(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	methods := map[string]ask.VendorMethod{}
	if err := s.askDriver(r, ask.DriverVendorMethods, nil, &methods); err != nil {
		return Reply{}, err
	}
	methods[ipxeConfig] = ask.VendorMethod{HTTPMethods: []string{http.MethodGet}, Attach: true,
		Description: "The boot script of a machine, by node_uuid or port_address."}
	return ok(wire.AppendValue(nil, methods))
}

func (s *Server) callDriverMethod(r *Request) (Reply, error) {
	call, err := r.vendorCall()
	if err != nil {
		return Reply{}, err
	}
	if call.Method == ipxeConfig { // a GET has its own route
		return Reply{}, wire.Invalid("The method %s does not support HTTP %s", call.Method, call.HTTPMethod)
	}
	var answer ask.VendorReply
	if err := s.askDriver(r, ask.CallDriver, call, &answer); err != nil {
		return Reply{}, callError(call, err)
	}
	return vendorReply(answer)
}

// plainText is the type of what is no JSON.
const plainText = "text/plain; charset=utf-8"

// attach answers with a JSON string's text as it is.
func attach(v json.RawMessage) (Reply, error) {
	var text string
	if err := json.Unmarshal(v, &text); err != nil {
		return Reply{}, fmt.Errorf("the result of the vendor method is not a text: %w", err)
	}
	return Reply{Status: http.StatusOK, Body: []byte(text), ContentType: plainText}, nil
}
