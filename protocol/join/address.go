package join

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Ports of a server whose address names none. One that names a port has the other two as
// far from it as these are from each other, so servers of the hub and of a site can share a
// host.
const (
	ClientPort  = 4222
	ClusterPort = 6222
	LeafPort    = 7422
)

// Address is where others reach a server.
type Address struct {
	Host string
	port int // of clients
}

// ParseAddress reads HOST or HOST:PORT; PORT is that of clients. An IPv6 address with a port
// is in brackets.
func ParseAddress(text string) (Address, error) {
	a := Address{Host: text, port: ClientPort}
	if net.ParseIP(text) == nil && strings.Contains(text, ":") {
		host, port, err := net.SplitHostPort(text)
		if err != nil {
			return a, fmt.Errorf("address %.80q of a server: want HOST or HOST:PORT", text)
		}
		a.Host = host
		const most = 65535 - (LeafPort - ClientPort)
		if a.port, err = strconv.Atoi(port); err != nil || a.port < 1 || a.port > most {
			return a, fmt.Errorf("address %.80q of a server: want a port from 1 to %d, which clients connect to; those %d and %d above it are for the cluster and for leafs",
				text, most, ClusterPort-ClientPort, LeafPort-ClientPort)
		}
	}
	if net.ParseIP(a.Host) == nil && (len(a.Host) > 253 || !hostName.MatchString(a.Host)) {
		return a, fmt.Errorf("address %.80q of a server: want a host name or an IP address, with or without a port", text)
	}
	return a, nil
}

// Client is where rackds and central connect, Cluster where servers of the cluster do, Leaf
// where sites' servers do: HOST:PORT.
func (a Address) Client() string { return a.at(ClientPort) }

// Cluster is described at Client.
func (a Address) Cluster() string { return a.at(ClusterPort) }

// Leaf is described at Client.
func (a Address) Leaf() string { return a.at(LeafPort) }

// On is the address with another host: what the server listens on.
func (a Address) On(host string) Address { return Address{Host: host, port: a.port} }

func (a Address) at(port int) string {
	return net.JoinHostPort(a.Host, strconv.Itoa(port+a.port-ClientPort))
}
