package daemon

import (
	"net"
	"net/netip"
	"strconv"
)

// face is what machines see of a rackd that speak one version of IP. The zero face is none.
type face struct {
	address              netip.Addr
	httpPort, agentsPort int
	httpsPort            int // of firmware; 0: it is served by HTTP
	// network is the further network that the face is in; zero: it is one of the main network's.
	network netip.Prefix
}

// face is that of IPv4, or of IPv6 where this rackd has no IPv4 address. Others than machines use it too.
func (r *Rack) face() face {
	if !r.Address.IsValid() {
		return r.face6()
	}
	return r.faceAt(r.Address)
}

func (r *Rack) face6() face {
	if !r.Address6.IsValid() {
		return face{}
	}
	return r.faceAt(r.Address6)
}

func (r *Rack) faceAt(a netip.Addr) face {
	f := face{address: a, httpPort: r.HTTPPort, agentsPort: r.AgentPort}
	if r.HTTPS.Certificate != "" {
		f.httpsPort = r.HTTPSPort
	}
	return f
}

// faces are one or two of the main network, then one of each further network.
func (r *Rack) faces() []face { return append(r.mainFaces(), r.furtherFaces()...) }

func (r *Rack) mainFaces() (list []face) {
	for _, a := range []netip.Addr{r.Address, r.Address6} {
		if a.IsValid() {
			list = append(list, r.faceAt(a))
		}
	}
	return list
}

func (r *Rack) furtherFaces() (list []face) {
	for _, n := range r.Further {
		f := r.faceAt(n.Address.Addr())
		f.network = n.Address.Masked()
		list = append(list, f)
	}
	return list
}

// faceFor is the face by which a machine with that address is served: that of its network, else the main one of its version of IP.
func (r *Rack) faceFor(a netip.Addr) face {
	a = a.Unmap()
	for _, f := range r.furtherFaces() {
		if f.network.Contains(a) {
			return f
		}
	}
	if f := r.face6(); a.Is6() && f.address.IsValid() {
		return f
	}
	return r.face()
}

// bases are where machines load from by HTTP that are in no further network.
func (r *Rack) bases() (list []string) {
	for _, f := range r.mainFaces() {
		list = append(list, f.http())
	}
	return list
}

// six reports whether the face is that of IPv6.
func (f face) six() bool { return f.address.Is6() }

func (f face) at(port int) string { return net.JoinHostPort(f.address.String(), strconv.Itoa(port)) }

func (f face) http() string { return "http://" + f.at(f.httpPort) }

// https is http for firmware, by TLS; empty: firmware is served by HTTP.
func (f face) https() string {
	if f.httpsPort == 0 {
		return ""
	}
	return "https://" + f.at(f.httpsPort)
}

func (f face) agents() string { return "https://" + f.at(f.agentsPort) }

func (f face) tftp() string { return "tftp://" + host(f.address.String()) }
