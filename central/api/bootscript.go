package api

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
)

// ipxeConfig is the method of every hardware type that writes a machine's boot script.
const ipxeConfig = "ipxe_config"

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
// than the path: a DHCP server has one script for all machines, which names one. Where the rackd writes none the
// machine is told to ask again: an error would send it to what its firmware boots next.
func (s *Server) bootScript(r *Request) (Reply, error) {
	if err := r.Query.Allow("node_uuid", "port_address"); err != nil {
		return Reply{}, err
	}
	named, err := machineNamed(r)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.nodeThatBoots(r, named)
	if err != nil {
		return Reply{}, err
	}
	if err := s.driverOnce(r, n); err != nil {
		return Reply{}, err
	}
	if n == nil {
		s.warnOfNoNode(r)
		return script(noNode), nil
	}
	var text string
	if err := s.ask(r, n, ask.GetBootScript, ask.BootScript{Address: named.mac, From: r.peer()}, &text); err != nil {
		s.warnOfNoScript(r, n, err)
		return script(askAgain(r, named)), nil
	}
	return script(text), nil
}

// script is the answer with a boot script.
func script(text string) Reply {
	return Reply{Status: http.StatusOK, Body: []byte(text), ContentType: plainText}
}

// machine is how a machine names itself: by the MAC address of a port, else by the node's UUID.
type machine struct{ mac, uuid string }

// machineNamed reads how the machine of a request names itself.
func machineNamed(r *Request) (m machine, err error) {
	if r.Query.Has("node_uuid") == r.Query.Has("port_address") {
		return m, wire.Invalid("Name the machine by either node_uuid or port_address")
	}
	if r.Query.Has("node_uuid") {
		m.uuid, err = r.Query.UUID("node_uuid")
		return m, err
	}
	mac, err := net.ParseMAC(r.Query["port_address"])
	if err != nil || len(mac) != 6 {
		return m, wire.Invalid("Expected a MAC address but received %.80s.", r.Query["port_address"])
	}
	m.mac = mac.String()
	return m, nil
}

// driverOnce fails for a driver that is neither the machine's node's, nor of a rackd that lives or lived of late. While a rackd is silent
// its machines ask by its driver.
func (s *Server) driverOnce(r *Request, n *store.Node) error {
	_, unknown := s.driver(r, unknownDriver)
	if unknown == nil || n != nil && n.Driver == r.Param(0) {
		return nil
	}
	rows, err := s.Store.Conductors(r.Context())
	if err != nil {
		return storeError(err)
	}
	if slices.ContainsFunc(rows, func(c *store.Conductor) bool { return slices.Contains(c.Drivers, r.Param(0)) }) {
		return nil
	}
	return unknown
}

// noNode is the script of a machine that is no node.
const noNode = "#!ipxe\necho\necho Ironyard: nothing to boot.\necho Reason: no node has that UUID or a port with that address: enrol the machine and create its port first.\n" +
	"echo Starting again in 30 s.\nsleep 30\nreboot\n"

// askAgainSeconds is how long a machine waits whose rackd writes it no script now.
const askAgainSeconds = 5

// askAgain is the script of a machine whose rackd writes it none now. The machine asks again at the URL of this script, with only
// how it names itself as the query: so it passes whatever stands before central. The script says nothing of the node.
func askAgain(r *Request, m machine) string {
	query := url.Values{"port_address": {m.mac}}
	if m.mac == "" {
		query = url.Values{"node_uuid": {m.uuid}}
	}
	if r.URL.Query().Has("method") {
		query.Set("method", ipxeConfig)
	}
	return fmt.Sprintf("#!ipxe\necho Ironyard: the boot waits.\necho Reason: the rackd of this machine writes no boot script now.\n"+
		"echo The log of central says why.\necho Asking again in %d s.\nsleep %d\nchain --replace ?%s || reboot\n", askAgainSeconds, askAgainSeconds, query.Encode())
}

// warnOfNoScript tells operators of a machine that waits because its rackd writes no script.
func (s *Server) warnOfNoScript(r *Request, n *store.Node, why error) {
	if s.strangers.MayLog(r.stranger.from) {
		s.Log.Warn("no boot script for a machine, which asks again", "request_id", r.ID, "node", n.UUID, "from", r.peer(), "error", why,
			"todo", "look whether the node's rackd runs, and whether its site is linked")
	}
}

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

// nodeThatBoots finds the node of a machine; nil for none.
func (s *Server) nodeThatBoots(r *Request, m machine) (*store.Node, error) {
	q := store.NodeQuery{IncludeChildren: true, Page: store.Page{Limit: 1}}
	if m.mac == "" {
		q.UUIDs = []string{m.uuid}
	} else {
		ports, err := s.Store.Ports(r.Context(), store.PortQuery{Address: m.mac, Page: store.Page{Limit: 1}})
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
