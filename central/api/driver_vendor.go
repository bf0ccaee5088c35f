package api

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// ipxeConfig is the method of every hardware type that writes a machine's boot script.
const ipxeConfig = "ipxe_config"

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

// asksForScript reports whether a request is for the boot script and names that method by the argument, as Ironic's
// documents show it. It is the same route: firmware has no credentials there either.
func asksForScript(r *http.Request, parts []string) bool {
	if r.Method != http.MethodGet || len(parts) != 3 || parts[0] != "drivers" || parts[2] != "vendor_passthru" {
		return false
	}
	return r.URL.Query().Get("method") == ipxeConfig
}

// bootScript answers a machine that asks what to boot: by the node's UUID, or by the
// address of one of its ports, which a script of iPXE fills in. The node's own rackd
// writes it: the whole script for an address that DHCP gave the machine, else the way to
// the rackds' own scripts, for the caller may be anybody. The node may have another driver
// than the path: a DHCP server has one script for all machines, which names one.
func (s *Server) bootScript(r *Request) (Reply, error) {
	if err := r.Query.Allow("node_uuid", "port_address"); err != nil {
		return Reply{}, err
	}
	if r.Query.Has("node_uuid") == r.Query.Has("port_address") {
		return Reply{}, wire.Invalid("Name the machine by either node_uuid or port_address")
	}
	if _, err := s.driver(r, unknownDriver); err != nil {
		return Reply{}, err
	}
	n, err := s.nodeThatBoots(r)
	if err != nil {
		return Reply{}, err
	}
	if n == nil {
		s.warnOfNoNode(r)
		return Reply{Status: http.StatusOK, Body: []byte(noNode), ContentType: plainText}, nil
	}
	var script string
	if err := s.ask(r, n, ask.GetBootScript, ask.BootScript{Address: strings.ToLower(r.Query["port_address"]), From: r.peer()}, &script); err != nil {
		return Reply{}, err
	}
	return Reply{Status: http.StatusOK, Body: []byte(script), ContentType: plainText}, nil
}

// noNode is the script of a machine that is no node.
const noNode = "#!ipxe\necho\necho Ironyard: nothing to boot.\necho Reason: no node has that UUID or a port with that address: enrol the machine and create its port first.\n" +
	"echo Starting again in 30 s.\nsleep 30\nreboot\n"

// warnOfNoNode tells operators of a machine that asks what to boot and is no node. Its console is told too. Anybody may ask,
// so it takes a line of strangers.
func (s *Server) warnOfNoNode(r *Request) {
	if !s.strangers.MayLog(r.stranger.from) {
		return
	}
	name := "mac"
	if r.Query.Has("node_uuid") {
		name = "uuid"
	}
	s.Log.Warn("boot script for a machine that is no node", "request_id", r.ID, name, r.Query["node_uuid"]+r.Query["port_address"], "from", r.peer(),
		"todo", "if it is to be deployed: enrol it and create its port")
}

// nodeThatBoots finds the node that a machine names; nil for none.
func (s *Server) nodeThatBoots(r *Request) (*store.Node, error) {
	q := store.NodeQuery{IncludeChildren: true, Page: store.Page{Limit: 1}}
	if r.Query.Has("node_uuid") {
		id, err := r.Query.UUID("node_uuid")
		if err != nil {
			return nil, err
		}
		q.UUIDs = []string{id}
	} else {
		mac, err := net.ParseMAC(r.Query["port_address"])
		if err != nil || len(mac) != 6 {
			return nil, wire.Invalid("Expected a MAC address but received %.80s.", r.Query["port_address"])
		}
		ports, err := s.Store.Ports(r.Context(), store.PortQuery{Address: mac.String(), Page: store.Page{Limit: 1}})
		if err != nil || len(ports) == 0 {
			return nil, err
		}
		q.UUIDs = []string{ports[0].Node}
	}
	nodes, err := s.Store.Nodes(r.Context(), q)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	return nodes[0], nil
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
