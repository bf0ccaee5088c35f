// Package outbound says which addresses rackd dials for others, and makes the clients with
// which it fetches what requests name: images, files of checksums, config drives. Who may
// deploy a node chooses those URLs, and what they lead to ends on that node's disk. Who may
// enrol a node chooses the address of its BMC. rackd reaches networks that neither does,
// its own machine first.
//
// It imports nothing of the project. The address is looked at when it is dialled, after
// names have been resolved, and so for redirects too. An address that holds another one,
// which a translator or a tunnel goes on to, is judged by both. Where the environment or a node
// names a proxy (HTTPS_PROXY and its kin, Proxies), the proxy's address is what is dialled.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// RefusedError: an address is not dialled. Trying again does not help.
type RefusedError struct {
	Address netip.Addr
	Why     string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("address %s %s", e.Address, e.Why) }

// Fetching is where things are fetched from: by default everywhere but where this machine
// or its link alone are reached.
type Fetching struct {
	// Refused are networks that nothing is fetched from.
	Refused []netip.Prefix
	// Allowed are networks that are refused by default and yet fetched from.
	Allowed []netip.Prefix
}

// Check returns a *RefusedError for an address that nothing is fetched from.
func (f Fetching) Check(ip netip.Addr) error {
	ip = plain(ip)
	reached := append([]netip.Addr{ip}, inside(ip)...)
	for _, a := range reached {
		if n, ok := within(f.Refused, a); ok {
			return &RefusedError{ip, fmt.Sprintf("leads to network %s, from which this rackd fetches nothing (--no-fetch-from)", n)}
		}
	}
	if _, ok := within(f.Allowed, ip); ok {
		return nil
	}
	for _, a := range reached {
		if _, ok := within(f.Allowed, a); ok {
			continue
		}
		if kind := special(a); kind != "" {
			return &RefusedError{ip, fmt.Sprintf("leads to %s, %s: this rackd fetches nothing from there unless its operator names the network (--fetch-from)", a, kind)}
		}
	}
	return nil
}

// lookFor bounds the look for a host's addresses.
const lookFor = 5 * time.Second

// CheckURL returns a *RefusedError for a URL that nothing is fetched from. It is for what a BMC is told to fetch, which reaches networks
// that the caller does not. A host that has no address here passes: the BMC may know it. One that a BMC may read as another address than
// rackd does is refused.
func (f Fetching) CheckURL(ctx context.Context, raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("address is no URL")
	}
	ip, is, err := literal(u.Hostname())
	if err != nil {
		return err
	}
	if is {
		return f.Check(ip)
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil
	}
	for _, ip := range all {
		if err := f.Check(ip); err != nil {
			return err
		}
	}
	return nil
}

// BMCs are the networks where BMCs are; none: everywhere but where this machine or its link
// alone are reached.
type BMCs []netip.Prefix

// Check returns a *RefusedError for an address that is no BMC's.
func (b BMCs) Check(ip netip.Addr) error {
	ip = plain(ip)
	if len(b) > 0 {
		if _, ok := within(b, ip); ok {
			return nil
		}
		return &RefusedError{ip, "is in none of the networks where this rackd's operator has BMCs (--bmc-networks)"}
	}
	for _, a := range append([]netip.Addr{ip}, inside(ip)...) {
		if kind := special(a); kind != "" {
			return &RefusedError{ip, fmt.Sprintf("leads to %s, %s: this rackd looks for no BMC there unless its operator names the network (--bmc-networks)", a, kind)}
		}
	}
	return nil
}

// Dialer dials what check lets through; errors wrap *RefusedError where that is why.
func Dialer(timeout time.Duration, check func(netip.Addr) error) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return check(to.Addr())
	}}
}

// Client fetches from where f lets it. It bounds everything but the length of a transfer. Where a redirect leads to another
// server, or to another port of the same, credentials are not sent, nor is the address that led there: it may hold a signature.
// Safe for concurrent use.
func Client(f Fetching) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = proxy
	t.DialContext = Dialer(10*time.Second, f.Check).DialContext
	t.TLSHandshakeTimeout = 10 * time.Second
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{Transport: t, CheckRedirect: redirected}
}

// mostRedirects is how often one request is sent on, as by http.Client itself.
const mostRedirects = 10

// redirected judges a redirect. http.Client has copied the headers of the first request by then, to each port and each domain
// below the first one's.
func redirected(r *http.Request, before []*http.Request) error {
	if len(before) >= mostRedirects {
		return fmt.Errorf("stopped after %d redirects", mostRedirects)
	}
	r.Header.Del("Referer")
	if !sameServer(before[0].URL, r.URL) {
		r.Header.Del("Authorization")
	}
	return nil
}

// sameServer reports whether what was sent to one address may be sent to another one: host and port are the same, and TLS is not
// left. From http to https on the usual ports is the same server.
func sameServer(from, to *url.URL) bool {
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	return from.Scheme == to.Scheme && port(from) == port(to) || from.Scheme == "http" && port(from) == "80" && to.Scheme == "https" && port(to) == "443"
}

// plain is an address as networks hold it: without a zone, IPv4 as such.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

func within(networks []netip.Prefix, ip netip.Addr) (netip.Prefix, bool) {
	i := slices.IndexFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return networks[i], true
}
