package ociimage

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ErrInTheClear: credentials were not sent, for they would have gone without TLS to a server that may not be shown them so.
var ErrInTheClear = errors.New("credentials are not sent in the clear")

// AnyHost in Access.InTheClear stands for all hosts. No host has this name.
const AnyHost = "any host"

// Access is what registries and their token servers are shown of the user who asks. The zero value shows nothing.
type Access struct {
	// Authorization is the value of that header, Basic or Bearer; empty: there is none. Secret.
	Authorization string
	// InTheClear are the hosts, separated by commas, that may be shown it without TLS, each with its port unless that is 80. Empty: none.
	InTheClear string
}

// mayShow reports whether a host may be shown the credentials without TLS.
func (a Access) mayShow(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ":80")
	return slices.ContainsFunc(strings.Split(a.InTheClear, ","), func(of string) bool {
		return of == AnyHost || strings.TrimSuffix(strings.ToLower(of), ":80") == host
	})
}

// guarded sends no request that shows credentials without TLS to a host that may not be shown them: a registry names its token server.
type guarded struct {
	next   http.RoundTripper
	access Access
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	shows := g.access.Authorization != "" && r.Header.Get("Authorization") != "" // else it is a token that all are given
	if shows && r.URL.Scheme == "http" && !g.access.mayShow(r.URL.Host) {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("%w: the registry has led to %s, which has no TLS; add http://%s to image_server_hosts, or serve it with TLS", ErrInTheClear, r.URL.Host, r.URL.Host)
	}
	return g.next.RoundTrip(r)
}
