package outbound

import (
	"context"
	"net/http"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// Proxies are those that a node's images are fetched through, in place of the environment's. All empty: the environment's.
type Proxies struct {
	// HTTP and HTTPS are the proxies for URLs of these schemes; a value without a scheme is an HTTP proxy.
	HTTP, HTTPS string
	// No lists, with commas, the hosts and .domains that are reached without a proxy.
	No string
}

type proxiesKey struct{}

// Through returns a context in which a Client goes through p.
func Through(ctx context.Context, p Proxies) context.Context {
	if p.HTTP == "" && p.HTTPS == "" {
		return ctx
	}
	return context.WithValue(ctx, proxiesKey{}, p)
}

// proxy says which proxy a request goes through.
func proxy(r *http.Request) (*url.URL, error) {
	p, given := r.Context().Value(proxiesKey{}).(Proxies)
	if !given {
		return http.ProxyFromEnvironment(r)
	}
	c := httpproxy.Config{HTTPProxy: p.HTTP, HTTPSProxy: p.HTTPS, NoProxy: p.No}
	return c.ProxyFunc()(r.URL)
}
