package api

import (
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/microversion"
)

const (
	corsExposed = microversion.Header + ", " + microversion.MinHeader + ", " + microversion.MaxHeader +
		", Openstack-Request-Id, X-Openstack-Request-Id, Location"
	corsMethods = "GET, PUT, POST, DELETE, PATCH"
	// corsHeaders are those that pages may send: what Ironic lets them, the credentials of
	// all strategies, and what a stream goes on with.
	corsHeaders = "Accept, Accept-Language, Content-Type, Cache-Control, Content-Language, Expires, Last-Modified, Pragma, X-Auth-Token, Authorization, " +
		microversion.Header + ", " + microversion.MinHeader + ", " + microversion.MaxHeader + ", " + microversion.Standard + ", X-Openstack-Request-Id, Last-Event-Id"
)

// writeCORS tells browsers what pages of the configured origins may do. Others get
// nothing: their browsers keep the answer from them.
func (s *Server) writeCORS(h http.Header, req *http.Request) {
	if len(s.CORSOrigins) == 0 {
		return
	}
	h.Add("Vary", "Origin") // also without an origin: a cache must not give that answer to a page
	origin := req.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.CORSOrigins, origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	if req.Method != http.MethodOptions {
		h.Set("Access-Control-Expose-Headers", corsExposed)
		return
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", "3600")
}
