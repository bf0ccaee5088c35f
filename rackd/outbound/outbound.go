// Package outbound makes the clients with which rackd fetches what requests name: images,
// files of checksums, config drives. Whoever may deploy a node chooses those URLs, and what
// they lead to ends on that node's disk; rackd reaches networks that he does not, such as
// the BMCs'. So an operator may name networks that nothing is fetched from.
//
// It imports nothing of the project. The address is looked at when it is dialled, after
// names have been resolved, and so for redirects too. Where the environment names a proxy
// (HTTPS_PROXY and its kin), the proxy's address is what is dialled.
package outbound

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// RefusedError: an address lies in a network that nothing is fetched from. Trying again
// does not help.
type RefusedError struct {
	Address netip.Addr
	Network netip.Prefix
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("address %s is in network %s, from which this rackd fetches nothing (--no-fetch-from)", e.Address, e.Network)
}

// Client fetches from all networks but these; errors of its requests wrap *RefusedError
// where that is why. It bounds everything but the length of a transfer. Safe for
// concurrent use.
func Client(refused []netip.Prefix) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return check(refused, address)
	}}).DialContext
	t.TLSHandshakeTimeout = 10 * time.Second
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{Transport: t}
}

// check looks at an address with a port.
func check(refused []netip.Prefix, address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap().WithZone("") // a prefix holds no address with a zone
	for _, n := range refused {
		if n.Contains(ip) {
			return &RefusedError{ip, n}
		}
	}
	return nil
}
